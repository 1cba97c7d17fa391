# SPDX-License-Identifier: Apache-2.0
"""Differences between runtimes in calling plugins, applying merged replies and later events.

Merging is upstream's and the same in all runtimes but iSulad. Facts come from tests or source code;
a runtime or a field without such a fact is "unknown", never assumed to be like another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from nri_scope.nri.merging import Creation, IsuladCreation, IsuladStopping, Stopping
from nri_scope.nri.merging.isulad import UPDATE_CRASH
from nri_scope.nri.versions import V0_12, NriVersion, runtime_title


class UpdatePath(Enum):
    """The path on which a runtime applies a container update requested by a plugin."""

    CRI = "cri"
    """Converted to a LinuxContainerResources of the CRI, which lacks most fields. Used by
    containerd for all updates (``toCRIResources`` in internal/cri/nri; read and tested with 1.7 to
    2.4).
    """
    CRI_O = "cri-o"
    """As `CRI`, but only processor settings, the memory limit and, with cgroup v2, unified settings
    reach the OCI runtime. Used by CRI-O for an UpdateContainer event's own container
    (``toOCIResources`` in server/container_update_resources.go, from the source of 1.37).
    """
    OCI_RUNTIME = "oci-runtime"
    """Passed unchanged to the OCI runtime. Used by CRI-O for containers other than the event's own
    and for unsolicited updates (``nriAPI.UpdateContainer``). In a test of 1.37 with runc, a pids
    limit and a memory reservation reached the cgroup.
    """
    UNKNOWN = "unknown"


UNORDERED = (
    "this runtime calls plugins in random order, and sends each the original container: changes by "
    "plugins without a recorded connection are not visible"
)


@dataclass(frozen=True, slots=True)
class RuntimeRules:
    """One runtime's behaviour in calling plugins, applying merged replies and later events."""

    has_ordered_chain: bool = True
    """Whether plugins are called in the order of their indices, up to the first error, each with
    the container as adjusted by the plugins before it. iSulad calls all plugins in random order,
    each with the original container. Assumed if unknown.
    """
    creation: type[Creation] | type[IsuladCreation] = Creation
    """Merging of the replies to CreateContainer."""
    stopping: type[Stopping] = Stopping
    """Merging of the replies to StopContainer."""
    update_crash: str = ""
    """Why the runtime would not survive an update that a plugin requests; "" if it does."""
    reports_adjustments: bool = True
    """Whether later events have the container as adjusted by the plugins. iSulad sends it without
    most adjustments, and with its own additions to the CRI request. Assumed if unknown.
    """
    own_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for the container of an UpdateContainer event."""
    other_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for all other containers."""
    repeats_requested_annotations: bool = True
    """Whether annotations of the CRI request override those of the spec in later events, so that an
    annotation that a plugin removed or replaced is unchanged there
    (``criContainer.GetAnnotations`` in containerd). Assumed if unknown.
    """
    adjusts_as_upstream: bool = False
    """Whether the runtime applies adjustments with upstream's generator, like `adjust`. iSulad does
    not.
    """
    memory_as_is: bool = False
    """Whether all memory settings of an adjustment are applied, see `adjust`."""
    ignores_evictions: bool = False
    """Whether the runtime ignores evictions. Tested on containerd 2.4-beta and CRI-O 1.37."""
    updates_stopped: bool = True
    """Whether stopped containers are updated. CRI-O does not (``nriAPI.UpdateContainer``)."""
    reports_all_updates: bool = True
    """Whether later events contain all effects of an update. CRI-O reports only the processor
    settings, memory and swap limits (``UpdateContainerLinuxResources``).
    """
    rlimits_since: NriVersion | None = None
    """First NRI version with the container's rlimits in events after a creation; None: always, or
    unknown. containerd 2.3 sends them (``commonContainerToNRI``), 1.7.24 and 2.1.9 do not (tested).
    """
    start_event: str = "StartContainer"
    """First event that shows a started container. iSulad sends StartContainer also if the start
    failed.
    """
    clears_uncreated_state: bool = False
    """Whether StopContainer after a failed creation has a container without state and process, as
    in containerd.
    """

    @property
    def blind_spot(self) -> str:
        """Which changes no passive connection can show; "" if each may be visible to one."""
        return "" if self.has_ordered_chain else UNORDERED


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
    "iSulad": RuntimeRules(
        has_ordered_chain=False,
        creation=IsuladCreation,
        stopping=IsuladStopping,
        update_crash=UPDATE_CRASH,
        reports_adjustments=False,
        memory_as_is=True,
        start_event="PostStartContainer",
    ),
}


def shows_start(event: str, runtime_name: str) -> bool:
    """Return whether an event of a runtime shows that its container was started."""
    return event in ("PostStartContainer", runtime_rules_of(runtime_name).start_event)


@lru_cache(maxsize=64)
def runtime_rules_of(runtime_name: str) -> RuntimeRules:
    """Return the rules of a runtime, by the name in its Configure request."""
    return _RULES.get(runtime_title(runtime_name), _UNKNOWN)
