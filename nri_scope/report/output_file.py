# SPDX-License-Identifier: Apache-2.0
"""Write a report's text, and name its own words, which the search for leaked values ignores."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from nri_scope.nri.events import METHODS

_WORDS = """\
CONTAINER CONTAINER_EXITED Changes Compare Configure Conflict ContainerID ContainerStatus Containers
CreateContainer CreateContainerRequest CreateContainerResponse Creation DaemonSet Dropped Events
Findings IOPRIO_CLASS_IDLE Launched Legend MPOL_BIND Mounts Neither Nothing Omitted Plugins
PostCreateContainer PostStartContainer PostUpdateContainer RegisterPlugin Release RemoveContainer
RemovePodSandbox Requests RunPodSandbox Runtimes SCHED_IDLE SCHED_OTHER Secret Sessions Shutdown
StartContainer StopContainer StopContainerRequest StopContainerResponse StopPodSandbox Stopping
Subscribe Synchronize SynchronizeRequest Unrecorded UpdateContainer UpdateContainerRequest
UpdateContainerResources UpdateContainerResponse UpdateContainers UpdateContainersRequest
UpdateContainersResponse UpdatePodSandbox Updating UseHierarchy ValidateContainerAdjustment
ValidateContainerAdjustmentRequest ValidateContainerAdjustmentResponse Values Whether accept
according actually adjust adjusted adjustments affects afterwards almost already although annotation
annotations another answer answered answers anything applied applies architectures
around-synchronize arrived arrives assignment assume backwards base-uri before behind belongs beside
between blockIO called cannot cdiDevices cgroup cgroups change changed changes characters client
closed closer closes command compare compared configuration conflict connect connecting connection
connections contained container container_id containerd containers contains continued continues
cpuset crashes create createContainer createRuntime created creation creations crictl deadline
decoded deeply default-src defaultAction defaults defined defines delete depends derive destination
detail details device devices differ difference differences different differently disable
disableOOMKiller disconnected disconnects distinguish drawing dropped duplicate-name duration during
earlier effect elements elsewhere environment errors evaluated events eviction evictions evidence
example exitCode expect explain external fail_request failed failing failure faster fileMode
filtered finding findings finite followed follows form-action handed handlers happened happens
hardware having history hugepage hugepageLimits iSulad idempotent ignore_failure ignores included
including indices inferred injected instance instead intelRdt intended ioPriority isulad itself
keep_connected kernel
killed killer kubelet kubernetes labels launched launches leaves legend lifecycle listed longer
longest malformed manager markdown measured measures median members memory memoryPolicy merged
message method metrics missed missed- mounts namespace namespaces narrows needed neither nested
netDevices network newest nothing notice nri-scope nri_plugin_request_timeout number object
oci-runtime oom_score_adj operation operations options original others otherwise outcome outside
oversized owners pageSize passive period personal pinning places plugin plugins policy poststart
poststop present prestart prevents prints priority probably probes problem problems process program
purpose random realtime reason receive received reconnect reconnected recorded recorder recording
redact redacted redaction refuse refused refuses rejected rejects release remarks removal remove
removed removes repaired repeat repeats replace replaced replay replayed replies report reported
request requested requests required reservation resizes resolved resource resources restart restarts
return returned rlimit rlimits rshared rslave runtime runtimeSpec runtimes scheduler schemata
seccomp second secrets section service session sessions settings several shared shares should
something source stands startContainer started starts states static status stayed stopped style-src
subscribed summary superseded supports swappiness synchronized sysctl tapped though thousands
through together tokens unchanged unified unknown unless unlimited unobserved unrecognized
unrecorded unresolved unresolvedClass unsolicited update updated updates usually validator
validators values variable variables warning warnings whether whichever within without
"""
"""Words of findings, headings and remarks. New words in these texts must be added here."""


def write(path: Path, parts: Iterable[str]) -> int:
    """Write a new UTF-8 file with mode 0600; return its size in bytes. Raises OSError."""
    # 0600, regardless of the umask.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        for part in parts:
            # A recording may contain lone surrogates.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()


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
