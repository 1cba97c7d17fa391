# SPDX-License-Identifier: Apache-2.0
"""Event after event in, what each round changed out; and every container's history meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.subject import container_of
from nri_scope.nri.versions import NriVersion
from nri_scope.recorder.model import Event, Gap, Session

from . import creation, told, updates
from .chain import Chain
from .containers import Containers
from .findings import Findings, Wanted, evidence_of, reply_of, request_of, version_of
from .history import History
from .model import Evidence, RoundDiff, Step
from .owner import plugin
from .owners import Owned
from .rounds import (
    ASIDE,
    CONTAINER_STATUS,
    CREATE,
    STOP,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
    Round,
    Rounds,
    Station,
)
from .spans import spans

TOLD_MAX = 16 << 20
"""Bytes of what may wait for a round to be over."""
_TOLD_BYTES = 1 << 10
"""For each event that waits."""


class Differ:
    """Finds what each round changed, as events are fed to it in the order of a recording.

    ``histories`` has every container by its id; without ``keep`` those that were removed are
    forgotten. Whatever comes in is somebody's untrusted input: what cannot be made out is left
    out, and nothing raises.
    """

    def __init__(
        self,
        sessions: Iterable[Session] = (),
        *,
        keep: bool = True,
        only: Iterable[str] | None = None,
        gaps: Iterable[Gap] = (),
        follows: Callable[[Event], bool] | None = None,
    ) -> None:
        """``only``: ids of the containers that matter; of all others no more is looked at than
        what their events did to these. ``gaps`` and ``follows``: see `Rounds`.
        """
        self._only = None if only is None else frozenset(only)
        self._containers = Containers()
        self._rounds = Rounds.of(sessions)
        self._rounds.follows = follows
        self.lose(gaps)
        self._keep = keep
        self._creation: Round | None = None
        """A CreateContainer that is over, but for what validators are told of it."""
        self._validated = ""
        """The container that validators were told of last."""
        self._removed: list[str] = []
        """To be forgotten."""
        self._told: list[Round] = []
        """What came from beside the chain while a round was open."""
        self._told_bytes = 0

    @property
    def histories(self) -> dict[str, History]:
        """Every container that is known, by its id."""
        return self._containers.histories

    def begin(self, session: Session) -> None:
        """A session that began meanwhile, or the newest state of one that is known."""
        self._rounds.sessions[session.id] = session

    def lose(self, gaps: Iterable[Gap]) -> None:
        """The gaps that there are by now."""
        self._rounds.gaps = tuple(gap for gap in gaps if not gap.is_left_out)

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> list[RoundDiff]:
        """Take the next event; returns the rounds that are over by that."""
        self._containers.learn_name(event)
        over = self._rounds.feed(event, request, reply)
        if over is None:
            return []
        if over.first.method not in ASIDE:
            found = self._take(over)
            return found if self._creation is not None else [*found, *self._take_told()]
        # It came while other things were on their way, and may be about what they lead to.
        self._told.append(over)
        self._told_bytes += _TOLD_BYTES + sum(map(len, (request, reply)))
        awaited = self._rounds.goes_on or self._awaits_validation
        return [] if awaited and self._told_bytes <= TOLD_MAX else self.flush()

    def flush(self) -> list[RoundDiff]:
        """The rounds that are still open, as far as they came."""
        over = self._rounds.flush()
        found = [] if over is None else self._take(over)
        return [*found, *self._finish_creation(None), *self._take_told()]

    @property
    def open_since(self) -> Event | None:
        """The newest event of a round that is still open; None where none is."""
        if self._rounds.open_since is not None or self._creation is None:
            return self._rounds.open_since
        return self._creation.stations[-1].event

    def name_of(self, container_id: str) -> str:
        """``ns/pod/container``; the beginning of its id where that was never told."""
        return self._containers.name_of(container_id)

    def know(self, container: api.Container, name: str = "") -> History:
        """A container that is there already, as Synchronize told it."""
        return self._containers.know(container, name)

    @property
    def _awaits_validation(self) -> bool:
        """Whether validators may yet be told of the creation that is over."""
        return self._creation is not None and self._rounds.awaits_validation(self._creation)

    def _take_told(self) -> list[RoundDiff]:
        """What came from beside the chain meanwhile."""
        told, self._told, self._told_bytes = self._told, [], 0
        return [diff for one in told if (diff := self._other(one)) is not None]

    # -- rounds -----------------------------------------------------------------------------

    def _take(self, one: Round) -> list[RoundDiff]:
        while self._removed:
            # Only now: until then somebody may have asked for its name.
            self._containers.forget(self._removed.pop())
        if one.name == CREATE:
            found = self._finish_creation(None)
            self._containers.settle(one)
            self._creation = one
            return found
        if one.name == VALIDATE:
            return self._validate(one)
        found = self._finish_creation(None)
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
        # Validators are asked all at once, and one that was asked late makes a round of its own.
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
        if self._only is not None and whole.first.container_id not in self._only:
            return [self._beside_creation(whole, stations, owned)]
        made = creation.creation(stations, owned)
        if made is None:
            unread = Findings()
            unread.note("its request cannot be read, so nobody can tell what it changed")
            return [self._plain(whole, unread)]
        found = made.found
        if validation is not None:
            found.fail(told.rejection(validation))
        history = History(
            made.container.id,
            self.name_of(made.container.id),
            made.base,
            made.base_owner,
            made.spec,
            [one for one in found.steps if one.container == made.container.id],
            created_event=whole.first.id,
            failure=found.failure,
            tail=made.tail,
            remarks=list(found.remarks),
        )
        self._containers.created(history, whole.first)
        version = version_of(whole.stations[0])
        wanted = [*found.updates]
        if owned is not None and not found.failure:
            wanted += told.updates_of_validation(owned, made.chain)
        self._beside(wanted, found, version)
        if one is not None and not found.failure and validation is None:
            history.failure = self._rounds.ended_early(one)
            found.fail(history.failure)
        if one is None:
            found.note("its way through the chain was not seen")
        return [self._diff(whole, found, made.chain, extra=validation if one else None)]

    def _beside_creation(
        self, whole: Round, stations: tuple[Station, ...], owned: Owned | None
    ) -> RoundDiff:
        """What came of a creation for others than the container that was created."""
        found = Findings()
        found.fail(creation.conflict(stations))
        wanted = told.updates_of_replies(stations)
        if owned is not None:
            wanted += told.updates_of_validation(owned, Chain.of(stations, owned.plugins))
        self._beside(wanted, found, version_of(whole.stations[0]))
        return self._plain(whole, found)

    def _beside(
        self,
        wanted: Iterable[Wanted],
        found: Findings,
        version: NriVersion | None,
        failed: Iterable[str] = (),
    ) -> None:
        """Do what plugins want of containers beside the one that an event is about."""
        if self._only is not None:
            wanted = [one for one in wanted if one.update.container_id in self._only]
        updates.beside(wanted, found, self._containers.history, version=version, failed=failed)

    def _other(self, one: Round) -> RoundDiff | None:
        match one.name:
            case "RegisterPlugin" | "Configure" | "Shutdown":
                return None
            case _ if one.first.method == CONTAINER_STATUS:
                return self._status(one)
            case _ if one.name == UNSOLICITED:
                return self._out_of_turn(one)
            case _ if one.name == SYNCHRONIZE:
                return self._synchronized(one)
        found = Findings()
        if self._only is None or one.first.container_id in self._only:
            self._look_at(one, found)
        if one.name == UPDATE:
            history = self._containers.history(one.first.container_id)
            seen, spec = updates.updating(
                one, Chain.of(one.stations), history.spec, failure=self._rounds.ended_early(one)
            )
            tail = Chain.of(one.stations).between(one.stations[-1], None, or_runtime=True)
            self._containers.updated(history, seen.steps, spec, tail)
            _join(found, seen)
            self._beside(seen.updates, found, version_of(one.stations[0]))
        elif one.name == STOP:
            wanted = told.updates_of_replies(one.stations)
            self._beside(wanted, found, version_of(one.stations[0]))
        elif one.stopped_at is not None:
            at = one.stopped_at
            found.fail(f"{at.plugin} answered: {at.event.status_message or 'an error'}")
        if one.name == "RemoveContainer" and not self._keep:
            self._removed.append(one.first.container_id)
        return self._plain(one, found)

    def _look_at(self, one: Round, found: Findings) -> None:
        """Whether an event shows its container otherwise than is known."""
        station = one.stations[0]
        request = request_of(station)
        container = None if request is None else container_of(station.event.method, request)
        if container is not None:
            found.steps += self._containers.compare(container, station.event)

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
            self._beside(wanted, found, version_of(station), failed)
        return self._plain(one, found)

    def _synchronized(self, one: Round) -> RoundDiff:
        found = Findings()
        station = one.stations[0]
        request = cast("api.SynchronizeRequest | None", request_of(station))
        if request is not None:
            for pod in request.pods:
                self._containers.learn_pod(pod)
            for container in request.containers:
                if container.id in self.histories:
                    # Known from before: somebody may have changed it while nobody looked.
                    found.steps += self._containers.compare(container, station.event)
                else:
                    self.know(container)
        wanted = told.updates_of_replies(one.stations)
        self._beside(wanted, found, version_of(station))
        return self._plain(one, found)

    def _status(self, one: Round) -> RoundDiff | None:
        """The CRI told what a container really became."""
        station = one.stations[0]
        status = told.container_status(station.reply)
        steps: list[Step] | None = None
        if status.spec is not None:
            container = one.first.container_id
            steps = self._containers.judge(container, status.spec, station.event)
        if steps is None and not status.failure:
            return None
        history = self.histories.get(one.first.container_id)
        if history is not None and status.failure:
            history.remark(f"this spec was made and never run: {status.failure}")
        return self._plain(one, Findings(steps=steps or [], failure=status.failure))

    # -- results ----------------------------------------------------------------------------

    def _plain(self, one: Round, found: Findings) -> RoundDiff:
        return self._diff(one, found, Chain.of(one.stations))

    def _diff(
        self, one: Round, found: Findings, chain: Chain, *, extra: Round | None = None
    ) -> RoundDiff:
        first = one.first
        if one.first.method not in (CONTAINER_STATUS, UNSOLICITED):
            for step in found.steps:
                if step.container != first.container_id and Evidence.EVENTS not in step.evidence:
                    self._containers.touched(step.container)
        for asked in found.asked:
            history = self.histories.get(asked.container)
            if history is not None:
                history.asked.append(asked)
        missed = self._rounds.missed_by(one)
        stations = (*one.stations, *(extra.stations if extra else ()))
        return RoundDiff(
            event=first.id,
            events=tuple(station.event.id for station in stations),
            name=CREATE if one.name == VALIDATE else one.name,
            at_ns=first.at_ns,
            container=first.container_id,
            pod=first.pod_id,
            seen_by=tuple(station.plugin for station in one.stations),
            missed_by=tuple(session.plugin for session in missed),
            chain=chain.plugins,
            steps=tuple(found.steps),
            asked=tuple(found.asked),
            spans=spans(one, chain),
            failure=found.failure,
            remarks=tuple(found.remarks),
        )


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
