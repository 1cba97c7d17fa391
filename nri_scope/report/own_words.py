# SPDX-License-Identifier: Apache-2.0
"""Words of the reports themselves, which the search for leaked values ignores."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from nri_scope.nri.methods import METHODS

_WORDS = """\
CONTAINER CONTAINER_EXITED Changes Compare Configure Conflict ContainerID ContainerStatus Containers
CreateContainer CreateContainerRequest CreateContainerResponse Creation DaemonSet Dropped Events
Findings Launched Legend Neither Nothing Omitted Plugins PostCreateContainer PostStartContainer
PostUpdateContainer RegisterPlugin Release RemoveContainer RemovePodSandbox Requests RunPodSandbox
Runtimes Secret Sessions Shutdown StartContainer StopContainer StopContainerRequest
StopContainerResponse StopPodSandbox Stopping Synchronize SynchronizeRequest UpdateContainer
UpdateContainerRequest UpdateContainerResponse UpdateContainers UpdateContainersRequest
UpdateContainersResponse UpdatePodSandbox Updating UseHierarchy ValidateContainerAdjustment
ValidateContainerAdjustmentRequest ValidateContainerAdjustmentResponse Values according actually
adjust adjusted affects afterwards already annotation annotations another answer answered answers
anything applied applies around-synchronize arrived arrives assignment assume backwards base-uri
before behind belongs beside between blockIO called cannot cdiDevices cgroup cgroups change changed
changes characters client closed closer closes command compare compared configuration conflict
connect connecting connection connections contained container containerd containers contains
continued continues create createContainer createRuntime created creation creations deadline decoded
deeply default-src defaults defined defines delete derive destination detail details device devices
differ difference differences different differently disable disconnected disconnects distinguish
drawing dropped duplicate-name duration during earlier effect elements elsewhere environment errors
evaluated events eviction evictions evidence exitCode expect external fail_request failed failing
failure faster fileMode filtered finding findings finite followed follows form-action handed
handlers happened happens hardware having history hugepage hugepageLimits iSulad idempotent ignores
included including indices inferred injected instance instead intelRdt intended ioPriority itself
keep_connected kernel killed killer kubernetes labels launched launches leaves legend lifecycle
listed longer longest malformed markdown measured measures median members memory memoryPolicy
message method metrics missed missed- mounts namespace namespaces narrows needed neither nested
netDevices network newest nothing notice nri-scope nri_plugin_request_timeout number object
oci-runtime operation operations options original others otherwise outcome outside oversized owners
pageSize passive period personal pinning places plugin plugins policy poststart poststop present
prestart prevents prints probably probes problem problems process purpose random realtime reason
receive received reconnect reconnected recorded recorder recording redact redacted redaction refuse
refused refuses rejected rejects release remarks removal remove removed removes repeat repeats
replace replaced replay replayed replies report reported request requested required reservation
resolved resource resources restart restarts return returned rlimit rlimits rshared rslave runtime
runtimeSpec runtimes scheduler schemata seccomp second secrets section service session sessions
settings several shared shares should something source stands startContainer started starts states
status stopped style-src subscribed summary supports swappiness synchronized sysctl tapped though
thousands through together tokens unified unknown unless unlimited unobserved unrecognized
unresolved unsolicited update updated updates usually validator validators values variable variables
warning warnings whether whichever within without
"""
"""Words of findings, headings and remarks. New words in these texts must be added here."""


@cache
def own_words() -> bytes:
    """Return text with all words that a report may contain for any recording."""
    from jinja2 import Environment

    templates = files(__package__ or "nri_scope.report").joinpath("templates")
    page = templates.joinpath("report.html.j2").read_text("utf-8")
    written = [_WORDS, templates.joinpath("report.css").read_text("utf-8")]
    # Only text: neither comments nor expressions.
    written += [text for _, token, text in Environment().lex(page) if token in ("data", "string")]
    written += [method.service for method in METHODS.values()]
    return "\n".join(written).encode()
