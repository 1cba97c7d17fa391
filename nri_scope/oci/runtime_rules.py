# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes for requests of plugins, where runtimes differ.

Merging is upstream's and the same in all of them; the handling of the result is not. A runtime or a
field that has not been tried or read is "unknown" here, never assumed to be like another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nri_scope.nri.versions import runtime_title


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
    """How one runtime handles merged replies."""

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
    tells_all_updates: bool = True
    """Whether the spec that it reports later has all effects of an update. CRI-O keeps only the
    processor settings, memory and swap limits (``UpdateContainerLinuxResources``).
    """


_UNKNOWN = RuntimeRules()
_MANNERS = {
    "containerd": RuntimeRules(
        UpdatePath.CRI, UpdatePath.CRI, adjusts_as_upstream=True, ignores_evictions=True
    ),
    "CRI-O": RuntimeRules(
        UpdatePath.CRI_O,
        UpdatePath.OCI_RUNTIME,
        repeats_requested_annotations=False,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        updates_stopped=False,
        tells_all_updates=False,
    ),
}


def runtime_rules_of(runtime_name: str) -> RuntimeRules:
    """Return the rules of a runtime, by the name in its Configure request."""
    return _MANNERS.get(runtime_title(runtime_name), _UNKNOWN)
