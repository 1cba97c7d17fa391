# SPDX-License-Identifier: Apache-2.0
"""Compare an expected reply with the actual one, and merge its matchers into an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from nri_scope.nri.plain import Plain
from nri_scope.specs.json_spec import pointer

from .entries import ReplyKey, is_quiet
from .matchers import Expected, Ignored, Matcher
from .reply_values import MOUNT_KEY, UNORDERED, unordered


@dataclass(frozen=True, slots=True)
class ReplyDifference:
    """Difference of two replies at one path."""

    path: str
    """A JSON pointer into the reply; "" for the whole. Mounts are addressed by destination."""
    expected: Expected
    """The expected value; None if no value is expected."""
    got: Plain
    """The actual value; None if absent."""


ORDER = "(order)"
"""Last step of a path whose members are equal but in another order."""


def differences(expected: Expected, got: Plain, path: str = "") -> tuple[ReplyDifference, ...]:
    """Return all differences between ``got`` and the expected value, in the order of the reply."""
    return tuple(_differences(expected, got, path))


def matches(expected: Expected, got: Plain) -> bool:
    """Return whether there are no differences."""
    return next(_differences(expected, got, ""), None) is None


def merge_matchers(expected: Expected, got: Plain) -> Expected:
    """Return ``got``, with each value replaced by the matcher of ``expected`` that accepts it."""
    if isinstance(expected, Matcher):
        return expected if expected.accepts(got) else _copy(got)
    if isinstance(expected, dict) and isinstance(got, dict):
        merged: dict[str, Expected] = {}
        for key, value in got.items():
            old = expected.get(key)
            if key in UNORDERED:
                old, value = _in_order(old), _in_order(value)
            merged[key] = merge_matchers(old, value)
        for key, old in expected.items():
            if key not in got and _may_be_absent(old):
                merged[key] = old
        return merged
    if isinstance(expected, list) and isinstance(got, list):
        return _merge_lists(expected, got)
    return _copy(got)


def matchers_in(expected: Expected | None) -> Iterator[Matcher]:
    """Yield every matcher, in order."""
    if isinstance(expected, Matcher):
        yield expected
    elif isinstance(expected, dict):
        for value in expected.values():
            yield from matchers_in(value)
    elif isinstance(expected, list):
        for value in expected:
            yield from matchers_in(value)


def _merge_lists(expected: list[Expected], got: list[Plain]) -> list[Expected]:
    old_by_key, new_by_key = _keyed(expected), _keyed(got)
    if old_by_key is not None and new_by_key is not None:
        return [merge_matchers(old_by_key.get(key), item) for key, item in new_by_key.items()]
    if len(expected) == len(got):
        return [merge_matchers(old, item) for old, item in zip(expected, got, strict=True)]
    # Values were added or removed: keep matchers that accept a value, in order.
    merged: list[Expected] = []
    start = 0
    for item in got:
        index = next((i for i in range(start, len(expected)) if matches(expected[i], item)), None)
        merged.append(_copy(item) if index is None else merge_matchers(expected[index], item))
        start = start if index is None else index + 1
    return merged


def _differences(expected: Expected, got: Plain, path: str) -> Iterator[ReplyDifference]:
    if isinstance(expected, Matcher):
        if not expected.accepts(got):
            yield ReplyDifference(path, expected, got)
    elif isinstance(expected, dict) and isinstance(got, dict):
        yield from _in_mappings(expected, got, path)
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _in_lists(expected, got, path)
    elif got is None and _may_be_absent(expected):
        return
    # In Python, True equals 1.
    elif type(expected) is not type(got) or expected != got:
        yield ReplyDifference(path, expected, got)


def _in_mappings(
    expected: Mapping[str, Expected], got: Mapping[str, Plain], path: str
) -> Iterator[ReplyDifference]:
    for key in (*expected, *(key for key in got if key not in expected)):
        old, new = expected.get(key), got.get(key)
        if key in UNORDERED:
            old, new = _in_order(old), _in_order(new)
        yield from _differences(old, new, pointer(path, key))


def _in_lists(expected: list[Expected], got: list[Plain], path: str) -> Iterator[ReplyDifference]:
    old_by_key, new_by_key = _keyed(expected), _keyed(got)
    if old_by_key is not None and new_by_key is not None:
        yield from _in_mappings(old_by_key, new_by_key, path)
        if set(old_by_key) == set(new_by_key) and list(old_by_key) != list(new_by_key):
            yield ReplyDifference(pointer(path, ORDER), list(old_by_key), list(new_by_key))
        return
    for index in range(max(len(expected), len(got))):
        old = expected[index] if index < len(expected) else None
        new = got[index] if index < len(got) else None
        yield from _differences(old, new, f"{path}/{index}")


_Item = TypeVar("_Item", Expected, Plain)


def _keyed(items: list[_Item]) -> dict[str, _Item] | None:
    """Return mounts by destination; None for other lists, or if a destination is repeated."""
    by_destination: dict[str, _Item] = {}
    for item in items:
        key = item.get(MOUNT_KEY) if isinstance(item, dict) else None
        if not isinstance(key, str) or key in by_destination:
            return None
        by_destination[key] = item
    return by_destination


def _may_be_absent(expected: Expected) -> bool:
    """Return whether the value consists of ``!ignored`` only."""
    if isinstance(expected, dict):
        return bool(expected) and all(_may_be_absent(item) for item in expected.values())
    return isinstance(expected, Ignored)


def _in_order(value: _Item) -> _Item:
    """Sort a list that is a set as replies are, unless it contains matchers."""
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return cast("_Item", unordered(cast("list[str | int]", value)))
    return value


def _copy(value: Plain) -> Expected:
    if isinstance(value, dict):
        sets = UNORDERED.intersection(value)
        return {k: _copy(_in_order(v) if k in sets else v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


MAX_CANDIDATES = 50
"""Maximum number of candidates for the nearest entry, to limit the time."""
MAX_SEARCHES = 100
"""Maximum number of missing entries whose nearest entry is searched, to limit the time."""


class MismatchKind(StrEnum):
    """How a replay differs from the golden file."""

    DIFFERS = "differs"
    """A reply that differs from its entry."""
    MISSING = "missing"
    """A reply for which the golden has no entry."""
    UNUSED = "unused"
    """An entry of the golden without a reply."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Event whose reply is not as expected."""

    kind: MismatchKind
    key: ReplyKey
    expected: Expected
    """The entry of the golden, or the nearest one; None if there is none."""
    got: Plain
    """The actual reply; None if the event did not happen."""
    differences: tuple[ReplyDifference, ...] = ()
    """Differences between these two, if both exist."""
    nearest: ReplyKey | None = None
    """Key of ``expected`` if that is another event's entry; else None."""
    line: int = 0
    """Line of ``expected`` in the golden's file; 0 if unknown."""

    @property
    def quiet(self) -> bool:
        """Whether an empty reply is missing or unexpected."""
        return self.kind is not MismatchKind.DIFFERS and is_quiet(
            self.got if self.kind is MismatchKind.MISSING else self.expected
        )


