# SPDX-License-Identifier: Apache-2.0
"""Words that every report may contain: the search for leaked values does not report them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from nri_scope.nri.methods import METHODS

_SENTENCES = """\
Answer CONTAINER CONTAINER_EXITED Changes Compare Configure Conflict ContainerID ContainerStatus
Containers CreateContainer CreateContainerRequest CreateContainerResponse Creation DaemonSet
Diagnosis Dropped Findings Launched Neither Nothing Plugins PostCreateContainer
PostStartContainer PostUpdateContainer RegisterPlugin Release RemoveContainer RemovePodSandbox
RunPodSandbox Runtimes Sessions Shutdown StartContainer StopContainer StopContainerRequest
StopContainerResponse StopPodSandbox Stopping Synchronize SynchronizeRequest UpdateContainer
UpdateContainerRequest UpdateContainerResponse UpdateContainers UpdateContainersRequest
UpdateContainersResponse UpdatePodSandbox Updating UseHierarchy ValidateContainerAdjustment
ValidateContainerAdjustmentRequest ValidateContainerAdjustmentResponse Values adjust adjusted
advice afterwards already annotation annotations another answer answered answers
anything applied applies around-synchronize asking assignment attention backwards base-uri
became before behind belongs beside besides between blockIO called cannot cdiDevices cgroup
cgroups change changed changes characters client closed closer closes compare compared configuration
conflict connect connection connections container containerd containers course create
createContainer createRuntime created creation creations deadline decides deeply default-src
defaults defined delete derive destination detail details device devices differ difference
differences different differently disable disconnected drawing dropped duplicate-name duration
during earlier effect elements elsewhere environment events eviction evictions evidence exitCode
expect explanation external failed failing failure faster fileMode filtered finding findings
followed follows form-action handed handlers happened hardware having history hugepage
hugepageLimits iSulad idempotent ignores included indices inferred injected instance instead
intelRdt ioPriority itself kernel killed killer kubernetes labels launches leaves longer longest
malformed markdown measured measures median members memory memoryPolicy message method missed
missed- mounts namespace namespaces narrows needed neither nested netDevices network newest
nothing notice nri-scope nri_plugin_request_timeout number object oci-runtime operation options
others otherwise outside oversized owners pageSize passive period personal pinning places plugin
plugins poststart poststop present prestart probably probes problem process purpose raised
random really realtime reason recorded recorder recording redact redacted refuse refused refuses
rejected release remarks removal remove removed removes repeat repeats replace replaced replay
replayed report request requested required reservation resolved resource resources restart
return rlimit rlimits rshared rslave runtime runtimeSpec runtimes scheduler schemata seccomp
second secrets section service session sessions settings several shared shares should something
source stands startContainer started starts status stopped style-src subscribed succeed summary
swappiness synchronized sysctl tapped thinks though thousands through together tokens unified
unknown unless unlimited unrecognized unresolved unseen unsolicited update updated updates
usually validator validators values variable variables warning warnings wherever whether
whichever within without
"""
"""Words of findings, headings and remarks. A new word in one of them must be added here."""


@cache
def own_words() -> bytes:
    """Return words that a report may contain for any recording."""
    from jinja2 import Environment

    templates = files(__package__ or "nri_scope.report").joinpath("templates")
    page = templates.joinpath("report.html.j2").read_text("utf-8")
    written = [_SENTENCES, templates.joinpath("report.css").read_text("utf-8")]
    # Neither comments nor code.
    written += [text for _, token, text in Environment().lex(page) if token in ("data", "string")]
    written += [method.service for method in METHODS.values()]
    return "\n".join(written).encode()
