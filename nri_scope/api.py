# SPDX-License-Identifier: Apache-2.0
"""Recordings for Python programs: `nri_scope.open` and `nri_scope.create`.

Methods raise errors of `nri_scope.errors`. Texts may quote a recording, and nothing is escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_scope.differ.attribution.attributed_changes import ChangeStep
from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame import OwnedLine, lines
from nri_scope.differ.operations import Grouper, Operation
from nri_scope.differ.recording_differ import history_of
from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Gap, Note, Pod, Printed, Session
from nri_scope.filter import parse
from nri_scope.nri.plain import Plain
from nri_scope.recording import lookup
from nri_scope.recording.documents import event_document
from nri_scope.recording.event_times import within
from nri_scope.recording.reader import Recording as Reader
from nri_scope.recording.tap_tables import printed
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Finding
from nri_scope.survey.foreground import surveyed

_OPEN_OPERATIONS = 64
"""Number of operations whose events are collected at the same time."""


class Blame(Mapping[str, OwnedLine]):
    """The lines of a container's OCI spec by path, such as ``/process/env/FOO``, in order.

    Headings are included. Of a value that was removed or refused, ``exists`` is False.
    """

    def __init__(self, history: History) -> None:
        self._lines = {line.path: line for line in lines(history)}

    def __getitem__(self, path: str) -> OwnedLine:
        return self._lines[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@dataclass(frozen=True, slots=True)
class ContainerHistory:
    """A container of a recording, and what became of it."""

    container: Container
    history: History

    @property
    def name(self) -> str:
        """``namespace/pod/container``."""
        return self.history.name

    @property
    def requests(self) -> Sequence[ChangeStep]:
        """Each value that plugins, CRI clients or the runtime asked for, in order, with its owner,
        outcome and evidence.
        """
        return self.history.steps

    def blame(self) -> Blame:
        """Return the newest spec with the owner of each line."""
        return Blame(self.history)


class Recording:
    """A recording or a bundle, opened for reading; a context manager."""

    def __init__(self, path: str | Path) -> None:
        """Open the file. Raises RecordingError."""
        self._reader = Reader.open(path)
        self._surveyed = ExitStack()
        self._is_surveyed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._surveyed.close()
        self._reader.close()

    def events(self, where: str = "") -> Iterator[Event]:
        """Yield the events that match a filter, in order, with the outcome of each request.

        The first call analyses the whole recording. Raises FilterError and RecordingError.
        """
        condition = within(self._reader, parse(where)) if where else None
        if not self._is_surveyed:
            self._surveyed.enter_context(surveyed(self._reader, None, needed=True))
            self._is_surveyed = True
        yield from self._reader.events(where=condition)

    def to_dicts(self, where: str = "") -> Iterator[dict[str, Plain]]:
        """Yield the events as ``show --format json`` prints them, with decoded messages."""
        for event in self.events(where):
            messages = self._reader.request(event.id), self._reader.reply(event.id)
            yield event_document(event, *messages)

    def operations(self) -> Iterator[Operation]:
        """Yield the operations: each event on its way through the chain, at all connections."""
        sessions = {session.id: session for session in self.sessions()}
        first_of: dict[int, int] = {}
        for step in Grouper().steps(self._reader):
            first_of |= zip(step.rest, step.firsts, strict=True)
        waiting: defaultdict[int, list[Event]] = defaultdict(list)
        for event in self.events():
            waiting[first_of.get(event.id, event.id)].append(event)
            if len(waiting) > _OPEN_OPERATIONS:
                yield Operation.of(waiting.pop(next(iter(waiting))), sessions)
        for events in waiting.values():
            yield Operation.of(events, sessions)

    def container(self, name: str) -> ContainerHistory:
        """Return a container by ``namespace/pod/container`` (the newest one) or the beginning of
        its id. Raises UsageError.
        """
        found = lookup.find(self._reader, name)
        if not isinstance(found, Container):
            raise UsageError(f'"{name}" is not a container', "use NAMESPACE/POD/CONTAINER")
        return ContainerHistory(found, history_of(self._reader, found))

    def containers(self) -> list[Container]:
        """Return all containers of events and Synchronize requests."""
        return self._reader.containers()

    def pods(self) -> list[Pod]:
        """Return all pods of events and Synchronize requests."""
        return self._reader.pods()

    def sessions(self) -> list[Session]:
        """Return all sessions, oldest first."""
        return self._reader.sessions()

    def gaps(self) -> list[Gap]:
        """Return the intervals that were not observed, or only partly, ordered by start."""
        return self._reader.gaps()

    def notes(self) -> list[Note]:
        """Return the remarks of the programs that wrote the recording, ordered by time."""
        return self._reader.notes()

    def output(self) -> Iterator[Printed]:
        """Yield the lines that tapped plugins printed, in recorded order."""
        return printed(self._reader)

    def findings(self) -> Sequence[Finding]:
        """Return the problems that ``report --diagnose`` names, the worst first."""
        return diagnose(self._reader).findings
