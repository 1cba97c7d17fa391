# SPDX-License-Identifier: Apache-2.0
"""The history of a container: its first state, its steps and its current spec."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

from nri_scope import specs
from nri_scope.events import Event
from nri_scope.recording.query.coverage import Coverage
from nri_scope.specs import Absent, Change, Json, Spec

from .attributed_changes import ChangeStep, Evidence, OutcomeKind, RequestOutcome, Shows
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


class ShownChanges(NamedTuple):
    """What an event, or an answer of the CRI, shows about a container."""

    steps: tuple[ChangeStep, ...] = ()
    """Changes that no earlier request explains."""
    settled: tuple[ChangeStep, ...] = ()
    """Earlier requests whose outcome it shows."""

    def joined(self, other: ShownChanges) -> ShownChanges:
        """Return what two parts of an answer show, with each request once."""
        known = {request.key for requests in self for request in requests}
        steps, settled = ([each for each in part if each.key not in known] for part in other)
        return ShownChanges((*self.steps, *steps), (*self.settled, *settled))


@dataclass(slots=True)
class History:
    """The history of a container, as far as it is known."""

    id: str
    name: str = ""
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
    running: frozenset[object] = frozenset()
    """Keys of the steps of an update that the runtime may not have applied yet."""
    removers: Mapping[str, Owner] = field(default_factory=dict)
    """Plugins that may have removed a key which another plugin set, by path."""
    only_recorded: dict[str, Json] = field(default_factory=dict)
    """Values that the runtime shows and the container's cgroup refutes, by path."""
    absences: tuple[str, ...] = ()
    """Sentences about plugins that missed the creation."""
    coverage: Coverage | None = field(default=None, compare=False)
    """What the recording observed of its life; None if that was not derived."""
    remarks: list[str] = field(default_factory=list)
    """Limits of the evidence, in words."""
    _known: set[object] = field(default_factory=set, init=False, compare=False)

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
        for step in steps:
            if step.key not in self._known:
                self._known.add(step.key)
                self.steps.append(step)
                if _is_open(step):
                    self.open.setdefault(step.change.path, []).append(step)
        if spec is not None:
            self.spec = spec

    def applied_part(self, shown: Spec) -> Spec:
        """Return what a runtime shows, with the known values where its own were refuted."""
        corrections = []
        for path, value in list(self.only_recorded.items()):
            if not specs.same(specs.value_at(shown, path), value):
                del self.only_recorded[path]
                continue
            corrections.append(specs.whole_change(path, value, specs.value_at(self.spec, path)))
        return specs.apply(shown, corrections) if corrections else shown

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
            kept = [request for request in some if _is_open(request)]
            settled += (request for request in some if not _is_open(request))
            if any(request.outcome.kind is OutcomeKind.REQUESTED for request in kept):
                self.open[path] = kept
            else:
                del self.open[path]
        return settled

    def _counts(self, step: ChangeStep) -> bool:
        """Return whether a step explains the spec: of a failed creation, the requested one."""
        failed = bool(self.failure or self.never_ran)
        return step.has_effect or (failed and step.is_expected and step.outcome.kind is not DROPPED)

    @property
    def counted(self) -> list[ChangeStep]:
        """Steps that explain the spec."""
        return [step for step in self.steps if self._counts(step)]

    @property
    def without_effect(self) -> list[ChangeStep]:
        """All other steps."""
        return [step for step in self.steps if not self._counts(step)]

    def fail_start(self, failure: str, event: Event, shown_by: Shows) -> list[ChangeStep]:
        """Refuse the requests of a container that never ran; return them."""
        self.never_ran = failure
        outcome = RequestOutcome.by(OutcomeKind.REFUSED, event, shown_by, NEVER_RAN)
        refused = [step for step in self.steps if not step.is_without_effect]
        for step in refused:
            step.settle(outcome)
        self.renew_open()
        return refused

    @property
    def final_spec(self) -> Spec:
        """The newest known spec: the CRI's spec with later changes, if the CRI reported one."""
        if self.real is None:
            return self.spec
        spec = self.real
        later = (step for step in self.counted if step.event > self.real_event)
        # Apply steps with the same event, evidence and owner together, before the next group.
        for _, steps in groupby(later, key=lambda step: (step.event, step.evidence, step.owner)):
            spec = specs.apply(spec, [step.change for step in steps])
        return spec

    @property
    def limits(self) -> list[str]:
        """Doubt, remarks, and what was not observed, in words."""
        unobserved = "" if self.coverage is None else self.coverage.words
        return [*filter(None, [self.doubt]), *self.remarks, *filter(None, [unobserved])]

    def add_remark(self, text: str) -> None:
        """Add a remark, unless it is already present."""
        if text not in self.remarks:
            self.remarks.append(text)

    def steps_at(self, path: str) -> list[ChangeStep]:
        """Return all steps at `path`, its parents and its parts, in order."""
        below = f"{path}/"
        return [
            step
            for step in self.steps
            if step.change.path == path
            or step.change.path.startswith(below)
            or path.startswith(f"{step.change.path}/")
        ]


