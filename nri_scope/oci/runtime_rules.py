# SPDX-License-Identifier: Apache-2.0
"""Differences between runtimes in calling plugins, applying merged replies and later events.

Merging is upstream's and the same in all runtimes but iSulad. Facts come from tests or source code;
a runtime or a field without such a fact is "unknown", never assumed to be like another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import ContainerAdjustment
from nri_scope.nri.events import POST_START, START
from nri_scope.nri.merging import CreationMerging, IsuladCreation, IsuladStopping, StopMerging
from nri_scope.nri.versions import runtime_title, sort_key
from nri_scope.specs.json_spec import Json, Spec, copy_object, restore_if_unchanged

from . import docker_spec, isulad_spec
from .adjustment import adjust
from .container import update_by_oci_runtime, update_resources
from .values import keep_unknown, unknown_fields


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


POD_SPEC = "Pod spec/CRI"
VOIDED = "replied with an update of the same container without resources, which voids the request"
"""See `RuntimeRules.voids_empty_updates`; the CRI call succeeds."""
LOGGED = "this runtime only logs it if an update of another container fails"
IGNORED = "with ignore_failure, a failure of the update is not reported"
CREATIONS_ONLY = (
    "this runtime informs plugins of the creation of a container only, before it is carried out: "
    "whether it succeeded and later changes are not visible"
)
UNORDERED = (
    "this runtime calls plugins in random order, and sends each the original container: changes by "
    "plugins without a recorded connection are not visible"
)


@dataclass(frozen=True, slots=True)
class RefusalRules:
    """What a runtime with its own application of adjustments refuses or drops."""

    treatment: Callable[[str, Json], tuple[str, str]]
    """Returns why the runtime refuses a creation because of the adjustment of a path to a value,
    and why it drops the adjustment; see `docker_spec.treatment`."""
    updates: str
    """The error about an update in a reply to CreateContainer; the runtime applies no update."""
    error_of: Callable[[Iterable[str]], str]
    """Returns the runtime's error about all refusals of one creation; "" without any."""
    error_outside_chain: Callable[[str], str]
    """Returns the error about updates in a reply to this event, or in an unsolicited call."""


@dataclass(frozen=True, slots=True)
class RuntimeRules:
    """One runtime's behaviour in calling plugins, applying merged replies and later events."""

    origin: str = POD_SPEC
    """Name of the source of what is in a container before any plugin adjusts it."""
    has_ordered_chain: bool = True
    """Whether plugins are called in the order of their indices, up to the first error, each with
    the container as adjusted by the plugins before it. iSulad calls all plugins in random order,
    each with the original container. Assumed if unknown.
    """
    creation: type[CreationMerging] | type[IsuladCreation] = CreationMerging
    """Merging of the replies to CreateContainer."""
    stopping: type[StopMerging] = StopMerging
    """Merging of the replies to StopContainer."""
    dies_of_updates: bool = False
    """Whether the runtime would not survive an update of a container that the CRI or a plugin
    requests; ``nri.merging.isulad`` has the exceptions.
    """
    adjust: Callable[[Spec, ContainerAdjustment], Spec] = adjust
    """Application of a merged adjustment, or of one plugin's, to a spec."""
    sorts_mounts: bool = True
    """Whether all mounts are sorted if one is adjusted. Assumed if unknown."""
    first: Callable[[Spec], Spec] = dict
    """The container's spec before the adjustment, from that in its CreateContainer."""
    written: Callable[[Spec], Spec] = dict
    """The spec that the OCI runtime gets, with the values that the runtime itself derives."""
    reported_paths: tuple[str, ...] = ("/",)
    """Beginnings of the paths at which later events have the container as adjusted by the plugins.
    iSulad sends it without most adjustments, and with its own additions to the CRI request: of
    annotations, mounts and devices that a plugin added, only devices were there (2.1.6, tested).
    All paths are assumed if unknown.
    """
    own_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for the container of an UpdateContainer event."""
    other_updates: UpdatePath = UpdatePath.UNKNOWN
    """Path for all other containers."""
    voids_empty_updates: bool = False
    """Whether a reply to UpdateContainer with an update of the same container without resources
    replaces the whole request, so that nothing is applied. Tested on containerd 2.4.2 and CRI-O
    1.37.
    """
    logs_failed_updates: bool = False
    """Whether an operation succeeds although the OCI runtime refused an update of another container
    (tested on containerd 2.4.2; CRI-O 1.37 fails the operation).
    """
    repeats_requested_annotations: bool = True
    """Whether annotations of the CRI request override those of the spec in later events, so that an
    annotation that a plugin removed or replaced is unchanged there
    (``criContainer.GetAnnotations`` in containerd). Assumed if unknown.
    """
    creates_in_stopped_pods: bool = True
    """Whether containers can be created in a stopped pod. Assumed if unknown. containerd 1.7.24 and
    2.4.2 and CRI-O 1.33.9 to 1.36.3 refuse it (tested); `runtime_rules_of` has the exceptions."""
    drops_cdi_devices: str = ""
    """Why the runtime drops the CDI devices of plugins; "" if it injects them, or if unknown."""
    refusals: RefusalRules | None = None
    """What the runtime refuses or drops. None if it uses upstream's generator, or if unknown."""
    shows_outcomes: bool = True
    """Whether events after CreateContainer show whether the container was created."""
    adjusts_as_upstream: bool = False
    """Whether the runtime is known to apply adjustments with upstream's generator."""
    ignores_evictions: bool = False
    """Whether the runtime ignores evictions in replies. Tested on containerd 2.4-beta, CRI-O 1.37
    and iSulad 2.1.6, which dies of unsolicited ones (``dies_of_updates``).
    """
    updates_stopped: bool = True
    """Whether stopped containers are updated. CRI-O does not (``nriAPI.UpdateContainer``)."""
    reports_all_updates: bool = True
    """Whether later events contain all effects of an update. CRI-O reports only the processor
    settings, memory and swap limits (``UpdateContainerLinuxResources``).
    """
    start_event: str = START
    """First event that shows a started container. iSulad sends StartContainer also if the start
    failed.
    """
    clears_uncreated_state: bool = False
    """Whether StopContainer after a failed creation has a container without state and process, as
    in containerd.
    """

    @property
    def reports_adjustments(self) -> bool:
        """Whether later events show all that plugins changed."""
        return self.reported_paths == ("/",)

    @property
    def blind_spot(self) -> str:
        """Which changes no passive connection can show; "" if each may be visible to one."""
        if not self.shows_outcomes:
            return CREATIONS_ONLY
        return "" if self.has_ordered_chain else UNORDERED