def compare_entries(
    expected: Mapping[ReplyKey, Expected],
    got: Mapping[ReplyKey, dict[str, Plain]],
    lines: Mapping[ReplyKey, int],
) -> list[Mismatch]:
    """Return all mismatches, in the order of a golden."""
    unused = [
        key for key, entry in expected.items() if key not in got and not isinstance(entry, Ignored)
    ]
    nearest = _Nearest(expected, unused)
    mismatches: list[Mismatch] = []
    for key, reply in got.items():
        if key not in expected:
            mismatches.append(_missing(key, reply, nearest.to(key, reply), expected, lines))
        elif differ := differences(expected[key], reply):
            line = lines.get(key, 0)
            mismatches.append(
                Mismatch(MismatchKind.DIFFERS, key, expected[key], reply, differ, line=line)
            )
    mismatches += [
        Mismatch(MismatchKind.UNUSED, k, expected[k], None, line=lines.get(k, 0)) for k in unused
    ]
    return sorted(mismatches, key=lambda mismatch: mismatch.key.sort_key)


def _missing(
    key: ReplyKey,
    reply: dict[str, Plain],
    nearest: ReplyKey | None,
    expected: Mapping[ReplyKey, Expected],
    lines: Mapping[ReplyKey, int],
) -> Mismatch:
    if nearest is None:
        return Mismatch(MismatchKind.MISSING, key, None, reply)
    entry = expected[nearest]
    differ = differences(entry, reply)
    return Mismatch(MismatchKind.MISSING, key, entry, reply, differ, nearest, lines.get(nearest, 0))


class _Nearest:
    """Search for the non-empty entry that is most similar to a reply."""

    def __init__(self, expected: Mapping[ReplyKey, Expected], unused: Iterable[ReplyKey]) -> None:
        self._expected = expected
        self._unused = frozenset(unused)
        self._searches = 0
        self._by_kind: defaultdict[str, list[ReplyKey]] = defaultdict(list)
        for key, entry in expected.items():
            if isinstance(entry, dict) and not is_quiet(entry):
                self._by_kind[key.kind].append(key)

    def to(self, key: ReplyKey, reply: dict[str, Plain]) -> ReplyKey | None:
        if is_quiet(reply) or self._searches >= MAX_SEARCHES:
            return None
        self._searches += 1
        candidates = sorted(
            self._by_kind.get(key.kind, ()),
            key=lambda other: (other.plugin != key.plugin, -_alike(other.subject, key.subject)),
        )[:MAX_CANDIDATES]
        return min(
            candidates,
            key=lambda other: (
                other.plugin != key.plugin,
                len(differences(self._expected[other], reply)),
                # Prefer an entry without a reply: its subject was possibly renamed.
                other not in self._unused,
                -_alike(other.subject, key.subject),
                other.sort_key,
            ),
            default=None,
        )


def _alike(left: str, right: str) -> int:
    """Return the number of equal parts of two names."""
    return sum(a == b for a, b in zip(left.split("/"), right.split("/"), strict=False))
