# SPDX-License-Identifier: Apache-2.0
"""Evaluate complete rounds: attribute their changes, and keep the histories of containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import CreationFate, Outcome
from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.nri.events import (
    CONTAINER_ENDS,
    CREATE,
    POD_ENDS,
    REMOVE,
    START,
    STOP,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
)
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.creation_outcomes import UNKNOWN
from nri_scope.recording.display import duration

from . import creation, updates
from . import evidence as other_evidence
from .attributed_changes import REQUESTED, ChangeStep, RoundDiff, Shows
from .chain import Chain, spans
from .containers import Containers
from .findings import (
    Findings,
    Shown,
    Source,
    Wanted,
    error_text,
    reply_of,
    request_of,
    runtime_rules_of,
    shown_by,
    version_of,
)
from .history import History
from .owner import Owned
from .rounds import CONTINUED, ENDED, SEEMS, ConnectionPart, Round, Rounds, is_ordered

UNDECIDED_MAX = 10_000
"""Maximum number of creations with an unknown outcome that are stored."""
_SET_UP = frozenset({"RegisterPlugin", "Configure", "Shutdown"})
"""Events that show nothing about containers."""
NOT_KNOWN = "it is not known whether the container was created"
UPDATES_OF_FAILED = "it was requested in a creation that failed later"
UPDATES_OF_OPEN = "it was requested in a creation whose outcome is unknown"
UPDATES_OF_FAILED_UPDATE = "it was requested in an update of another container that failed later"


@dataclass(slots=True)
class Evaluation:
    """Evaluation of rounds in order. The optional fields are those of `Differ`."""

    containers: Containers
    rounds: Rounds
    only: frozenset[str] | None
    only_findings: bool
    keep: bool
    removed: list[str] = field(default_factory=list)
    """Removed containers whose history is dropped with the next round."""
    found_changes: int = 0
    _undecided: dict[str, Round] = field(default_factory=dict)
    """Creations with an unknown outcome, by container."""
    _synchronized_with: set[int] = field(default_factory=set)
    """Sessions whose Synchronize listed all containers."""

    def creation(self, one: Round | None, validation: Round | None) -> list[RoundDiff]:
        whole = one or validation
        assert whole is not None
        owned = None if validation is None else _owned(validation)
        stations = one.stations if one else ()
        is_chosen = self.only is None or whole.first.container_id in self.only
        outcome = self._outcome_of(whole)
        created = outcome.fate is CreationFate.CREATED
        made = creation.creation(stations, owned, for_others=not is_chosen, created=created)
        found = Findings() if made is None else made.found
        chain = Chain.of(whole.stations) if made is None else made.chain
        if validation is not None:
            found.fail(other_evidence.rejection(validation))
        if created:
            found.failure = ""
        elif one is not None and not found.failure and validation is None:
            words = self.rounds.ended_early(one)
            if words.startswith(SEEMS) and outcome.fate is not CreationFate.FAILED:
                found.doubt = words
            else:
                found.fail(words)
        sure = created or not self.rounds.around.has_outcomes
        wanted = [*found.updates]
        if owned is not None and not found.failure:
            wanted += other_evidence.updates_of_validation(owned, chain)
        doubt, is_explained = "", bool(found.failure)
        if outcome.fate is CreationFate.FAILED:
            # Updates of other containers may have been applied before it failed.
            doubt = "" if found.failure else UPDATES_OF_FAILED
            found.failure = _confirmed(found.failure, outcome.words)
        elif outcome.fate is CreationFate.OPEN and not found.failure:
            doubt = UPDATES_OF_OPEN
            found.open_ns = outcome.after_ns
            found.doubt = f"{outcome.words}, {duration(outcome.after_ns)} later: {NOT_KNOWN}"
        elif one is not None and not (found.failure or found.doubt) and validation is None:
            self._note_left_open(one, found)
        if found.failure:
            found.refuse(found.failure, is_explained=is_explained)
        elif found.doubt:
            _doubt(found.steps, found.doubt)
        if made is None:
            found.note("the request cannot be decoded, so its changes are unknown")
            self._decide_later(whole, outcome)
            return [self._diff(whole, found, chain, extra=validation if one else None)]
        if self.only is not None and not is_chosen:
            # Only its effects on other containers matter.
            found.steps = [each for each in found.steps if each.container in self.only]
            self._beside(wanted, found, whole.stations[0], doubt=doubt)
            return [self._diff(whole, found, chain, extra=validation if one else None)]
        found.created = sure and not found.failure and not found.doubt
        history = History(
            made.container.id,
            self.containers.name_of(made.container.id),
            made.base,
            made.base_owner,
            made.spec,
            [each for each in found.steps if each.container == made.container.id],
            created_event=whole.first.id,
            created_until=(validation or whole).stations[-1].event.id,
            created=sure,
            failure=found.failure,
            tail=made.tail,
            doubt=found.doubt,
            removers=made.removers,
            remarks=list(found.remarks),
        )
        self.containers.created(history, whole.first, made.described)
        self._beside(wanted, found, whole.stations[0], doubt=doubt)
        self._decide_later(whole, outcome)
        if one is None:
            found.note("the chain was not observed")
        return [self._diff(whole, found, chain, extra=validation if one else None)]

    def _note_left_open(self, one: Round, found: Findings) -> None:
        words = self.rounds.left_open(one)
        if words and not found.failure:
            found.note(words)

    def _beside(
        self,
        wanted: Sequence[Wanted],
        found: Findings,
        station: ConnectionPart,
        failed: Sequence[str] | None = None,
        doubt: str = "",
    ) -> None:
        """Apply plugins' requests for other containers than the event's."""
        if self.only is not None:
            own = station.event.container_id
            wanted = [one for one in wanted if (one.update.container_id or own) in self.only]
        if not wanted:
            return
        event = station.event
        self.containers.updates_stopped = runtime_rules_of(station).updates_stopped
        self.containers.is_unheard = lambda container: self._is_unheard(container, event)
        updates.beside(
            wanted,
            found,
            self.containers,
            runtime_rules_of(station),
            version=version_of(station),
            failed=failed,
            doubt=doubt,
        )

    def _is_unheard(self, container: str, event: Event) -> bool:
        """Return whether all existing containers are known, and this is not one of them."""
        known = self.rounds.around.is_absent(container, event)
        if known is not None:
            return known
        if self.only is not None or self.rounds.gaps:
            return False
        bit = NriEvent.CreateContainer.bit
        sessions = (self.rounds.sessions.get(number) for number in self._synchronized_with)
        is_complete = any(one is not None and (not one.mask or one.mask & bit) for one in sessions)
        return is_complete and not self.containers.is_named(container)

    # -- the outcome of creations -------------------------------------------------------------

    def _outcome_of(self, one: Round) -> Outcome:
        """Return the outcome that later events show; UNKNOWN if these are not available."""
        return self.rounds.around.outcome(one.first)

    def _decide_later(self, one: Round, outcome: Outcome) -> None:
        container = one.first.container_id
        self._undecided.pop(container, None)
        if outcome.fate is CreationFate.UNKNOWN and self.rounds.around.has_outcomes:
            self._undecided[container] = one
            if len(self._undecided) > UNDECIDED_MAX:
                del self._undecided[next(iter(self._undecided))]

    def _decide(self, one: Round, found: Findings) -> None:
        """Decide the outcome of an undecided creation when its container or pod ends."""
        if one.name in CONTAINER_ENDS:
            candidates = [one.first.container_id]
        elif one.name in POD_ENDS:
            pod = one.first.pod_id
            candidates = [key for key, each in self._undecided.items() if each.first.pod_id == pod]
        else:
            return
        for container in candidates:
            creating = self._undecided.pop(container, None)
            outcome = UNKNOWN if creating is None else self._outcome_of(creating)
            history = self.containers.histories.get(container)
            if creating is None or outcome.fate is not CreationFate.FAILED or history is None:
                continue
            words = outcome.words
            if not history.failure:
                name = self.containers.name_of(container)
                found.note(f"the creation of {name} (event {creating.first.id}) failed: {words}")
            history.failure = _confirmed(history.failure, words)

    def other(self, one: Round) -> RoundDiff | None:
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
        if self.only is None or first.container_id in self.only:
            self._compare(shown_by(one.stations[0]), one.stations[0], found)
        if name == UPDATE:
            history = self.containers.history(first.container_id)
            chain = Chain.of(one.stations)
            outcome = self._outcome_of(one)
            failure = self.rounds.ended_early(one)
            words = outcome.words_of(UPDATE)
            if outcome.fate is CreationFate.FAILED:
                failure = _confirmed(failure, words)
            elif outcome.fate is CreationFate.CREATED:
                failure = ""
            elif failure.startswith(SEEMS):
                words, failure = failure, ""
            seen, spec = updates.updating(one, chain, history.spec, failure=failure)
            # Those of other containers may have been applied before it failed.
            doubt = UPDATES_OF_FAILED_UPDATE if words and seen.failure == words else ""
            if words and not seen.failure:
                _doubt(seen.steps, words)
                found.doubt = words if words.startswith(SEEMS) else ""
            tail = chain.between(one.stations[-1], None, or_runtime=True)
            own = [each for each in seen.steps if each.container == first.container_id]
            sessions = frozenset(station.session.id for station in one.stations)
            self.containers.updated(history, own, spec, tail, sessions)
            found.join(seen)
            self._note_left_open(one, found)
            self._beside(seen.updates, found, one.stations[0], doubt=doubt)
            found.steps += other_evidence.evictions_of_replies(one.stations)
        elif name == START:
            self._started(one, found)
        elif name == STOP:
            self.containers.stopped(first.container_id)
            found.fail(updates.stop_refusal(one.stations))
            wanted = other_evidence.updates_of_replies(one.stations)
            self._beside(wanted, found, one.stations[0])
        elif one.stopped_at is not None:
            at = one.stopped_at
            found.fail(error_text(at))
        if not is_ordered(one.stations[0]):
            for failing in one.failing:
                found.note(f"{error_text(failing)}; {CONTINUED}")
        if name == REMOVE:
            self.containers.removed(first.container_id)
            if not self.keep:
                self.removed.append(first.container_id)
        if self.only_findings and found.is_empty and self.rounds.has_no_times(one):
            return None
        return self._plain(one, found)

    def _started(self, one: Round, found: Findings) -> None:
        """Check whether a start failed, at a runtime that sends StartContainer after it."""
        station = one.stations[0]
        history = self.containers.histories.get(one.first.container_id)
        if one.stopped_at is not None:
            found.fail(error_text(one.stopped_at))
        if history is None or runtime_rules_of(station).start_event == START:
            return
        outcome = self._outcome_of(one)
        if outcome.fate is CreationFate.FAILED:
            found.fail(outcome.words_of(START))
            found.settled += history.fail_start(found.failure, one.first, Shows.NO_EVENT)

    def _compare(self, shown: Shown | None, station: ConnectionPart, found: Findings) -> None:
        """Compare the container in an event with its known state."""
        if shown is None:
            return
        drift = self.containers.compare(shown, station.event, runtime_rules_of(station))
        found.steps += drift.steps
        found.settled += drift.settled

    def _out_of_turn(self, one: Round) -> RoundDiff:
        found = Findings()
        station = one.stations[0]
        request = cast("api.UpdateContainersRequest | None", request_of(station))
        if request is not None:
            reply = cast("api.UpdateContainersResponse | None", reply_of(station))
            failed = [each.container_id for each in reply.failed] if reply is not None else []
            source = Source.of(station)
            wanted = [Wanted(source, each) for each in request.update]
            if reply is None:
                found.fail(station.event.status_message or "the runtime answered with an error")
            self._beside(wanted, found, station, failed)
            found.steps += other_evidence.evictions(
                source, request.evict, runtime_rules_of(station)
            )
        return self._plain(one, found)

    def _synchronized(self, one: Round) -> RoundDiff:
        found = Findings()
        station = one.stations[0]
        request = cast("api.SynchronizeRequest | None", request_of(station))
        if request is not None:
            for pod in request.pods:
                self.containers.learn_pod(pod)
            for container in request.containers:
                if self.only is not None and container.id not in self.only:
                    continue
                if container.id in self.containers.histories:
                    # The container may have changed while no connection observed it.
                    self._compare(Shown.of(container), station, found)
                else:
                    self.containers.know(container)
            self._synchronized_with.add(station.session.id)
        wanted = other_evidence.updates_of_replies(one.stations, merged=False)
        self._beside(wanted, found, station)
        return self._plain(one, found)

    def _status(self, one: Round) -> RoundDiff | None:
        """Return the findings from the CRI's answer about a container, if any."""
        station = one.stations[0]
        status = other_evidence.container_status(station.reply)
        container = one.first.container_id
        judged = self.containers.judge(container, status, station.event)
        if judged is None and not status.failure:
            return None
        found = Findings(failure=status.failure)
        if judged is not None:
            found.steps, found.settled = judged.steps, judged.settled
        history = self.containers.histories.get(container)
        if history is not None and status.failure:
            history.add_remark(f"this spec was created, but never ran: {status.failure}")
        return self._plain(one, found)

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
                self.containers.done(step.container, one.stations[0].answered_ns)
            elif step.container != first.container_id and not step.is_without_effect:
                self.containers.touched(step.container)
            if step.container in self.containers.histories:
                self.containers.histories[step.container].add([step])
        stations = one.stations if extra is None else one.stations + extra.stations
        self.found_changes += len(found.steps)
        return RoundDiff(
            event=first.id,
            events=tuple([station.event.id for station in stations]),
            name=CREATE if name == VALIDATE else name,
            at_ns=first.at_ns,
            container=first.container_id,
            pod=first.pod_id,
            seen_by=tuple([station.plugin for station in one.stations]),
            missed_by=tuple([session.plugin for session in self.rounds.missed_by(one)]),
            chain=chain.plugins,
            steps=tuple(found.steps),
            settled=tuple(found.settled),
            spans=spans(one, chain),
            failure=found.failure,
            doubt=found.doubt,
            open_ns=found.open_ns,
            created=found.created,
            remarks=tuple(found.remarks),
        )


def _doubt(steps: Iterable[ChangeStep], doubt: str) -> None:
    """Say of open requests why their outcome is not known."""
    for one in steps:
        if one.is_open:
            one.outcome = REQUESTED._replace(reason=doubt)


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