_WITHOUT_CDI = {
    "containerd": (((1, 7, 26), (1, 7, 30)), ((2, 0, 0), (2, 1, 0))),
    "CRI-O": (((1, 32, 0), (1, 34, 0)),),
}
"""Versions, from and before, that drop CDI devices (containerd 1.7.29 tested, others read). Their
NRI has such devices, and they pass no ``WithCDIDeviceInjector``."""
_DROPS_CDI = "drops the CDI devices of plugins"
_CREATES_IN_STOPPED_PODS = {"containerd": (((2, 0, 0), (2, 2, 6)), ((2, 3, 0), (2, 3, 3)))}
"""Versions, from and before (2.0.3 and 2.1.9 tested, others read: ``CreateContainer``)."""
UNKNOWN = RuntimeRules()
_RULES = {
    "containerd": RuntimeRules(
        creates_in_stopped_pods=False,
        own_updates=UpdatePath.CRI,
        other_updates=UpdatePath.CRI,
        voids_empty_updates=True,
        logs_failed_updates=True,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        clears_uncreated_state=True,
    ),
    "CRI-O": RuntimeRules(
        creates_in_stopped_pods=False,
        own_updates=UpdatePath.CRI_O,
        other_updates=UpdatePath.OCI_RUNTIME,
        voids_empty_updates=True,
        repeats_requested_annotations=False,
        adjusts_as_upstream=True,
        ignores_evictions=True,
        updates_stopped=False,
        reports_all_updates=False,
    ),
    "Docker Engine": RuntimeRules(
        origin="Docker's client",
        adjust=docker_spec.adjust,
        sorts_mounts=False,
        # Synchronize has variables, but no mounts.
        reported_paths=("/process/env/",),
        refusals=RefusalRules(
            docker_spec.treatment,
            docker_spec.UPDATES,
            docker_spec.error_of,
            docker_spec.error_outside_chain,
        ),
        shows_outcomes=False,
        ignores_evictions=True,
    ),
    "iSulad": RuntimeRules(
        has_ordered_chain=False,
        creation=IsuladCreation,
        stopping=IsuladStopping,
        dies_of_updates=True,
        ignores_evictions=True,
        adjust=isulad_spec.adjust,
        first=isulad_spec.first,
        written=isulad_spec.written,
        sorts_mounts=False,
        reported_paths=("/linux/devices/",),
        start_event=POST_START,
    ),
}


def shows_start(event: str, runtime_name: str) -> bool:
    """Return whether an event of a runtime shows that its container was started."""
    return event in (POST_START, runtime_rules_of(runtime_name).start_event)


@lru_cache(maxsize=64)
def runtime_rules_of(runtime_name: str, runtime_version: str = "") -> RuntimeRules:
    """Return the rules of a runtime, by the name in its Configure request.

    With the version there, they include the rules of this version.
    """
    title = runtime_title(runtime_name)
    rules = _RULES.get(title, UNKNOWN)
    key = sort_key(runtime_version)
    release = (0, 0, 0) if key is None else key[:3]
    if any(a <= release < b for a, b in _WITHOUT_CDI.get(title, ())):
        rules = replace(rules, drops_cdi_devices=f"{title} {runtime_version} {_DROPS_CDI}")
    if any(a <= release < b for a, b in _CREATES_IN_STOPPED_PODS.get(title, ())):
        return replace(rules, creates_in_stopped_pods=True)
    return rules


def update(
    spec: Spec,
    change: api.LinuxResources | api.ContainerUpdate,
    path: UpdatePath = UpdatePath.CRI,
) -> Spec:
    """Return `spec` with the resources of `change` applied, as a new spec that shares the rest.

    `path` is the path of the update in the runtime; `remarks` lists the settings lost there.
    Through the CRI, the swap limit follows the memory limit unless `spec` has only a memory limit,
    as on nodes that cannot limit swap. containerd appends huge page limits, the last of which is
    effective for its size; the result has only the effective limits. For an unknown path, only
    settings that all known paths apply are applied.
    """
    new = dict(spec)
    message = change.linux.resources if isinstance(change, api.ContainerUpdate) else change
    if path is UpdatePath.OCI_RUNTIME:
        update_by_oci_runtime(copy_object(new, "linux"), message)
    else:
        update_resources(
            copy_object(new, "linux"),
            message,
            sets_swap=path is not UpdatePath.UNKNOWN,
            of_cri=path is UpdatePath.CRI,
        )
    restore_if_unchanged(new, "linux", spec)
    keep_unknown(new, unknown_fields(change, "update"))
    return new
