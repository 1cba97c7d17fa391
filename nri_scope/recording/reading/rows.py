# SPDX-License-Identifier: Apache-2.0
"""Convert rows of an untrusted recording to values, after checking their types.

SQLite allows values of any type in any column, regardless of the column's declared type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

from nri_scope.events import (
    Container,
    Event,
    Gap,
    Note,
    Pod,
    Printed,
    Problem,
    Session,
    Status,
    Tapped,
    UserMark,
)

from ..file.sqlite_text import ITEMS_MAX, more

EVENT_FIELDS = [column.name for column in fields(Event)]
"""Names of `EVENT_COLUMNS`."""
EVENT_COLUMNS = ", ".join(EVENT_FIELDS)
"""Columns of the view ``events``, for `event_of`."""
SESSION_FIELDS = tuple(field.name for field in fields(Session) if field.name != "failure_policy")
"""Fields of `events.Session` that are columns of the table ``session``."""
SESSION_COLUMNS = ", ".join(SESSION_FIELDS)
"""Columns of the table ``session``, for `session_of`."""
CONTAINER_COLUMNS = "c.key, c.id, c.name, p.key, p.id, p.namespace, p.name, p.uid"
"""Columns of ``container AS c`` with its ``pod AS p``, for `containers_of`."""

# Row from sqlite3, whose types are not checked yet.
Row = tuple[Any, ...]

_Types = tuple[type, ...]
_NULL = type(None)


class RowError(ValueError):
    """Row that no recorder could have written. The text is the reason."""


def _check(what: str, row: Row, *expected: _Types) -> None:
    if tuple(map(type, row)) not in expected:
        raise RowError(f"{what} has values of a wrong type")


def _types(model: type[Any], **others: type) -> _Types:
    """Return the types of a dataclass's fields in a row: integers or texts."""
    plain: dict[str, type] = {"int": int, "bool": int}
    return tuple(
        others.get(column.name, plain.get(str(column.type), str))
        for column in fields(model)
        if model is not Session or column.name in SESSION_FIELDS
    )


_EVENT = _types(Event)
LISTS = tuple(map(EVENT_FIELDS.index, ("changed", "owners", "outcomes", "targets")))
"""Positions in a row of the columns that are lists as JSON."""
_, _, _OUTCOMES, _TARGETS = LISTS
_STATUS, _PROBLEM = EVENT_FIELDS.index("status"), EVENT_FIELDS.index("problem")
_STATUSES: dict[object, Status] = {str(member): member for member in Status}
_PROBLEMS: dict[object, Problem] = {str(member): member for member in Problem}
_SESSIONS = tuple(
    _types(Session, ended_ns=ended, synced_ns=synced)
    for ended in (int, _NULL)
    for synced in (int, _NULL)
)
_INFERRED = SESSION_FIELDS.index("nri_version_inferred")
_POD = _types(Pod)
_ORPHAN = (int, str, str, *[_NULL] * len(_POD))
_NUMBER_OR_NULL = (int, _NULL)
_NUMBERS_OR_NULL = frozenset(_NUMBER_OR_NULL)
_SHORT = 1_000


def ascending(rows: Iterable[Row], after: tuple[int, ...]) -> Iterator[Row]:
    """Yield rows whose first columns are ascending numbers above ``after``.

    The keys of a forged file may not ascend, even in a query ordered by them. Raises RowError.
    """
    width = len(after)
    if width == 1:
        # The hot path of reading.
        (last,) = after
        for row in rows:
            number = row[0]
            if type(number) is not int or number <= last:
                raise RowError("its rows are out of order")
            last = number
            yield row
        return
    numbers = (int,) * width
    for row in rows:
        key = row[:width]
        if tuple(map(type, key)) != numbers or not after < key:
            raise RowError("its rows are out of order")
        after = key
        yield row


