# SPDX-License-Identifier: Apache-2.0
"""A redactor for each recording of a node, which all calls share.

A redactor must learn from every event of a recording before it redacts one, which takes longer than
anything else in a call about one pod. A shared one learns from each event once, also between calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nri_scope.errors import RecordingError
from nri_scope.recording.entries import IncludedRows
from nri_scope.recording.lookup import event_range
from nri_scope.recording.reader import Recording
from nri_scope.share.extract.first_pass import learn_events
from nri_scope.share.redaction import Redactor, Tally
from nri_scope.share.redaction.limits import Memory

from .node_recordings import NodeRecording

VALUES_MAX = 40_000
"""Maximum number of different values of one recording, and above which no further redactor is kept.
Each takes about 4.5 KiB of memory.
"""
LIMITS = Memory(values=VALUES_MAX, characters=4 << 20, shown=4 << 20, cached=4 << 20)
"""Limits of one redactor. As for an export, there is no limit of the work on one message."""
REDACTORS_MAX = 4
"""Maximum number of redactors without a call; the caches of each take up to 8 MiB."""


class UnredactableError(RecordingError):
    """A recording with more values than a redactor can remember."""


class FairLock:
    """Lock that waiting threads get in the order of their arrival."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Event] = deque()

    def acquire(self, while_waiting: Callable[[], None]) -> None:
        """Wait for the lock. ``while_waiting`` is called regularly; its exceptions end that."""
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            while not turn.wait(0.2):
                while_waiting()
        except BaseException:
            with self._mutex:
                has_it = turn not in self._waiting
                if not has_it:
                    self._waiting.remove(turn)
            if has_it:
                self.release()
            raise

    def release(self) -> None:
        """Give the lock to the next thread."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_held = False

    @property
    def is_wanted(self) -> bool:
        """Whether a thread waits for the lock."""
        return bool(self._waiting)


@dataclass(slots=True)
class _State:
    """What calls share."""

    redactor: Redactor
    learned: int = 0
    """Number of the last event from which it has learned, as from all before it."""
    learned_ns: int = 0
    """Time of that event, which identifies the recording."""
    oldest: int = 0
    """Number of the oldest event when it began to learn."""
    lock: FairLock = field(default_factory=FairLock)
    users: int = 0


class SharedRedactor:
    """The redactor of a recording, held by one call."""

    def __init__(
        self,
        recording: Recording,
        state: _State,
        new_redactor: Callable[[], Redactor],
        go_on: Callable[[], None],
    ) -> None:
        self._recording = recording
        self._state = state
        self._new_redactor = new_redactor
        self._go_on = go_on
        self._is_held = False
        self._tally = Tally()

    @property
    def redactor(self) -> Redactor:
        return self._state.redactor

    @property
    def learned(self) -> int:
        """Number of the last event from which it has learned."""
        return self._state.learned

    def acquire(self) -> None:
        """Wait for the redactor."""
        self._state.lock.acquire(self._go_on)
        self._is_held = True
        self.redactor.tally = self._tally

    def release(self) -> None:
        """Give the redactor to the next call."""
        if self._is_held:
            self._is_held = False
            self._state.lock.release()

    def give_way(self, _: float = 0) -> None:
        """Let calls that wait use the redactor first.

        Call it regularly, but not between the messages and the texts of one event.
        """
        self._go_on()
        if self._state.lock.is_wanted:
            self.release()
            self.acquire()

    def learn(self) -> None:
        """Learn from all events that were recorded so far.

        What was learned is kept if this ends early. Raises RecordingError, as `check` does.
        """
        _, until = event_range(self._recording)
        state = self._state
        while True:
            self._forget_others()
            self.check()
            if state.learned >= until:
                return
            part = IncludedRows(until=until)
            for event in learn_events(self._recording, part, state.redactor, state.learned):
                state.learned, state.learned_ns = event.id, event.at_ns
                is_wanted = state.lock.is_wanted
                self.give_way()
                if is_wanted or state.redactor.is_full:
                    # Another call may have learned from the next events.
                    break
            else:
                return

    def _forget_others(self) -> None:
        """Begin anew if the redactor knows events of another recording, or too many old ones.

        Another recording can have the same name and inode.
        """
        state = self._state
        oldest, newest = event_range(self._recording)
        event = self._recording.event(state.learned) if state.learned else None
        is_other = state.learned > 0 and (event is None or event.at_ns != state.learned_ns)
        # A redactor that is full may have learned its values from events that were removed.
        has_fewer = oldest - state.oldest > (newest - oldest) // 4
        if is_other or (state.redactor.is_full and has_fewer):
            state.redactor = self._new_redactor()
            state.redactor.tally = self._tally
            state.learned = state.learned_ns = 0
        if not state.learned:
            state.oldest = oldest

    def check(self) -> None:
        """Raise UnredactableError if not all values are remembered, as secrets could be sent."""
        if self.redactor.is_full:
            raise UnredactableError(
                self._recording.path,
                f"it cannot be redacted, as it has more than {VALUES_MAX:,} different values, or "
                "very long ones",
            )


class NodeRedactors:
    """Redactors by recording, for any number of threads."""

    def __init__(self, new_redactor: Callable[[], Redactor]) -> None:
        self._new_redactor = new_redactor
        self._states: dict[tuple[str, int], _State] = {}
        """By name and inode."""
        self._order: list[tuple[str, int]] = []
        """Names and inodes of recordings, oldest first."""
        self._lock = threading.Lock()

    @contextmanager
    def of(
        self, file: NodeRecording, recording: Recording, go_on: Callable[[], None]
    ) -> Iterator[SharedRedactor]:
        """Hold the redactor of a recording in the block, after it has learned from all events.

        ``go_on`` is called regularly; its exceptions end the work. Raises RecordingError.
        """
        state = self._begin(file)
        shared = SharedRedactor(recording, state, self._new_redactor, go_on)
        try:
            shared.acquire()
            shared.learn()
            yield shared
        finally:
            shared.release()
            with self._lock:
                state.users -= 1

    def learn(
        self,
        files: Sequence[NodeRecording],
        go_on: Callable[[], None],
        on_error: Callable[[RecordingError], None],
    ) -> None:
        """Learn from recordings, the newest first, as long as there is memory for all of them.

        ``files``: all recordings, oldest first.
        """
        self.keep(files)
        for number, file in enumerate(reversed(files)):
            with self._lock:
                if number and _key(file) not in self._states and self._is_over_budget():
                    return
            try:
                with Recording.open(file.path) as recording, self.of(file, recording, go_on):
                    pass
            except RecordingError as error:
                on_error(error)

    def keep(self, files: Sequence[NodeRecording]) -> None:
        """Forget the redactors of other recordings; ``files``: oldest first."""
        with self._lock:
            self._order = list(map(_key, files))
            self._states = {key: one for key, one in self._states.items() if key in self._order}

    def _begin(self, file: NodeRecording) -> _State:
        with self._lock:
            state = self._states.get(_key(file))
            if state is None:
                for key in self._order:
                    other = self._states.get(key)
                    if other is not None and not other.users and self._is_over_budget():
                        del self._states[key]
                state = self._states[_key(file)] = _State(self._new_redactor())
            state.users += 1
        return state

    def _is_over_budget(self) -> bool:
        values = sum(one.redactor.value_count for one in self._states.values())
        return values >= VALUES_MAX or len(self._states) >= REDACTORS_MAX


def _key(file: NodeRecording) -> tuple[str, int]:
    return file.name, file.inode
