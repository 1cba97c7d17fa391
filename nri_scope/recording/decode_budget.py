# SPDX-License-Identifier: Apache-2.0
"""A budget for decoding a recording's messages, for each command.

A message that is stored once may belong to a hundred thousand events, so the size of a file does
not bound the work of reading it. An ordinary recording of 10 MB takes two thirds of its budget,
some 20 s when compared; larger ones may take longer in proportion.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from nri_scope.nri.element_limits import UNCUT_BYTES, short_elements

PER_BYTE = 1.85
"""Budget units for each byte of a file."""
LEAST_BYTES = 10_000_000
"""Smallest size that is budgeted: smaller files get the budget of this size."""
_EVENT = 100
_EVENTS = {"CreateContainer": 400, "UpdateContainer": 400, "ValidateContainerAdjustment": 400}
"""Units for an event, regardless of its content. An element of a message counts as one."""
_AGAIN = 2
"""Factor by which a message seen before costs less than a new one."""
_LARGE_BYTES, _LARGE_SHORT = 4, 8
"""Bytes for one unit of a message that may have to be cut each time that it is read, as its texts
are kept as long as changes of it; and units for each of its short elements.
"""
_SHORT_MEMBER, _SHORT = 8, 16
"""Units for a message of fewer bytes in a list, besides its fields: a mount of no bytes is shown
with all of its fields.
"""
_DENSE = 3
"""Units for each byte of messages whose elements are not counted yet; few have so many."""
_REMEMBERED = 100_000


class Allowance:
    """The rest of the budget."""

    is_limited = True

    def __init__(self, file_bytes: int, times: float = 1, *, is_copy: bool = False) -> None:
        """Allow the budget for a file of this size, multiplied by ``times``.

        ``is_copy``: a result that lacks the rest is an error.
        """
        self.is_copy = is_copy
        self.left = int(max(file_bytes, LEAST_BYTES) * PER_BYTE * times)
        self._unsure = self.left // 4
        self._known: dict[int, int] = {}

    @classmethod
    def unlimited(cls) -> Allowance:
        """Return an unlimited budget, for results that must be complete, such as a copy."""
        allowance = cls(0)
        allowance.is_limited = False
        return allowance

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return self.is_limited and self.left < 0

    def spend(self, units: int) -> None:
        """Spend this number of units."""
        self.left -= units

    def spend_event(self, method: str) -> None:
        """Spend the units of an event."""
        self.left -= _EVENTS.get(method, _EVENT)

    def spend_again(self, number: int) -> bool:
        """Spend the units of a message seen before; return False if they are not known."""
        units = self._known.get(number)
        if units is None:
            return False
        self.left -= units
        return True

    def spend_message(self, kind: type[Message] | None, content: bytes, number: int) -> None:
        """Spend the units of a message, the object with this number."""
        if len(content) > UNCUT_BYTES:
            again = units = len(content) // _LARGE_BYTES + _LARGE_SHORT * short_elements(content)
        else:
            # While the bytes so far cannot contain too many elements, they are not counted.
            self._unsure -= _DENSE * len(content)
            if self._unsure >= 0:
                return
            units = _elements_in(kind, content)
            again = units // _AGAIN
        self.left -= units
        if len(self._known) < _REMEMBERED:
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
    """Return the approximate number of elements: scalars count whether set or not."""
    layout = _layout(message.DESCRIPTOR)
    found = layout.scalars
    for name in layout.lists:
        found += len(getattr(message, name))
    for name in layout.maps:
        found += 3 * len(getattr(message, name))
    for name, inner in layout.message_lists:
        # Most lists are empty, and most members have no messages in them.
        if members := getattr(message, name):
            if inner is None:
                found += sum(map(_elements_of, members))
            else:
                found += inner.scalars * len(members)
                for each in inner.lists:
                    found += sum(len(getattr(member, each)) for member in members)
            found += _SHORT_MEMBER * [member.ByteSize() < _SHORT for member in members].count(True)
    for name, scalars in layout.messages:
        if message.HasField(name):
            found += 1 + (scalars or _elements_of(getattr(message, name)))
    return found


class _Layout(NamedTuple):
    """The fields of a kind of message, by type."""

    scalars: int
    lists: tuple[str, ...]
    maps: tuple[str, ...]
    message_lists: tuple[tuple[str, _Layout | None], ...]
    """Each with its members' layout; None for members that have maps or messages in them."""
    messages: tuple[tuple[str, int], ...]
    """Each with its number of scalars; 0 for one that has other fields, too."""


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
            # No kind of message contains itself.
            layout = _layout(inner)
            is_flat = not (layout.maps or layout.message_lists or layout.messages)
            if field.is_repeated:
                message_lists.append((field.name, layout if is_flat else None))
            else:
                is_plain = is_flat and not layout.lists
                messages.append((field.name, layout.scalars if is_plain else 0))
    return _Layout(scalars, tuple(lists), tuple(maps), tuple(message_lists), tuple(messages))
