# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes where they differ in asking plugins, applying merged replies or reporting.

Merging is upstream's and the same in all runtimes. A runtime or a field that has not been tried or
read is "unknown" here, never assumed to be like another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nri_scope.nri.versions import V0_12, NriVersion, runtime_title


class UpdatePath(Enum):
    """The path of a container update that a plugin requests."""

    CRI = "cri"
    """Converted to a LinuxContainerResources of the CRI, which lacks most fields. Used by
    containerd for every update (``toCRIResources`` in internal/cri/nri, read and tried at 1.7 to
    2.4).
    """
    CRI_O = "cri-o"
    """The same, but only processor settings, the memory limit and, with cgroup v2, unified ones
    reach the OCI runtime. Used by CRI-O for an UpdateContainer event's own container
    (``toOCIResources`` in server/container_update_resources.go, read at 1.37).
    """
    OCI_RUNTIME = "oci-runtime"
    """Passed unchanged to the OCI runtime. Used by CRI-O for containers other than the event's own
    and for unsolicited updates (``nriAPI.UpdateContainer``): tried at 1.37 with runc, where a pids
    limit and a memory reservation reached the cgroup.
    """
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RuntimeRules:
    """How one runtime asks plugins, applies merged replies, and reports containers afterwards."""

    has_ordered_chain: bool = True
    """Whether plugins are asked in the order of their indices, up to the first error. iSulad asks
    all plugins, in any order. Assumed if unknown.
    """
    own_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for the container that an UpdateContainer event is about."""
    other_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for all other containers."""
    repeats_requested_annotations: bool = True
    """Whether later events show the annotations of the CRI request over those of the spec, so an
    annotation of the request that a plugin removed or replaced is shown unchanged
    (``criContainer.GetAnnotations`` in containerd). Assumed if unknown.
    """
    adjusts_as_upstream: bool = False
    """Whether it applies adjustments with upstream's generator, like `adjust`. iSulad does not."""
    ignores_evictions: bool = False
    """Whether it ignores evictions. Tried on containerd 2.4-beta and CRI-O 1.37."""
    updates_stopped: bool = True
    """Whether it updates stopped containers. CRI-O does not (``nriAPI.UpdateContainer``)."""
    reports_all_updates: bool = True
    """Whether the spec that it reports later has all effects of an update. CRI-O keeps only the
    processor settings, memory and swap limits (``UpdateContainerLinuxResources``).
    """
    rlimits_since: NriVersion | None = None
    """NRI version since which events after a creation have the container's rlimits; None: always,
    or unknown. containerd 2.3 has them (``commonContainerToNRI``), 1.7.24 and 2.1.9 do not (tried).
    """
    clears_uncreated_state: bool = False
    """Whether StopContainer after a failed creation has a container without state and process.
    containerd's has.
    """


_UNKNOWN = RuntimeRules()
_RULES = {
    "containerd": RuntimeRules(
        own_updates=UpdatePath.CRI,
        other_updates=UpdatePath.CRI,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        rlimits_since=V0_12,
        clears_uncreated_state=True,
    ),
    "CRI-O": RuntimeRules(
        own_updates=UpdatePath.CRI_O,
        other_updates=UpdatePath.OCI_RUNTIME,
        repeats_requested_annotations=False,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        updates_stopped=False,
        reports_all_updates=False,
    ),
    "iSulad": RuntimeRules(has_ordered_chain=False),
}


def runtime_rules_of(runtime_name: str) -> RuntimeRules:
    """Return the rules of a runtime, by the name in its Configure request."""
    return _RULES.get(runtime_title(runtime_name), _UNKNOWN)
