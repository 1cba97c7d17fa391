# SPDX-License-Identifier: Apache-2.0
"""Events of the original with all that the new recording needs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nri_scope.errors import RecordingError
from nri_scope.recorder.model import Event
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rebuild.numbers import CHUNK, chunks, listed
from nri_scope.recorder.rows import RowError, number_of, optional_numbers_of
from nri_scope.recorder.rows import ascending as in_order
from nri_scope.recorder.sound import sound


class Exchange(NamedTuple):
    """One event with its messages."""

    event: Event
    request: bytes
    reply: bytes
    service: str
    """The ttRPC service that was named; "" for the usual one."""
    pod: int | None
    """Key of the table ``pod``."""
    container: int | None


class Stopped(Exception):
    """The original is damaged at an event; those before it were given."""

    def __init__(self, event: int, cause: RecordingError) -> None:
        super().__init__(event, cause)
        self.event = event
        self.cause = cause


def numbers_of(source: Recording, *, after: int, until: int) -> Iterator[Sequence[int]]:
    """All events, some at a time. Raises RecordingError."""
    while True:
        rows = source.rows(
            "SELECT id FROM event WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            (after, until, CHUNK),
        )
        with sound(source):
            page = [number_of(row) for row in in_order(rows, (after,))]
        if page:
            yield page
        if len(page) < CHUNK:
            return
        after = page[-1]


def exchanges(
    source: Recording, numbers: Sequence[int] | None, *, until: int
) -> Iterator[list[Exchange]]:
    """Events with these numbers (None: all) up to ``until``, some at a time. Raises Stopped."""
    after = 0
    pages = numbers_of(source, after=after, until=until) if numbers is None else chunks(numbers)
    while True:
        try:
            page = next(pages, None)
        except RecordingError as error:
            raise Stopped(after + 1, error) from error
        if page is None:
            return
        if page[0] > until:
            return
        some = [number for number in page if number <= until]
        found: list[Exchange] = []
        try:
            others = _others(source, some)
            for event, request, reply in source.exchanges(among=some):
                service, pod, container = others.get(event.id, ("", None, None))
                found.append(Exchange(event, request, reply, service, pod, container))
        except RecordingError as error:
            there = {one.event.id for one in found}
            if found:
                yield found
            at = next((number for number in some if number not in there), some[-1] + 1)
            raise Stopped(at, error) from error
        after = some[-1]
        yield found


def _others(
    source: Recording, numbers: Sequence[int]
) -> dict[int, tuple[str, int | None, int | None]]:
    rows = source.rows(
        "SELECT e.id, e.pod, e.container, coalesce(n.text, '') FROM event AS e "
        f"LEFT JOIN name AS n ON n.id = e.service WHERE e.id IN {listed(numbers)}"
    )
    found: dict[int, tuple[str, int | None, int | None]] = {}
    with sound(source):
        for *keys, service in rows:
            number, pod, container = optional_numbers_of(tuple(keys))
            if number is None or not isinstance(service, str):
                raise RowError("an event has values of a wrong type")
            found[number] = (service, pod, container)
    return found
