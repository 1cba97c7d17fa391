# SPDX-License-Identifier: Apache-2.0
"""Turn a sequence of events into the changes of each round and the histories of containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event, Gap, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.creation_outcomes import UNKNOWN, CreationFate, Outcome
from nri_scope.recording.display import duration

from . import creation, updates
from . import evidence as other_evidence
from .attributed_changes import ChangeStep, Evidence, PluginRequest, RoundDiff
from .chain import Chain
from .containers import Containers
from .findings import (
    Findings,
    Wanted,
    error_text,
    evidence_of,
    reply_of,
    request_of,
    runtime_rules_of,
    version_of,
)
from .history import History
from .later_changes import Shown, shown_by
from .owner import plugin
from .rounds import (
    ASIDE,
    CONTAINER_STATUS,
    CONTINUED,
    CREATE,
    ENDED,
    SEEMS,
    STOP,
    SYNCHRONIZE,
    UNDOING,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
    ConnectionPart,
    Round,
    Rounds,
    is_ordered,
)
from .spans import spans
from .validator_owners import Owned

_CHANGE_COST = 80
"""Budget units per change, which uses about 1 kB. Recordings of real runtimes contain some 5,000
changes in 10 MB.
"""
WAITING_BYTES_MAX = 16 << 20
"""Maximum size in bytes of the events that wait for the end of a round."""
UNDECIDED_MAX = 10_000
"""Maximum number of creations with an unknown outcome that are stored."""
_SET_UP = frozenset({"RegisterPlugin", "Configure", "Shutdown"})
"""Events that show nothing about containers."""
NOT_KNOWN = "it is not known whether the container was created"
UPDATES_OF_FAILED = "it was requested in a creation that failed"
UPDATES_OF_OPEN = "it was requested in a creation whose outcome is unknown"
_WAITING_EVENT_BYTES = 1 << 10
"""Bytes counted per waiting event in addition to its messages."""


class Differ:
    """Attribution of the changes of each round, for events in the order of a recording.

    ``histories`` contains every container by id; without ``keep``, removed containers are dropped.
    All input is untrusted: messages that cannot be decoded are skipped, and no method raises.
    """

    def __init__(
        self,
        sessions: Iterable[Session] = (),
        *,
        keep: bool = True,
        only: Iterable[str] | None = None,
        gaps: Iterable[Gap] = (),
        follows: Callable[[Event], bool] | None = None,
        had_its_place: Callable[[Session, Event], bool] | None = None,
        had_joined: Callable[[Session, Event], bool] | None = None,
        outcome: Callable[[Event], Outcome] | None = None,
        unheard: Callable[[str, Event], bool] | None = None,
        only_findings: bool = False,
    ) -> None:
        """Start without events. ``only``: ids of the containers that matter; of all others only the
        effects on these are examined. ``gaps``, ``follows``, ``had_its_place`` and ``had_joined``:
        see `Rounds`. ``outcome`` returns the outcome of a creation by later events of the
        recording, see `Creations`; without it each creation counts as successful unless an event
        fed shows otherwise. ``unheard`` reports whether a container does not exist, if not all
        events are fed. ``only_findings``: leave out rounds without changes, failures and times, so
        that they take less time.
        """
        self._only_findings = only_findings
        self._only = None if only is None else frozenset(only)
        self._containers = Containers()
        self._rounds = Rounds.of(sessions)
        self._rounds.follows = follows
        self._rounds.had_its_place = had_its_place
        self._rounds.had_joined = had_joined
        self.lose(gaps)
        self._keep = keep
        self._creation: Round | None = None
        """A CreateContainer whose chain is complete, but which may still be validated."""
        self._validated = ""
        """The container of the validators' last request."""
        self._removed: list[str] = []
        """Removed containers whose history is dropped with the next round."""
        self._waiting: list[Round] = []
        """Rounds from outside the chain that arrived during an open round."""
        self._waiting_bytes = 0
        self._found_changes = 0
        self._outcome = outcome
        self._unheard = unheard
        self._undecided: dict[str, Round] = {}
        """Creations with an unknown outcome, by container."""
        self._synchronized_with: set[int] = set()
        """Sessions whose Synchronize listed all containers."""

    @property
    def histories(self) -> dict[str, History]:
        """All known containers, by id."""
        return self._containers.histories

    def begin(self, session: Session) -> None:
        """Add a new session, or replace a known session by its newest state."""
        self._rounds.sessions[session.id] = session

    def lose(self, gaps: Iterable[Gap]) -> None:
        """Replace the known gaps by `gaps`."""
        self._rounds.gaps = tuple(gap for gap in gaps if not gap.is_left_out)

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> list[RoundDiff]:
        """Process the next event; return the rounds that it completes."""
        found = self._feed(event, request, reply)
        # Afterwards: the rounds before it did not know the container yet.
        self._containers.learn_name(event)
        return found

    def _feed(self, event: Event, request: bytes, reply: bytes) -> list[RoundDiff]:
        over = self._rounds.feed(event, request, reply)
        if over is None:
            return []
        if over.first.method not in ASIDE:
            found = self._take(over)
            return found if self._creation is not None else [*found, *self._take_waiting()]
        # Such an event can arrive during an open round, and may concern the result of that round.
        self._waiting.append(over)
        self._waiting_bytes += _WAITING_EVENT_BYTES + sum(map(len, (request, reply)))
        if not self._rounds.goes_on(event):
            return self.flush()
        return [] if self._waiting_bytes <= WAITING_BYTES_MAX else self._take_waiting()

    def flush(self) -> list[RoundDiff]:
        """Return the open rounds, as far as they were observed."""
        over = self._rounds.flush()
        found = [] if over is None else self._take(over)
        return [*found, *self._finish_creation(None), *self._take_waiting()]

    def flush_over(self) -> list[RoundDiff]:
        """Return the open rounds, if no existing connection can add to them."""
        return [] if self._rounds.goes_on() else self.flush()

    def take_work(self) -> int:
        """Return the budget units of the last event, in addition to its messages.

        They count the elements that were searched, and the changes found since the last call.
        """
        changes, self._found_changes = self._found_changes, 0
        return self._rounds.looked_at + _CHANGE_COST * changes

    @property
    def open(self) -> Round | None:
        """The open round, as far as it was observed; None if there is none."""
        return self._rounds.open

    @property
    def first_waiting(self) -> int | None:
        """Id of the first event whose round was not returned yet; None if there is none."""
        rounds = (self._rounds.open, self._creation, *self._waiting)
        return min((one.first.id for one in rounds if one is not None), default=None)

    def name_of(self, container_id: str) -> str:
        """Return ``ns/pod/container``; the beginning of the id if the name is unknown."""
        return self._containers.name_of(container_id)

    def know(self, container: api.Container, name: str = "") -> History:
        """Add an existing container in the state that Synchronize shows."""
        return self._containers.know(container, name)

    def _take_waiting(self, before: int | None = None) -> list[RoundDiff]:
        """Return the waiting rounds from outside the chain, or only those before an event."""
        if not self._waiting:
            return []
        later = [] if before is None else [one for one in self._waiting if one.first.id > before]
        ready = self._waiting[: len(self._waiting) - len(later)]
        self._waiting = later
        self._waiting_bytes = self._waiting_bytes if later else 0
        return [diff for one in ready if (diff := self._other(one)) is not None]

    # -- rounds -----------------------------------------------------------------------------

    def _take(self, one: Round) -> list[RoundDiff]:
        while self._removed:
            # Not earlier: until now, callers may need the name.
            self._containers.forget(self._removed.pop())
        if one.name == CREATE:
            found = [*self._finish_creation(None), *self._take_waiting(one.first.id)]
            self._containers.settle(one)
            self._creation = one
            if one.over_by is not None and one.over_by.event != VALIDATE:
                # Runtimes call validators immediately, or not at all.
                found += self._finish_creation(None)
            return found
        if one.name == VALIDATE:
            return self._validate(one)
        found = [*self._finish_creation(None), *self._take_waiting(one.first.id)]
        self._containers.settle(one)
        self._validated = ""
        diff = self._other(one)
        if diff is not None:
            found.append(diff)
        return found

    def _validate(self, one: Round) -> list[RoundDiff]:
        container = one.first.container_id
        if self._creation is not None and self._creation.first.container_id == container:
            self._validated = container
            return self._finish_creation(one)
        found = self._finish_creation(None)
        # Runtimes call validators in parallel, so a late one has a round of its own.
        if container != self._validated:
            self._validated = container
            found += self._created(None, one)
        return found

    def _finish_creation(self, validation: Round | None) -> list[RoundDiff]:
        one, self._creation = self._creation, None
        return [] if one is None else self._created(one, validation)

    def _created(self, one: Round | None, validation: Round | None) -> list[RoundDiff]:
        whole = one or validation
        assert whole is not None
        owned = None if validation is None else _owned(validation)
        stations = one.stations if one else ()
        is_chosen = self._only is None or whole.first.container_id in self._only
        made = creation.creation(stations, owned, for_others=not is_chosen)
        found = Findings() if made is None else made.found
        chain = Chain.of(whole.stations) if made is None else made.chain
        if validation is not None:
            found.fail(other_evidence.rejection(validation))
        outcome = self._outcome_of(whole)
        if outcome.fate is CreationFate.CREATED:
            # An unobserved plugin in between removed the value, so there was no conflict.
            found.failure = ""
        elif one is not None and not found.failure and validation is None:
            found.fail(self._rounds.ended_early(one))
        sure = outcome.fate is CreationFate.CREATED or self._outcome is None
        wanted = [*found.updates]
        if owned is not None and not found.failure:
            wanted += other_evidence.updates_of_validation(owned, chain)
        doubt = ""
        if outcome.fate is CreationFate.FAILED:
            doubt = "" if found.failure else UPDATES_OF_FAILED
            found.failure = _confirmed(found.failure, outcome.words)
        elif outcome.fate is CreationFate.OPEN and not found.failure:
            doubt = UPDATES_OF_OPEN
            found.open_ns = outcome.after_ns
            found.doubt = f"{outcome.words}, {duration(outcome.after_ns)} later: {NOT_KNOWN}"
        elif one is not None and not found.failure and validation is None:
            self._note_left_open(one, found)
        if made is None:
            found.note("the request cannot be decoded, so its changes are unknown")
            self._decide_later(whole, outcome)
            return [self._diff(whole, found, chain, extra=validation if one else None)]
        if self._only is not None and not is_chosen:
            # Only its effects on other containers matter.
            found.steps = []
            found.asked = [each for each in found.asked if each.container in self._only]
            self._beside(wanted, found, whole.stations[0], doubt=doubt)
            return [self._diff(whole, found, chain, extra=validation if one else None)]
        found.created = sure and not found.failure and not found.doubt
        history = History(
            made.container.id,
            self.name_of(made.container.id),
            made.base,
            made.base_owner,
            made.spec,
            [one for one in found.steps if one.container == made.container.id],
            created_event=whole.first.id,
            created_until=(validation or whole).stations[-1].event.id,
            created=sure,
            failure=found.failure,
            tail=made.tail,
            doubt=found.doubt,
            remarks=list(found.remarks),
        )
        self._containers.created(history, whole.first, made.described)
        self._beside(wanted, found, whole.stations[0], doubt=doubt)
        self._decide_later(whole, outcome)
        if one is None:
            found.note("the chain was not observed")
        return [self._diff(whole, found, chain, extra=validation if one else None)]

    def _note_left_open(self, one: Round, found: Findings) -> None:
        words = self._rounds.left_open(one)
        if words and not found.failure:
            found.note(words)

    def _beside(
        self,
        wanted: Sequence[Wanted],
        found: Findings,
        station: ConnectionPart,
        failed: Iterable[str] = (),
        doubt: str = "",
    ) -> None:
        """Apply plugins' requests for other containers than the event's."""
        if self._only is not None:
            wanted = [one for one in wanted if one.update.container_id in self._only]
        if not wanted:
            return
        event = station.event
        self._containers.updates_stopped = runtime_rules_of(station).updates_stopped
        self._containers.is_unheard = lambda container: self._is_unheard(container, event)
        updates.beside(
            wanted,
            found,
            self._containers,
            runtime_rules_of(station),
            version=version_of(station),
            failed=failed,
            doubt=doubt,
        )

    def _is_unheard(self, container: str, event: Event) -> bool:
        """Return whether all existing containers are known, and this is not one of them."""
        if self._unheard is not None:
            return self._unheard(container, event)
        if self._only is not None or self._rounds.gaps:
            return False
        bit = NriEvent.CreateContainer.bit
        sessions = (self._rounds.sessions.get(number) for number in self._synchronized_with)
        is_complete = any(one is not None and (not one.mask or one.mask & bit) for one in sessions)
        return is_complete and not self._containers.is_named(container)

    # -- the outcome of creations -------------------------------------------------------------

    def _outcome_of(self, one: Round) -> Outcome:
        """Return the outcome that later events show; UNKNOWN if these are not available."""
        return UNKNOWN if self._outcome is None else self._outcome(one.first)

    def _decide_later(self, one: Round, outcome: Outcome) -> None:
        container = one.first.container_id
        self._undecided.pop(container, None)
        if outcome.fate is CreationFate.UNKNOWN and self._outcome is not None:
            self._undecided[container] = one
            if len(self._undecided) > UNDECIDED_MAX:
                del self._undecided[next(iter(self._undecided))]

    def _decide(self, one: Round, found: Findings) -> None:
        """Decide the outcome of an undecided creation when its container or pod ends."""
        if one.name in UNDOING:
            candidates = [one.first.container_id]
        elif one.name in ("StopPodSandbox", "RemovePodSandbox"):
            pod = one.first.pod_id
            candidates = [key for key, each in self._undecided.items() if each.first.pod_id == pod]
        else:
            return
        for container in candidates:
            creating = self._undecided.pop(container, None)
            outcome = UNKNOWN if creating is None else self._outcome_of(creating)
            history = self.histories.get(container)
            if creating is None or outcome.fate is not CreationFate.FAILED or history is None:
                continue
            words = outcome.words
            if not history.failure:
                found.note(
                    f"the creation of {self.name_of(container)} (event {creating.first.id}) "
                    f"failed: {words}"
                )
            history.failure = _confirmed(history.failure, words)

    def _other(self, one: Round) -> RoundDiff | None:
        first = one.first
        name = first.event
        if name in _SET_UP:
            return None
        if first.method == CONTAINER_STATUS:
            return self._status(one)
        if name == UNSOLICITED:
            return self._out_of_turn(one)
        if name == SYNCHRONIZE:
            return self._synchronized(one)
        found = Findings()
        self._decide(one, found)
        if self._only is None or first.container_id in self._only:
            self._look_at(one, found)
        if name == UPDATE:
            history = self._containers.history(first.container_id)
            chain = Chain.of(one.stations)
            seen, spec = updates.updating(
                one, chain, history.spec, failure=self._rounds.ended_early(one)
            )
            tail = chain.between(one.stations[-1], None, or_runtime=True)
            self._containers.updated(history, seen.steps, spec, tail)
            _join(found, seen)
            self._note_left_open(one, found)
            self._beside(seen.updates, found, one.stations[0])
            found.asked += other_evidence.evictions_of_replies(one.stations)
        elif name == STOP:
            self._containers.stopped(first.container_id)
            found.fail(updates.stop_refusal(one.stations))
            wanted = other_evidence.updates_of_replies(one.stations)
            self._beside(wanted, found, one.stations[0])
        elif one.stopped_at is not None:
            at = one.stopped_at
            found.fail(error_text(at))
        if not is_ordered(one.stations[0]):
            for failing in one.failing:
                found.note(f"{error_text(failing)}; {CONTINUED}")
        if name == "RemoveContainer":
            self._containers.removed(first.container_id)
            if not self._keep:
                self._removed.append(first.container_id)
        if self._only_findings and found.is_empty and self._rounds.has_no_times(one):
            return None
        return self._plain(one, found)

    def _look_at(self, one: Round, found: Findings) -> None:
        """Compare the container in an event with its known state."""
        station = one.stations[0]
        shown = shown_by(station)
        if shown is not None:
            self._compare(shown, station, found)

    def _compare(self, shown: Shown, station: ConnectionPart, found: Findings) -> None:
        steps, asked = self._containers.compare(shown, station.event, runtime_rules_of(station))
        found.steps += steps
        found.asked += asked

    def _out_of_turn(self, one: Round) -> RoundDiff:
        found = Findings()
        station = one.stations[0]
        request = cast("api.UpdateContainersRequest | None", request_of(station))
        if request is not None:
            reply = cast("api.UpdateContainersResponse | None", reply_of(station))
            failed = [each.container_id for each in reply.failed] if reply is not None else []
            owner, evidence = plugin(station.plugin), evidence_of(station)
            wanted = [Wanted(owner, evidence, station.event, each) for each in request.update]
            if reply is None:
                found.fail(station.event.status_message or "the runtime answered with an error")
            self._beside(wanted, found, station, failed)
            found.asked += other_evidence.evictions(
                owner, evidence, station.event, request.evict, runtime_rules_of(station)
            )
        return self._plain(one, found)

    def _synchronized(self, one: Round) -> RoundDiff:
        found = Findings()
        station = one.stations[0]
        request = cast("api.SynchronizeRequest | None", request_of(station))
        if request is not None:
            for pod in request.pods:
                self._containers.learn_pod(pod)
            for container in request.containers:
                if self._only is not None and container.id not in self._only:
                    continue
                if container.id in self.histories:
                    # The container may have changed while no connection observed it.
                    self._compare(Shown.of(container), station, found)
                else:
                    self.know(container)
            self._synchronized_with.add(station.session.id)
        wanted = other_evidence.updates_of_replies(one.stations, merged=False)
        self._beside(wanted, found, station)
        return self._plain(one, found)

    def _status(self, one: Round) -> RoundDiff | None:
        """Return the findings from the CRI's answer about a container, if any."""
        station = one.stations[0]
        status = other_evidence.container_status(station.reply)
        steps: list[ChangeStep] | None = None
        if status.spec is not None:
            container = one.first.container_id
            steps = self._containers.judge(container, status.spec, station.event)
        if steps is None and not status.failure:
            return None
        history = self.histories.get(one.first.container_id)
        if history is not None and status.failure:
            history.add_remark(f"this spec was created, but never ran: {status.failure}")
        return self._plain(one, Findings(steps=steps or [], failure=status.failure))

    # -- results ----------------------------------------------------------------------------

    def _plain(self, one: Round, found: Findings) -> RoundDiff:
        return self._diff(one, found, Chain.of(one.stations))

    def _diff(
        self, one: Round, found: Findings, chain: Chain, *, extra: Round | None = None
    ) -> RoundDiff:
        first, name = one.first, one.name
        for step in found.steps:
            if name == UNSOLICITED:
                # The runtime replies after it has applied the updates.
                self._containers.done(step.container, one.stations[0].answered_ns)
            elif step.container != first.container_id and Evidence.EVENTS not in step.evidence:
                self._containers.touched(step.container)
        asked: dict[str, list[PluginRequest]] = {}
        for each in found.asked:
            asked.setdefault(each.container, []).append(each)
        for container, requests in asked.items():
            if container in self.histories:
                self.histories[container].ask(requests)
        stations = one.stations if extra is None else one.stations + extra.stations
        self._found_changes += len(found.steps)
        return RoundDiff(
            event=first.id,
            events=tuple([station.event.id for station in stations]),
            name=CREATE if name == VALIDATE else name,
            at_ns=first.at_ns,
            container=first.container_id,
            pod=first.pod_id,
            seen_by=tuple([station.plugin for station in one.stations]),
            missed_by=tuple([session.plugin for session in self._rounds.missed_by(one)]),
            chain=chain.plugins,
            steps=tuple(found.steps),
            asked=tuple(found.asked),
            spans=spans(one, chain),
            failure=found.failure,
            doubt=found.doubt,
            open_ns=found.open_ns,
            created=found.created,
            remarks=tuple(found.remarks),
        )


def _confirmed(failure: str, words: str) -> str:
    """Return a failure that later events show, with the description from the chain."""
    if failure.startswith(SEEMS):
        failure = f"{ENDED}{failure.removeprefix(SEEMS)}"
    return "; ".join(filter(None, (failure, words)))


def _owned(validation: Round) -> Owned | None:
    for station in validation.stations:
        request = cast("api.ValidateContainerAdjustmentRequest | None", request_of(station))
        if request is not None:
            return Owned(station.event, request, version_of(station))
    return None


def _join(into: Findings, other: Findings) -> None:
    into.steps += other.steps
    into.asked += other.asked
    into.fail(other.failure)
    for remark in other.remarks:
        into.note(remark)
