# SPDX-License-Identifier: Apache-2.0
"""Limit the work of one command on a file, by the size of the file.

A file's size does not bound the work of reading it: a message that is stored once may belong to a
hundred thousand events, and a cycle of pages in a damaged file yields endless rows. So each kind of
work has units, of which a file gets some for each of its bytes. What happens when none are left is
up to the work: reading ends early with a warning, a query is interrupted.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from nri_scope.nri.element_limits import UNCUT_BYTES, short_elements
from nri_scope.nri.events import CREATE, UPDATE, VALIDATE

OnShare = Callable[[float], None]
"""Receives the completed share of some work, 0 to 1. An exception from it ends the work."""


def ignore_share(_: float) -> None:
    """Ignore the completed share."""


class Rate(NamedTuple):
    """The units of work that a file may take."""

    per_byte: float
    least_bytes: int
    """Smaller files get the units of a file of this size."""

    def units(self, file_bytes: int, times: float = 1) -> int:
        """Return the units for a file of this size, multiplied by ``times``."""
        return int(max(file_bytes, self.least_bytes) * self.per_byte * times)


DECODING = Rate(2.2, 10_000_000)
"""For decoding messages; a unit is an element of a message. Recordings of real traffic use up to
two thirds, whether one connection or several probes wrote them. The most compact ordinary
recording, in which all pods have the same messages (``benchmarks/many.py``), uses four fifths; 10
MB of it are 68,000 events. A hostile file of 10 MB takes up to 20 s of processor time in ``report
--diagnose`` (``tests/bombs``, and large messages that are repeated by all events)."""
QUERY = Rate(50, 1_000_000)
"""For one query; a unit is a step of SQLite's virtual machine. A row takes 40 bytes at least, and
2,000 steps are sufficient for one in joins and a large filter."""


class Budget:
    """Units of work that are left."""

    def __init__(self, units: float = math.inf) -> None:
        """Start with ``units``; by default, there is no limit."""
        self.left = units

    @property
    def is_over(self) -> bool:
        """Whether more than the units were spent."""
        return self.left < 0

    def spend(self, units: int) -> None:
        """Subtract ``units``."""
        self.left -= units


_STEPS_PER_CALL = 100_000
"""SQLite virtual machine steps between two calls of the progress handler."""


class QueryBudget(Budget):
    """Limit for the steps of a query on one connection: a query that exceeds it is interrupted.

    The regular check also lets Python handle signals.
    """

    def __init__(self, connection: sqlite3.Connection, file_bytes: int) -> None:
        self._units = QUERY.units(file_bytes)
        super().__init__(self._units)
        connection.set_progress_handler(self._is_exhausted, _STEPS_PER_CALL)

    def renew(self) -> None:
        """Renew the budget; call it before each query."""
        self.left = self._units

    def _is_exhausted(self) -> bool:
        self.spend(_STEPS_PER_CALL)
        return self.is_over


_EVENT = 50
_EVENTS = {CREATE: 200, UPDATE: 200, VALIDATE: 200}
"""Units for an event, regardless of its content. An element of a message is one unit."""
_REPEAT_DIVISOR = 3
"""Divisor of the units of a message that was decoded before."""
_LARGE_BYTES, _LARGE_SHORT = 4, 8
"""For messages that may be truncated on each read: bytes per unit, and units per short element."""
_SHORT_MEMBER, _SHORT = 8, 16
"""Extra units for a list member of fewer than ``_SHORT`` bytes: even an empty mount is displayed
with all of its fields.
"""
MAX_UNITS_PER_BYTE = 3
"""Upper bound of units per byte, for messages whose elements are not counted."""
_MAX_CACHED = 100_000


class Allowance(Budget):
    """Budget of one command for decoding the messages of a recording, which may grow."""

    def __init__(self, file_bytes: int, times: float = 1, *, is_copy: bool = False) -> None:
        """Start with the budget of a file of this size, multiplied by ``times``.

        ``is_copy``: whether exceeding it is an error, instead of a warning.
        """
        super().__init__(0)
        self.is_copy = is_copy
        self._times = times
        self._total = self._uncounted = 0
        self.extend(file_bytes)
        self._known: dict[int, int] = {}

    def extend(self, file_bytes: int) -> None:
        """Add the budget of the bytes by which the file has grown to this size."""
        more = max(0, DECODING.units(file_bytes, self._times) - self._total)
        self._total += more
        self.left += more
        self._uncounted += more // 4

    def spend_event(self, method: str) -> None:
        """Subtract the units of an event."""
        self.left -= _EVENTS.get(method, _EVENT)

    def spend_again(self, number: int) -> bool:
        """Subtract the units of a message decoded before; return False if it is not cached.

        ``number``: the message's object id.
        """
        units = self._known.get(number)
        if units is None:
            return False
        self.left -= units
        return True

    def spend_message(self, kind: type[Message] | None, content: bytes, number: int) -> None:
        """Subtract the units of a message with the object id ``number``."""
        if len(content) > UNCUT_BYTES:
            again = units = len(content) // _LARGE_BYTES + _LARGE_SHORT * short_elements(content)
        else:
            # No counting is needed while the bytes so far cannot exceed a quarter of the budget.
            self._uncounted -= MAX_UNITS_PER_BYTE * len(content)
            if self._uncounted >= 0:
                return
            units = _elements_in(kind, content)
            again = units // _REPEAT_DIVISOR
        self.left -= units
        if len(self._known) < _MAX_CACHED:
            self._known[number] = again


def _elements_in(kind: type[Message] | None, content: bytes) -> int:
    if kind is None:
        return 1
    try:
        message = kind.FromString(content)
    except DecodeError:
        return 1
    return _elements_of(message)


def _elements_of(message: Message) -> int:
    """Return the approximate number of elements; scalar fields count even if unset."""
    layout = _layout(message.DESCRIPTOR)
    count = layout.scalars
    for name in layout.lists:
        count += len(getattr(message, name))
    for name in layout.maps:
        count += 3 * len(getattr(message, name))
    for name, inner in layout.message_lists:
        # Most lists are empty, and most of their members contain no messages.
        if members := getattr(message, name):
            if inner is None:
                count += sum(map(_elements_of, members))
            else:
                count += inner.scalars * len(members)
                for field in inner.lists:
                    count += sum(len(getattr(member, field)) for member in members)
            count += _SHORT_MEMBER * [member.ByteSize() < _SHORT for member in members].count(True)
    for name, scalars in layout.messages:
        if message.HasField(name):
            count += 1 + (scalars or _elements_of(getattr(message, name)))
    return count


class _Layout(NamedTuple):
    """Fields of a message type, by kind."""

    scalars: int
    lists: tuple[str, ...]
    maps: tuple[str, ...]
    message_lists: tuple[tuple[str, _Layout | None], ...]
    """Names with the layout of the members; None for members that contain maps or messages."""
    messages: tuple[tuple[str, int], ...]
    """Names with the number of scalar fields; 0 for a message that also has other fields."""


@cache
def _layout(kind: Descriptor) -> _Layout:
    scalars = 0
    lists: list[str] = []
    maps: list[str] = []
    message_lists: list[tuple[str, _Layout | None]] = []
    messages: list[tuple[str, int]] = []
    for field in kind.fields:
        inner = field.message_type
        if inner is None:
            if field.is_repeated:
                lists.append(field.name)
            else:
                scalars += 1
        elif inner.GetOptions().map_entry:
            maps.append(field.name)
        else:
            # No message type is recursive.
            layout = _layout(inner)
            is_flat = not (layout.maps or layout.message_lists or layout.messages)
            if field.is_repeated:
                message_lists.append((field.name, layout if is_flat else None))
            else:
                is_plain = is_flat and not layout.lists
                messages.append((field.name, layout.scalars if is_plain else 0))
    return _Layout(scalars, tuple(lists), tuple(maps), tuple(message_lists), tuple(messages))