def event_of(row: Row) -> Event:
    """Return an event from `EVENT_COLUMNS`. Raises RowError."""
    # The hot path of reading.
    if tuple(map(type, row)) != _EVENT:
        raise RowError("an event has values of a wrong type")
    values = list(row)
    # The view knows no other statuses.
    values[_STATUS] = _STATUSES[row[_STATUS]]
    if row[_PROBLEM]:
        values[_PROBLEM] = _PROBLEMS.get(row[_PROBLEM], "")
    for column in LISTS:
        text = row[column]
        # Most events have no changes, or the same as others, so decoded lists are cached.
        if text == "[]":
            values[column] = ()
        else:
            values[column] = _repeated(text) if len(text) <= _SHORT else _texts(text)
    if values[_OUTCOMES] and len({len(values[column]) for column in LISTS}) > 1:
        # Lists that are too long were cut.
        values[_OUTCOMES] = values[_TARGETS] = ()
    return Event(*values)


def session_of(row: Row) -> Session:
    """Return a session from `SESSION_COLUMNS`. Raises RowError."""
    _check("a session", row, *_SESSIONS)
    values = list(row)
    values[_INFERRED] = bool(values[_INFERRED])
    return Session(*values)


def gap_of(row: Row) -> Gap:
    """Return a gap from id, session, from_ns, to_ns, reason, lost. Raises RowError."""
    _check(
        "a gap",
        row,
        *((int, session, int, int, str, lost) for session in _NUMBER_OR_NULL
          for lost in _NUMBER_OR_NULL),
    )  # fmt: skip
    return Gap(*row)


def note_of(row: Row) -> Note:
    """Return a note from id, session, at_ns, text. Raises RowError."""
    _check("a note", row, *((int, session, int, str) for session in _NUMBER_OR_NULL))
    return Note(*row)


def mark_of(row: Row) -> UserMark:
    """Return a mark from event, at_ns, comment, made_ns. Raises RowError."""
    _check("a mark", row, (int, int, str, int))
    return UserMark(*row)


def printed_of(row: Row) -> Printed:
    """Return a line of output from id, session, at_ns, stream, text. Raises RowError."""
    _check("a line of output", row, (int, int, int, str, str))
    return Printed(*row)


def tapped_of(row: Row) -> Tapped:
    """Return transport data from event, held_ns, metadata. Raises RowError."""
    _check("a tap's record", row, (int, int, str), (int, int, _NULL), (int, _NULL, str))
    event, held_ns, metadata = row
    return Tapped(event, held_ns, _pairs(metadata) if metadata else ())


def pod_of(row: Row) -> Pod:
    """Return a pod from key, id, namespace, name, uid. Raises RowError."""
    _check("a pod", row, _POD)
    return Pod(*row)


def containers_of(rows: Iterable[Row]) -> list[Container]:
    """Return containers from rows of `CONTAINER_COLUMNS`. Raises RowError.

    Containers of the same pod share one `Pod`.
    """
    pods: dict[int, Pod] = {}
    containers: list[Container] = []
    for row in rows:
        _check("a container", row, (int, str, str, *_POD), _ORPHAN)
        key, container_id, name, pod, *_ = row
        if pod is not None and pod not in pods:
            pods[pod] = pod_of(row[3:])
        containers.append(Container(key, container_id, name, None if pod is None else pods[pod]))
    return containers


def number_of(row: Row) -> int:
    """Return the number in a row with one column. Raises RowError."""
    _check("a number", row, (int,))
    return cast("int", row[0])


def optional_numbers_of(row: Row) -> tuple[int | None, ...]:
    """Return a row of numbers, any of which may be NULL. Raises RowError."""
    if not _NUMBERS_OR_NULL.issuperset(map(type, row)):
        raise RowError("a reference is not a number")
    return row


def _pairs(encoded: str) -> tuple[tuple[str, str], ...]:
    try:
        pairs = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise RowError("metadata that is not JSON") from error
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in pairs
    ):
        raise RowError("metadata that is not a list of pairs of texts")
    return tuple((key, value) for key, value in pairs[:ITEMS_MAX])


@lru_cache(maxsize=1024)
def _repeated(encoded: str) -> tuple[str, ...]:
    return _texts(encoded)


def _texts(encoded: str) -> tuple[str, ...]:
    try:
        texts = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise RowError("an event has changes that are not JSON") from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RowError("an event has changes that are not texts")
    if len(texts) > ITEMS_MAX + 1:
        texts[ITEMS_MAX:] = [more(len(texts) - ITEMS_MAX)]
    return tuple(texts)
