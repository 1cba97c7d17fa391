# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes for requests of plugins, where runtimes differ.

Merging is upstream's and the same in all of them; what is done with the result is not. A runtime
or a field that has not been tried or read is "unknown" here, never one of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nri_scope.nri.versions import runtime_title


class UpdatePath(Enum):
    """Which way an update of a container takes that a plugin asks for."""

    CRI = "cri"
    """It becomes a LinuxContainerResources of the CRI, which lacks most fields. So containerd, for
    every update (``toCRIResources`` in internal/cri/nri, read and tried at 1.7 to 2.4)."""
    CRI_O = "cri-o"
    """The same, of which only processor settings, the memory limit and, with cgroup v2, unified
    ones reach the OCI runtime. So CRI-O for an UpdateContainer event's own container
    (``toOCIResources`` in server/container_update_resources.go, read at 1.37)."""
    OCI_RUNTIME = "oci-runtime"
    """It is handed to the OCI runtime as it is. So CRI-O, for containers beside the one that an
    event is about and for unsolicited updates (``nriAPI.UpdateContainer``): tried at 1.37 with
    runc, where a pids limit and a memory reservation reached the cgroup."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Manner:
    """What one runtime does with merged replies."""

    own_updates: UpdatePath = UpdatePath.UNKNOWN
    """Of the container that an UpdateContainer event is about."""
    other_updates: UpdatePath = UpdatePath.UNKNOWN
    """Of all other containers."""
    repeats_requested_annotations: bool = True
    """Later events show the annotations of the CRI request over those of the spec, so an
    annotation of the request that a plugin removed or replaced is shown unchanged
    (``criContainer.GetAnnotations`` in containerd). Taken to be so where it is not known."""
    adjusts_as_upstream: bool = False
    """It applies adjustments with upstream's generator, as `adjust` has it. iSulad does not."""
    ignores_evictions: bool = False
    """Tried on containerd 2.4-beta and CRI-O 1.37."""
    updates_stopped: bool = True
    """It updates containers that were stopped. CRI-O does not (``nriAPI.UpdateContainer``)."""
    tells_all_updates: bool = True
    """The spec that it reports later has all that an update did. CRI-O keeps the processor
    settings, memory and swap limits only (``UpdateContainerLinuxResources``)."""


_UNKNOWN = Manner()
_MANNERS = {
    "containerd": Manner(
        UpdatePath.CRI, UpdatePath.CRI, adjusts_as_upstream=True, ignores_evictions=True
    ),
    "CRI-O": Manner(
        UpdatePath.CRI_O,
        UpdatePath.OCI_RUNTIME,
        repeats_requested_annotations=False,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        updates_stopped=False,
        tells_all_updates=False,
    ),
}


def manner_of(runtime_name: str) -> Manner:
    """Return the rules of a runtime, by the name in its Configure request."""
    return _MANNERS.get(runtime_title(runtime_name), _UNKNOWN)
