# SPDX-License-Identifier: Apache-2.0
"""Turn a sequence of events into the changes of each round and the histories of containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate
from nri_scope.events import ASIDE, CONTAINER_STATUS, INTRODUCTION, Event, Gap, Session
from nri_scope.nri.events import (
    CREATE,
    REMOVE,
    SHUTDOWN,
    START,
    STOP,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
    EventKind,
)
from nri_scope.recording.query.cri_answers import container_status

from .attributed_changes import Failure, FailureKind, RoundDiff, Shows
from .containers import Containers
from .creation import CreationEvaluation, UnorderedCreation
from .history import History
from .observed_round import (
    CONTINUED,
    GONE,
    ConnectionPart,
    Round,
    RoundChain,
    ShownContainer,
    spans,
)
from .round_results import (
    RequestedUpdate,
    RequestSource,
    RoundResults,
    evictions,
    evictions_of_replies,
    rejection,
    updates_of_replies,
)
from .rounds import NO_SURROUNDINGS, Rounds, Surroundings
from .updates import UpdateEvaluation, UpdatesOfOthers, stop_refusal
from .validation import OwnerList

_CHANGE_COST = 80
"""Budget units per change, which uses about 1 kB. Recordings of real runtimes contain some 5,000
changes in 10 MB.
"""
WAITING_BYTES_MAX = 16 << 20
"""Maximum size in bytes of the events that wait for the end of a round."""
_WAITING_EVENT_BYTES = 1 << 10
"""Bytes counted per waiting event in addition to its messages."""
_WITHOUT_CONTAINERS = INTRODUCTION | {SHUTDOWN}
"""Events that show nothing about containers."""


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
        around: Surroundings = NO_SURROUNDINGS,
    ) -> None:
        """Start without events. ``only``: ids of the containers that matter; of all others only the
        effects on these are examined. ``gaps``: see `Rounds`. ``around``: what the recording shows
        beyond these events; without it each creation counts as successful unless an event fed
        shows otherwise.
        """
        self._containers = Containers()
        self._rounds = Rounds.of(sessions, around)
        self.replace_gaps(gaps)
        self._only = None if only is None else frozenset(only)
        self._keep = keep
        self._creation: Round | None = None
        """A CreateContainer whose chain is complete, but which may still be validated."""
        self._validated = ""
        """The container of the validators' last request."""
        self._waiting: list[Round] = []
        """Rounds from outside the chain that arrived during an open round."""
        self._waiting_bytes = 0
        self._removed: list[str] = []
        """Removed containers whose history is dropped with the next round."""
        self._synchronized_with: set[int] = set()
        """Sessions whose Synchronize listed all containers."""
        self._unspent_changes = 0
        """Number of the changes found since `take_work`."""

    @property
    def histories(self) -> dict[str, History]:
        """All known containers, by id."""
        return self._containers.histories

    def begin(self, session: Session) -> None:
        """Add a new session, or replace a known session by its newest state."""
        self._rounds.begin(session)

    def replace_gaps(self, gaps: Iterable[Gap]) -> None:
        """Replace the known gaps by `gaps`."""
        self._rounds.gaps = tuple(gap for gap in gaps if not gap.is_left_out)

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> list[RoundDiff]:
        """Process the next event; return the rounds that it completes."""
        diffs = self._feed(event, request, reply)
        # Afterwards: the rounds before it did not know the container yet.
        self._containers.learn_name(event)
        return diffs

    def _feed(self, event: Event, request: bytes, reply: bytes) -> list[RoundDiff]:
        over = self._rounds.feed(event, request, reply)
        if over is None:
            return []
        if over.first.method not in ASIDE:
            diffs = self._complete(over)
            return diffs if self._creation is not None else [*diffs, *self._take_waiting()]
        # Such an event can arrive during an open round, and may concern the result of that round.
        self._waiting.append(over)
        self._waiting_bytes += _WAITING_EVENT_BYTES + sum(map(len, (request, reply)))
        if not self._rounds.goes_on(event):
            return self.flush()
        return [] if self._waiting_bytes <= WAITING_BYTES_MAX else self._take_waiting()

    def flush(self) -> list[RoundDiff]:
        """Return the open rounds, as far as they were observed."""
        over = self._rounds.flush()
        diffs = [] if over is None else self._complete(over)
        return [*diffs, *self._finish_creation(None), *self._take_waiting()]

    def flush_over(self) -> list[RoundDiff]:
        """Return the open rounds, if no existing connection can add to them."""
        return [] if self._rounds.goes_on() else self.flush()

    def take_work(self) -> int:
        """Return the budget units of the last event, in addition to its messages.

        They count the elements that were searched, and the changes found since the last call.
        """
        changes, self._unspent_changes = self._unspent_changes, 0
        return self._rounds.looked_at + _CHANGE_COST * changes

    @property
    def open(self) -> Round | None:
        """The open round, as far as it was observed; None if there is none."""
        return self._rounds.open

    @property
    def first_waiting(self) -> int | None:
        """Id of the first event whose round was not returned yet; None if there is none."""
        rounds = (self._rounds.open, self._creation, *self._waiting)
        return min((each.first.id for each in rounds if each is not None), default=None)

    def name_of(self, container_id: str) -> str:
        """Return ``ns/pod/container``; the beginning of the id if the name is unknown."""
        return self._containers.name_of(container_id)

    def add_existing(self, container: api.Container, name: str = "") -> History:
        """Add an existing container in the state that Synchronize shows."""
        return self._containers.add_existing(container, name)

    # -- the order of rounds ------------------------------------------------------------------

    def _take_waiting(self, before: int | None = None) -> list[RoundDiff]:
        """Return the waiting rounds from outside the chain, or only those before an event."""
        if not self._waiting:
            return []
        later = [] if before is None else [each for each in self._waiting if each.first.id > before]
        ready = self._waiting[: len(self._waiting) - len(later)]
        self._waiting = later
        self._waiting_bytes = self._waiting_bytes if later else 0
        return [diff for each in ready if (diff := self._evaluate(each)) is not None]

    def _complete(self, round_: Round) -> list[RoundDiff]:
        """Return the rounds that are complete with this one, which may wait for its validation."""
        while self._removed:
            # Not earlier: until now, callers may need the name.
            self._containers.forget(self._removed.pop())
        if round_.name == VALIDATE:
            return self._complete_validation(round_)
        diffs = [*self._finish_creation(None), *self._take_waiting(round_.first.id)]
        self._containers.settle(round_)
        if round_.name == CREATE:
            self._creation = round_
            if round_.over_by is not None and round_.over_by.event != VALIDATE:
                # Runtimes call validators immediately, or not at all.
                diffs += self._finish_creation(None)
            return diffs
        self._validated = ""
        diff = self._evaluate(round_)
        if diff is not None:
            diffs.append(diff)
        return diffs

    def _complete_validation(self, validation: Round) -> list[RoundDiff]:
        container = validation.first.container_id
        if self._creation is not None and self._creation.first.container_id == container:
            self._validated = container
            return self._finish_creation(validation)
        diffs = self._finish_creation(None)
        # Runtimes call validators in parallel, so a late one has a round of its own.
        if container != self._validated:
            self._validated = container
            diffs.append(self._evaluate_creation(validation, None, validation))
        return diffs

    def _finish_creation(self, validation: Round | None) -> list[RoundDiff]:
        creation, self._creation = self._creation, None
        if creation is None:
            return []
        return [self._evaluate_creation(creation, creation, validation)]

    # -- creations ----------------------------------------------------------------------------

    def _evaluate_creation(
        self, round_: Round, creation: Round | None, validation: Round | None
    ) -> RoundDiff:
        """Evaluate a creation, and begin its container's history.

        ``creation``: None if its chain was not observed. ``validation``: the request to validators;
        None if no connection received it. ``round_``: the first of them.
        """
        owner_list = None if validation is None else OwnerList.of(validation.parts)
        outcome = self._rounds.around.outcome(round_.first)
        has_outcomes = self._rounds.around.has_outcomes
        is_chosen = self._is_chosen(round_.first.container_id)
        kind = CreationEvaluation if round_.parts[0].is_ordered else UnorderedCreation
        parts = creation.parts if creation else ()
        chain = RoundChain.of(parts, owner_list.plugins if owner_list else ())
        is_created, results = outcome.fate is OperationFate.CREATED, RoundResults()
        for_others = owner_list is None and not is_chosen
        evaluation = kind(parts, owner_list, chain, is_created, results, for_others)
        history = evaluation.evaluate()
        if history is None:
            chain = RoundChain.of(round_.parts)
        if validation is not None:
            results.fail(rejection(validation))
        unvalidated = None if validation else creation
        is_explained, updates_doubt = results.conclude_creation(
            outcome, lambda: unvalidated and self._rounds.ended_early(unvalidated)
        )
        updates = [*results.updates]
        if owner_list is not None and not is_explained:
            updates += owner_list.updates(chain.between(None, None))
        if unvalidated is not None and not (results.cause or results.doubt):
            self._note_left_open(unvalidated, results)
        if history is None:
            results.note("the request cannot be decoded, so its changes are unknown")
        elif not is_chosen:
            # Only its effects on other containers matter.
            results.steps = [each for each in results.steps if self._is_chosen(each.container)]
        else:
            history.name = self.name_of(history.id)
            history.created_event = round_.first.id
            history.created_until = (validation or round_).parts[-1].event.id
            history.created = is_created or not has_outcomes
            history.failure, history.doubt = results.failure, results.doubt
            history.remarks += results.remarks
            if round_.parts[0].is_ordered and (limit := round_.parts[0].rules.blind_spot):
                history.add_remark(limit)
            history.add(each for each in results.steps if each.container == history.id)
            results.created = history.created and not (results.cause or results.doubt)
            self._containers.created(history, round_.first, evaluation.described)
        if history is not None:
            self._apply_updates(updates, results, round_.parts[0], doubt=updates_doubt)
            if is_chosen and creation is None:
                results.note("the chain was not observed")
        if is_chosen or history is None:
            is_undecided = has_outcomes and outcome.fate is OperationFate.UNKNOWN
            self._containers.leave_undecided(round_.first, is_undecided=is_undecided)
        return self._diff(round_, results, chain, extra=validation if creation else None)

    def _decide(self, round_: Round, results: RoundResults) -> None:
        """Decide the outcome of undecided creations when their container or pod ends."""
        for creation in self._containers.take_undecided(round_.first):
            outcome = self._rounds.around.outcome(creation)
            history = self.histories.get(creation.container_id)
            if outcome.fate is not OperationFate.FAILED or history is None:
                continue
            if not history.failure:
                name = self.name_of(history.id)
                results.note(
                    f"the creation of {name} (event {creation.id}) failed: {outcome.words}"
                )
            history.failure = "; ".join(filter(None, (history.failure, outcome.words)))

    # -- other events -------------------------------------------------------------------------

    def _evaluate(self, round_: Round) -> RoundDiff | None:
        """Evaluate a round that is no creation; None if there is nothing to report."""
        first, part = round_.first, round_.parts[0]
        if first.event in _WITHOUT_CONTAINERS:
            return None
        results = RoundResults()
        chain = RoundChain.of(round_.parts)
        if first.method == CONTAINER_STATUS:
            if not self._evaluate_status(part, results):
                return None
        elif first.event == UNSOLICITED:
            self._evaluate_unsolicited(part, results)
        elif first.event == SYNCHRONIZE:
            self._evaluate_synchronize(part, results)
        else:
            self._decide(round_, results)
            if self._is_chosen(first.container_id):
                self._compare(part.shown_container, part, results)
            self._evaluate_chain(round_, chain, results)
            if not part.is_ordered:
                for failing in round_.failing:
                    results.note(f"{failing.error.text}; {CONTINUED}")
        return self._diff(round_, results, chain)

    def _evaluate_chain(self, round_: Round, chain: RoundChain, results: RoundResults) -> None:
        """Evaluate an event of the chain that is no creation."""
        container = round_.first.container_id
        if round_.name == UPDATE:
            self._evaluate_update(round_, chain, results)
            return
        if round_.name == STOP:
            self._containers.stopped(container)
            results.fail(stop_refusal(round_.parts))
            self._apply_updates(updates_of_replies(round_.parts), results, round_.parts[0])
            return
        if round_.stopped_at is not None:
            results.fail(round_.stopped_at.error)
        if round_.name == START:
            self._evaluate_start(round_, results)
        elif round_.name == REMOVE:
            self._containers.removed(container)
            if not self._keep:
                self._removed.append(container)

    def _evaluate_update(self, round_: Round, chain: RoundChain, results: RoundResults) -> None:
        container = round_.first.container_id
        history = self._containers.history(container)
        update = RoundResults()
        outcome = self._rounds.around.outcome(round_.first)
        evaluation = UpdateEvaluation(round_.parts, chain, history.spec, update)
        spec, doubt = evaluation.evaluate(outcome, self._rounds.ended_early(round_))
        tail = chain.between(round_.parts[-1], None, or_runtime=True)
        own = [each for each in update.steps if each.container == container]
        sessions = frozenset(part.session.id for part in round_.parts)
        self._containers.updated(history, own, spec, tail, sessions)
        results.join(update)
        self._note_left_open(round_, results)
        self._apply_updates(update.updates, results, round_.parts[0], doubt=doubt)
        results.steps += evictions_of_replies(round_.parts)

    def _evaluate_start(self, round_: Round, results: RoundResults) -> None:
        """Check whether a start failed, at a runtime that sends StartContainer after it."""
        history = self.histories.get(round_.first.container_id)
        if history is None or round_.parts[0].rules.start_event == START:
            return
        outcome = self._rounds.around.outcome(round_.first)
        if outcome.fate is OperationFate.FAILED:
            results.fail(Failure(FailureKind.NOT_STARTED, outcome.words_of(START)))
            results.settled += history.fail_start(results.failure, round_.first, Shows.NO_EVENT)

    def _evaluate_unsolicited(self, part: ConnectionPart, results: RoundResults) -> None:
        request = part.request_as(api.UpdateContainersRequest)
        if request is None:
            return
        reply = part.reply_as(api.UpdateContainersResponse)
        failed = [each.container_id for each in reply.failed] if reply is not None else []
        source = RequestSource.of(part)
        updates = [RequestedUpdate(source, each) for each in request.update]
        if reply is None:
            words = part.event.status_message or "the runtime answered with an error"
            is_lost = part.event.status_code in GONE
            kind = FailureKind.CALL_UNANSWERED if is_lost else FailureKind.CALL_REFUSED
            results.fail(Failure(kind, words))
        self._apply_updates(updates, results, part, failed)
        results.steps += evictions(source, request.evict, part.rules)

    def _evaluate_synchronize(self, part: ConnectionPart, results: RoundResults) -> None:
        request = part.request_as(api.SynchronizeRequest)
        if request is not None:
            for pod in request.pods:
                self._containers.learn_pod(pod)
            for container in request.containers:
                if not self._is_chosen(container.id):
                    continue
                if container.id in self.histories:
                    # The container may have changed while no connection observed it.
                    self._compare(ShownContainer.of(container), part, results)
                else:
                    self._containers.add_existing(container)
            self._synchronized_with.add(part.session.id)
        self._apply_updates(updates_of_replies([part], merged=False), results, part)

    def _evaluate_status(self, part: ConnectionPart, results: RoundResults) -> bool:
        """Evaluate the CRI's answer about a container; return whether it shows anything."""
        status = container_status(part.reply)
        container = part.event.container_id
        shown = self._containers.judge(container, status, part.event)
        if shown is None and not status.failure:
            return False
        if shown is not None:
            results.add_shown(shown)
        history = self.histories.get(container)
        if status.failure:
            results.fail(Failure(FailureKind.NOT_STARTED, status.failure))
            if history is not None:
                history.add_remark(f"this spec was created, but never ran: {status.failure}")
        return True

    # -- parts of rounds ----------------------------------------------------------------------

    def _is_chosen(self, container_id: str) -> bool:
        """Return whether the changes of a container matter."""
        return self._only is None or container_id in self._only

    def _note_left_open(self, round_: Round, results: RoundResults) -> None:
        words = self._rounds.left_open(round_)
        if words and not results.failure:
            results.note(words)

    def _compare(
        self, shown: ShownContainer | None, part: ConnectionPart, results: RoundResults
    ) -> None:
        """Compare the container in an event with its known state."""
        if shown is not None:
            results.add_shown(self._containers.compare(shown, part.event, part.rules))

    def _apply_updates(
        self,
        updates: Sequence[RequestedUpdate],
        results: RoundResults,
        part: ConnectionPart,
        failed: Sequence[str] | None = None,
        doubt: str = "",
    ) -> None:
        """Apply plugins' requests for other containers than the event's."""
        event, own = part.event, part.event.container_id
        updates = [each for each in updates if self._is_chosen(each.update.container_id or own)]
        if updates:
            is_absent = partial(self._is_absent, event=event)
            others = UpdatesOfOthers(results, self._containers, part, is_absent, failed, doubt)
            others.apply(updates)

    def _is_absent(self, container_id: str, event: Event) -> bool:
        """Return whether all existing containers are known, and none has an id with this prefix."""
        known = self._rounds.around.is_absent(container_id, event)
        if known is not None:
            return known
        if self._only is not None or self._rounds.gaps:
            return False
        sessions = self._rounds.sessions
        listed = (sessions[number] for number in self._synchronized_with if number in sessions)
        is_complete = any(session.subscribes_to(EventKind.CreateContainer) for session in listed)
        return is_complete and not self._containers.is_named(container_id)

    def _diff(
        self, round_: Round, results: RoundResults, chain: RoundChain, *, extra: Round | None = None
    ) -> RoundDiff:
        for step in results.steps:
            if round_.name == UNSOLICITED:
                # The runtime replies after it has applied the updates.
                self._containers.done(step.container, round_.parts[0].answered_ns)
            elif step.container != round_.first.container_id and not step.is_without_effect:
                self._containers.mark_update(step.container)
            if step.container in self.histories:
                self.histories[step.container].add([step])
        self._unspent_changes += len(results.steps)
        first = round_.first
        parts = round_.parts if extra is None else (*round_.parts, *extra.parts)
        return RoundDiff(
            event=first.id,
            events=tuple([part.event.id for part in parts]),
            name=CREATE if round_.name == VALIDATE else round_.name,
            at_ns=first.at_ns,
            container=first.container_id,
            pod=first.pod_id,
            seen_by=tuple([part.plugin for part in round_.parts]),
            missed_by=tuple([session.plugin for session in self._rounds.missed_by(round_)]),
            chain=chain.plugins,
            steps=tuple(results.steps),
            settled=tuple(results.settled),
            spans=spans(round_, chain),
            cause=results.cause,
            doubt=results.doubt,
            open_ns=results.open_ns,
            created=results.created,
            remarks=tuple(results.remarks),
        )
