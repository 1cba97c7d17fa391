# SPDX-License-Identifier: Apache-2.0
"""The history of a container: its first state, its steps and its current spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_scope.events import Event
from nri_scope.specs import Absent, Change, ChangeKind, Json, Spec, apply, same, value_at

from .attributed_changes import ChangeStep, Evidence, Outcome, OutcomeKind, Shows
from .owner import RUNTIME, UNKNOWN, Owner

DROPPED = OutcomeKind.DROPPED
REPEATED = (
    "events of this runtime repeat the annotations of the CRI request, which plugins before the "
    "first connection may have changed"
)
UNSURE_ANNOTATIONS = (
    "later events show other annotations than the chain: those of the CRI request, which this "
    "runtime repeats, or those that a later plugin set"
)
NEVER_RAN = "the container failed to start and never ran"


@dataclass(slots=True)
class History:
    """The history of a container, as far as it is known."""

    id: str
    name: str
    """``ns/pod/container``, without unknown parts."""
    base: Spec = field(default_factory=dict)
    """The spec before the first step."""
    base_owner: Owner = UNKNOWN
    """Owner of `base`; SPEC if the creation was observed from the beginning of the chain."""
    spec: Spec = field(default_factory=dict)
    """The current spec, as far as it is known."""
    steps: list[ChangeStep] = field(default_factory=list)
    """Requests in order. Those with an effect lead from `base` to `spec`."""
    open: dict[str, list[ChangeStep]] = field(default_factory=dict, init=False)
    """Requests whose outcome later evidence may show, by path, in order."""
    created_event: int = 0
    """Id of the first event of the creation; 0 if the creation was not observed."""
    created_until: int = 0
    """Id of the last event of the creation."""
    created: bool = True
    """Whether evidence shows that the container was created, not only requested."""
    shown: bool = False
    """Whether an event showed the container after the whole chain."""
    failure: str = ""
    """Reason of the creation's failure; "" if no evidence shows a failure."""
    tail: Owner = RUNTIME
    """Plugins that may have changed the container after the last connection that saw the creation;
    RUNTIME if none."""
    real: Spec | None = None
    """The whole spec that was actually used, if the CRI reported it."""
    real_event: int = 0
    """Id of the event with the CRI's report."""
    doubt: str = ""
    """Reason why the outcome of the creation is unknown; "" otherwise."""
    never_ran: str = ""
    """Reason why the container was created but failed to start; "" if nothing shows that."""
    running: frozenset[int] = frozenset()
    """Identities of the steps of an update that the runtime may not have applied yet."""
    removers: Mapping[str, Owner] = field(default_factory=dict)
    """Plugins that may have removed a key which another plugin set, by path."""
    only_recorded: dict[str, Json] = field(default_factory=dict)
    """Values that the runtime shows and the container's cgroup refutes, by path."""
    remarks: list[str] = field(default_factory=list)
    """Limits of the evidence, in words."""
    _known: set[int] = field(default_factory=set, init=False, compare=False)

    def __post_init__(self) -> None:
        """Index the steps."""
        steps, self.steps = self.steps, []
        self.add(steps)

    @property
    def beginning(self) -> str:
        """Description of the creation's event; "" if the creation was not observed."""
        if not self.created_event:
            return ""
        known = self.created and not self.failure and not self.doubt
        return f"{'created by' if known else 'CreateContainer:'} event {self.created_event}"

    def add(self, steps: Iterable[ChangeStep], spec: Spec | None = None) -> None:
        """Add steps that are not there yet, which led to `spec`; None for no new state."""
        for one in steps:
            if id(one) not in self._known:
                self._known.add(id(one))
                self.steps.append(one)
                if _is_open(one):
                    self.open.setdefault(one.change.path, []).append(one)
        if spec is not None:
            self.spec = spec

    def applied_part(self, shown: Spec) -> Spec:
        """Return what a runtime shows, with the known values where its own were refuted."""
        corrections = []
        for path, value in list(self.only_recorded.items()):
            if not same(value_at(shown, path), value):
                del self.only_recorded[path]
                continue
            known = value_at(self.spec, path)
            after = None if isinstance(known, Absent) else known
            kind: ChangeKind = "removed" if isinstance(known, Absent) else "changed"
            corrections.append(Change(path, value, after, kind))
        return apply(shown, corrections) if corrections else shown

    def open_at(self, path: str, now: Json | Absent, event: Event) -> list[ChangeStep]:
        """Return the open requests for a path that has the value `now`.

        Its removal is one of them, if the merged adjustment has one and the value is gone.
        """
        requests = self.open[path]
        who = self.removers.get(path)
        if who is not None and isinstance(now, Absent) and requests[-1].change.kind != "removed":
            gone = Change(path, requests[-1].change.after, None, "removed")
            removal = ChangeStep(
                self.id, gone, who, (Evidence.VALIDATOR,), event.id, event.at_ns, is_expected=False
            )
            self.add([removal])
        return self.open[path]

    def renew_open(self) -> list[ChangeStep]:
        """Remove the requests from `open` that have an outcome, and return them."""
        settled: list[ChangeStep] = []
        for path, some in list(self.open.items()):
            kept = [one for one in some if _is_open(one)]
            settled += (one for one in some if not _is_open(one))
            if any(one.outcome.kind is OutcomeKind.REQUESTED for one in kept):
                self.open[path] = kept
            else:
                del self.open[path]
        return settled

    @property
    def counted(self) -> list[ChangeStep]:
        """Steps that explain the spec. That of a failed creation is the one that was asked for."""
        failed = bool(self.failure or self.never_ran)
        return [
            one
            for one in self.steps
            if one.has_effect or (failed and one.is_expected and one.outcome.kind is not DROPPED)
        ]

    @property
    def without_effect(self) -> list[ChangeStep]:
        """All other steps."""
        counted = set(map(id, self.counted))
        return [one for one in self.steps if id(one) not in counted]

    def fail_start(self, failure: str, event: Event, shown_by: Shows) -> list[ChangeStep]:
        """Refuse the requests of a container that never ran; return them."""
        self.never_ran = failure
        outcome = Outcome.by(OutcomeKind.REFUSED, event, shown_by, NEVER_RAN)
        settled = (DROPPED, OutcomeKind.REFUSED)
        found = [one for one in self.steps if one.outcome.kind not in settled]
        for one in found:
            one.outcome = outcome
        self.renew_open()
        return found

    def add_remark(self, text: str) -> None:
        """Add a remark, unless it is already present."""
        if text not in self.remarks:
            self.remarks.append(text)

    def owner_of(self, path: str) -> tuple[Owner, tuple[Evidence, ...], ChangeStep | None]:
        """Return the owner of the current value at `path`, the evidence, and the step.

        The step is the newest one at `path` or a parent; None if the value is part of the
        container's first state. Moves do not change values.
        """
        for step in reversed(self.counted):
            change = step.change
            if change.kind == "moved":
                continue
            if path == change.path or path.startswith(f"{change.path}/"):
                return step.owner, step.evidence, step
        return self.base_owner, (), None

    def of(self, path: str) -> list[ChangeStep]:
        """Return all steps at `path`, its parents and its parts, in order."""
        below = f"{path}/"
        return [
            step
            for step in self.steps
            if step.change.path == path
            or step.change.path.startswith(below)
            or path.startswith(f"{step.change.path}/")
        ]


def _is_open(one: ChangeStep) -> bool:
    """Return whether later evidence may show the outcome. If the runtime drops the value that
    supersedes another one in the chain, either may be there.
    """
    kind, reason, shown_by, *_ = one.outcome
    if reason == REPEATED:
        # The next event repeats it, too.
        return False
    is_open = kind is OutcomeKind.REQUESTED or (
        kind is OutcomeKind.SUPERSEDED and shown_by is Shows.CHAIN
    )
    return is_open and one.change.path.startswith("/")
