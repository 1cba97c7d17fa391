# SPDX-License-Identifier: Apache-2.0
"""Turn a sequence of events into the changes of each round and the histories of containers."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event, Gap, Session
from nri_scope.nri.events import CREATE, VALIDATE

from .attributed_changes import RoundDiff
from .containers import Containers
from .history import History
from .round_evaluation import Evaluation
from .rounds import ASIDE, NO_SURROUNDINGS, Round, Rounds, Surroundings

_CHANGE_COST = 80
"""Budget units per change, which uses about 1 kB. Recordings of real runtimes contain some 5,000
changes in 10 MB.
"""
WAITING_BYTES_MAX = 16 << 20
"""Maximum size in bytes of the events that wait for the end of a round."""
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
        around: Surroundings = NO_SURROUNDINGS,
        only_findings: bool = False,
    ) -> None:
        """Start without events. ``only``: ids of the containers that matter; of all others only the
        effects on these are examined. ``gaps``: see `Rounds`. ``around``: what the recording shows
        beyond these events; without it each creation counts as successful unless an event fed
        shows otherwise. ``only_findings``: leave out rounds without changes, failures and times, so
        that they take less time.
        """
        self._containers = Containers()
        self._rounds = Rounds.of(sessions)
        self._rounds.around = around
        self.lose(gaps)
        chosen = None if only is None else frozenset(only)
        self._evaluation = Evaluation(self._containers, self._rounds, chosen, only_findings, keep)
        self._creation: Round | None = None
        """A CreateContainer whose chain is complete, but which may still be validated."""
        self._validated = ""
        """The container of the validators' last request."""
        self._waiting: list[Round] = []
        """Rounds from outside the chain that arrived during an open round."""
        self._waiting_bytes = 0

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
        changes, self._evaluation.found_changes = self._evaluation.found_changes, 0
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
        return [diff for one in ready if (diff := self._evaluation.other(one)) is not None]

    # -- rounds -----------------------------------------------------------------------------

    def _take(self, one: Round) -> list[RoundDiff]:
        while self._evaluation.removed:
            # Not earlier: until now, callers may need the name.
            self._containers.forget(self._evaluation.removed.pop())
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
        diff = self._evaluation.other(one)
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
            found += self._evaluation.creation(None, one)
        return found

    def _finish_creation(self, validation: Round | None) -> list[RoundDiff]:
        one, self._creation = self._creation, None
        return [] if one is None else self._evaluation.creation(one, validation)