def _is_open(step: ChangeStep) -> bool:
    """Return whether later evidence may show the outcome. If the runtime drops the value that
    supersedes another one in the chain, either may be there.
    """
    kind, reason, shown_by, *_ = step.outcome
    if reason == REPEATED:
        # The next event repeats it, too.
        return False
    is_open = kind is OutcomeKind.REQUESTED or (
        kind is OutcomeKind.SUPERSEDED and shown_by is Shows.CHAIN
    )
    return is_open and step.change.path.startswith("/")


EARLIER = "the earlier value is there"
ANOTHER = "another value is there"
NO_VALUE = "no value is there"


def settle(
    requests: Sequence[ChangeStep],
    now: Json | Absent,
    event: Event,
    shown_by: Shows,
    running: Collection[object] = (),
    *,
    is_known: bool = False,
) -> bool:
    """Settle the open requests for one path, in order, by the value that the container has now.

    ``running``: keys of requests that may be applied later; ``is_known``: whether the known
    state has the value. Return whether the requests explain the value: one of them asked for it, or
    it is initial.

    The value is *initial* if no request asks for it, and the first one replaced it. Requests after
    the explaining one are *later* than the value; if the value is initial, all are. The first line
    that matches a request decides:

    =========================  ===================  ===============================
    request                    outcome              `is_expected`
    =========================  ===================  ===============================
    explains the value         seen, or in effect   true
    superseded in its chain    unchanged            false if the value is initial
    running                    unchanged            false
    later, for the same value  unchanged            false
    later, for another value   dropped              unchanged
    earlier, expected          superseded           unchanged
    earlier, not expected      unchanged            unchanged
    =========================  ===================  ===============================
    """
    by = partial(RequestOutcome.by, event=event, shown_by=shown_by)
    expected = [request for request in requests if request.is_expected]
    explaining = _explaining_request(requests, expected, now)
    first = [*expected, *(requests if is_known else ())][:1]
    is_initial = explaining is None and any(request.was(now) for request in first)
    is_later = is_initial
    for request in requests:
        if request is explaining:
            happened = OutcomeKind.SEEN if shown_by is Shows.EVENT else OutcomeKind.IN_EFFECT
            request.confirm(by(happened))
            is_later = True
        elif request.outcome.kind is OutcomeKind.SUPERSEDED:
            if is_initial:
                request.expect_no_longer()
        elif request.key in running or (is_later and not is_initial and request.asks_for(now)):
            # The known state does not have its value yet, or has it by an earlier request.
            request.expect_no_longer()
        elif is_later:
            is_voided = request.outcome.is_voided
            words = NO_VALUE if isinstance(now, Absent) else EARLIER
            words += f": {request.outcome.reason}" if is_voided else ""
            request.drop(by(OutcomeKind.DROPPED, reason=words)._replace(is_voided=is_voided))
        elif request.is_expected:
            outcome = by(OutcomeKind.SUPERSEDED, reason=_replacement(explaining, now))
            actual = None if isinstance(now, Absent) else now
            request.settle(outcome._replace(actual=actual))
    return explaining is not None or is_initial


def _replacement(explaining: ChangeStep | None, now: Json | Absent) -> str:
    """Return what took the place of an earlier value, in words."""
    if explaining is not None:
        return f"by {explaining.owner}"
    return NO_VALUE if isinstance(now, Absent) else ANOTHER


def _explaining_request(
    requests: Sequence[ChangeStep], expected: Sequence[ChangeStep], now: Json | Absent
) -> ChangeStep | None:
    """Return the request by which the container has the value `now`; None if none asked for it."""
    if expected and expected[-1].asks_for(now):
        # A later request, of an operation that may have failed, only repeats it.
        return expected[-1]
    return next((request for request in reversed(requests) if request.asks_for(now)), None)
