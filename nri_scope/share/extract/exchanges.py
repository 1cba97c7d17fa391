# SPDX-License-Identifier: Apache-2.0
"""Read events of the original with all data needed for the new recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nri_scope.errors import RecordingError
from nri_scope.events import Event
from nri_scope.recording.decode_budget import Allowance
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import RowError, optional_numbers_of
from nri_scope.recording.sqlite_errors import recording_errors

from .event_numbers import CHUNK, chunks, listed
from .row_pages import pages

_PAGE_BYTES = 8 << 20
"""Number of bytes of messages after which a page is yielded, even if it has few events."""
_BUDGET_FACTOR = 9
"""Factor for the usual decoding budget (see `Recording.allowance`): copies must be complete."""


class Exchange(NamedTuple):
    """One event with its messages."""

    event: Event
    request: bytes
    reply: bytes
    service: str
    """The ttRPC service of the call; "" for the usual service."""
    pod: int | None
    """Key into the table ``pod``."""
    container: int | None


class Stopped(Exception):
    """Signal that an event of the original is unreadable; all earlier events were yielded."""

    def __init__(self, event: int, cause: RecordingError) -> None:
        super().__init__(event, cause)
        self.event = event
        self.cause = cause


def numbers_of(
    source: Recording, *, until: int, after: int = 0, together: int = CHUNK
) -> Iterator[Sequence[int]]:
    """Yield the numbers of all events after a number, in pages. Raises RecordingError."""
    query = "SELECT id FROM event WHERE id <= ? AND id > ? ORDER BY id LIMIT ?"
    for page in pages(source, query, until, after=after, until=until, size=together):
        yield [number for (number,) in page if number is not None]


def exchanges(
    source: Recording,
    numbers: Sequence[int] | None,
    *,
    until: int,
    after: int = 0,
    together: int = CHUNK,
) -> Iterator[list[Exchange]]:
    """Yield the events with these ascending numbers up to ``until``, in pages.

    Without numbers, all events ``after`` one, in pages of at most ``together``.

    Raises Stopped.
    """
    allowance = source.allowance(_BUDGET_FACTOR, is_copy=True)
    every = (
        numbers_of(source, until=until, after=after, together=together)
        if numbers is None
        else chunks(numbers)
    )
    while True:
        try:
            page = next(every, None)
        except RecordingError as error:
            raise Stopped(after + 1, error) from error
        if page is None or page[0] > until:
            return
        some = [number for number in page if number <= until]
        after = some[-1]
        try:
            for found in _paged(source, some, allowance):
                some = [number for number in some if number > found[-1].event.id]
                yield found
        except RecordingError:
            for number in some:
                try:
                    yield from _paged(source, [number], allowance)
                except RecordingError as error:
                    raise Stopped(number, error) from error


def _paged(
    source: Recording, numbers: Sequence[int], allowance: Allowance
) -> Iterator[list[Exchange]]:
    page: list[Exchange] = []
    size = 0
    for one in _read(source, numbers, allowance):
        page.append(one)
        size += len(one.request) + len(one.reply)
        if size > _PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _read(source: Recording, numbers: Sequence[int], allowance: Allowance) -> Iterator[Exchange]:
    table_values = _table_values(source, numbers)
    for event, request, reply in source.exchanges(among=numbers, allowance=allowance):
        service, pod, container = table_values.get(event.id, ("", None, None))
        yield Exchange(event, request, reply, service, pod, container)


def _table_values(
    source: Recording, numbers: Sequence[int]
) -> dict[int, tuple[str, int | None, int | None]]:
    rows = source.rows(
        "SELECT e.id, e.pod, e.container, coalesce(n.text, '') FROM event AS e "
        f"LEFT JOIN name AS n ON n.id = e.service WHERE e.id IN {listed(numbers)}"
    )
    found: dict[int, tuple[str, int | None, int | None]] = {}
    with recording_errors(source):
        for *keys, service in rows:
            number, pod, container = optional_numbers_of(tuple(keys))
            if number is None or not isinstance(service, str):
                raise RowError("an event has values of a wrong type")
            found[number] = (service, pod, container)
    return found
