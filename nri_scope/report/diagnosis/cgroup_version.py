# SPDX-License-Identifier: Apache-2.0
"""Detect settings for cgroup v2 (``unified``) on a node with cgroup v1.

NRI does not report a node's cgroup version. But containerd and CRI-O give unprivileged containers a
cgroup namespace on v2 only; and on v1 runc rejects a container with ``unified``, which is then
removed without having been started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.rounds import CREATE
from nri_scope.differ.render import wording
from nri_scope.events import Event
from nri_scope.specs import Spec

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, Latest, RecordingFacts

_PATH = "/linux/resources/unified"
_ADVICE = (
    "Set `unified` only on nodes with cgroup v2 (`stat -fc %T /sys/fs/cgroup` prints cgroup2fs), "
    "and the settings of v1 (cpu, memory, pids) on other nodes; or move the node to cgroup v2."
)
_STARTS = ("StartContainer", "PostStartContainer")
_BOTH = frozenset({*_STARTS, "StopContainer", "RemoveContainer"})


class Unified(Detector):
    """Detector of ``unified`` on cgroup v1."""

    def __init__(self, scene: RecordingFacts, spec_of: Callable[[str], Spec]) -> None:
        super().__init__(scene)
        self._spec_of = spec_of
        self._waiting: Latest[tuple[int, str], tuple[int, str, str]] = Latest()
        """Containers that are not started yet: event, owner of ``unified``, and name."""
        self._started: Latest[tuple[int, str], bool] = Latest()
        self._shown: dict[str, Shown] = {}
        self._is_v2 = False

    def see(self, event: Event) -> None:
        """Check whether a container is started, or ends without a start."""
        if event.event not in _BOTH:
            return
        key = 0, event.container_id
        if event.event in _STARTS:
            # Rounds arrive late: this event may precede the round of the container's creation.
            if key not in self._started:
                self._started[key] = True
            self._waiting.pop(key, None)
        elif (waiting := self._waiting.pop(key, None)) is not None:
            number, owner, name = waiting
            if self._scene.wanted(event):
                self._shown.setdefault(owner, Shown()).add(number, event.id, container=name)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether a plugin sets a value in ``unified``."""
        if diff.name != CREATE or self._is_v2:
            return
        if _has_cgroup_namespace(self._spec_of(diff.container)):
            self._is_v2 = True
            return
        if diff.failure or self._started.get((0, diff.container)):
            return
        for step in diff.own:
            if step.change.path.startswith(_PATH) and step.change.kind != "removed":
                if step.owner.who in (OwnerKind.RUNTIME, OwnerKind.REQUEST):
                    continue
                name = self._scene.name_of(diff.container)
                self._waiting[0, diff.container] = step.event, wording.owner(step.owner), name
                return

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each owner; none if any container has a cgroup namespace."""
        if self._is_v2:
            return
        for owner, shown in self._shown.items():
            count = len(shown.containers)
            yield shown.finding(
                FindingKind.UNIFIED,
                Level.WARNING,
                f"{owner} set `unified`, probably on a node with cgroup v1",
                f"{count:,} container{'s were' if count != 1 else ' was'} created with `unified` "
                "and without a cgroup namespace (a sign of cgroup v1), and ended without a start. "
                "On cgroup v1 runc rejects containers with `unified`; the runtime's log then "
                "contains the error.",
                _ADVICE,
            )


def _has_cgroup_namespace(spec: Spec) -> bool:
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    return isinstance(namespaces, list) and any(
        isinstance(one, dict) and one.get("type") == "cgroup" for one in namespaces
    )
