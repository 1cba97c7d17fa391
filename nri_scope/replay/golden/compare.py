# SPDX-License-Identifier: Apache-2.0
"""Comparison of an expected reply with the actual one: differences, and matchers to keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nri_scope.nri.plain import Plain

from .matchers import Expected, Ignored, Matcher
from .reply_values import MOUNT_KEY, UNORDERED, unordered


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two replies differ."""

    path: str
    """A JSON pointer into the reply; "" for the whole. Mounts are addressed by destination."""
    expected: Expected
    """The expected value; None if no value is expected."""
    got: Plain
    """The actual value; None if absent."""


ORDER = "(order)"
"""Last step of a path if the members are equal but their order differs."""


def differences(expected: Expected, got: Plain, path: str = "") -> tuple[Difference, ...]:
    """Return every place at which ``got`` differs from the expected value, by path in the order of
    the reply.
    """
    return tuple(_differences(expected, got, path))


def matches(expected: Expected, got: Plain) -> bool:
    """Return whether there are no differences."""
    return next(_differences(expected, got, ""), None) is None


def kept(expected: Expected, got: Plain) -> Expected:
    """Return ``got``, with the matchers of ``expected`` that accept the value in their place.

    The result matches ``got``.
    """
    if isinstance(expected, Matcher):
        return expected if expected.accepts(got) else _copy(got)
    if isinstance(expected, dict) and isinstance(got, dict):
        merged: dict[str, Expected] = {}
        for key, value in got.items():
            old = expected.get(key)
            if key in UNORDERED:
                old, value = _sorted(old), _sorted_reply(value)
            merged[key] = kept(old, value)
        for key, old in expected.items():
            if key not in got and _may_be_absent(old):
                merged[key] = old
        return merged
    if isinstance(expected, list) and isinstance(got, list):
        return _kept_list(expected, got)
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


def _kept_list(expected: list[Expected], got: list[Plain]) -> list[Expected]:
    old_by_key, new_by_key = _keyed(expected), _keyed(got)
    if old_by_key is not None and new_by_key is not None:
        return [kept(old_by_key.get(key), item) for key, item in new_by_key.items()]
    if len(expected) == len(got):
        return [kept(old, item) for old, item in zip(expected, got, strict=True)]
    # Values were added or removed: matchers that still fit are kept in their places.
    merged: list[Expected] = []
    at = 0
    for item in got:
        found = next((i for i in range(at, len(expected)) if matches(expected[i], item)), None)
        merged.append(_copy(item) if found is None else kept(expected[found], item))
        at = at if found is None else found + 1
    return merged


def _differences(expected: Expected, got: Plain, path: str) -> Iterator[Difference]:
    if isinstance(expected, Matcher):
        if not expected.accepts(got):
            yield Difference(path, expected, got)
    elif isinstance(expected, dict) and isinstance(got, dict):
        yield from _in_mappings(expected, got, path)
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _in_lists(expected, got, path)
    elif got is None and _may_be_absent(expected):
        return
    # In Python, True equals 1.
    elif type(expected) is not type(got) or expected != got:
        yield Difference(path, expected, got)


def _in_mappings(
    expected: Mapping[str, Expected], got: Mapping[str, Plain], path: str
) -> Iterator[Difference]:
    for key in (*expected, *(key for key in got if key not in expected)):
        old, new = expected.get(key), got.get(key)
        if key in UNORDERED:
            old, new = _sorted(old), _sorted_reply(new)
        yield from _differences(old, new, _below(path, key))


def _in_lists(expected: list[Expected], got: list[Plain], path: str) -> Iterator[Difference]:
    old_by_key, new_by_key = _keyed(expected), _keyed(got)
    if old_by_key is not None and new_by_key is not None:
        yield from _in_mappings(old_by_key, new_by_key, path)
        if set(old_by_key) == set(new_by_key) and list(old_by_key) != list(new_by_key):
            yield Difference(_below(path, ORDER), list(old_by_key), list(new_by_key))
        return
    for at in range(max(len(expected), len(got))):
        old = expected[at] if at < len(expected) else None
        new = got[at] if at < len(got) else None
        yield from _differences(old, new, f"{path}/{at}")


_Item = TypeVar("_Item", Expected, Plain)


def _keyed(items: list[_Item]) -> dict[str, _Item] | None:
    """Return mounts by destination if each occurs once; None for any other list."""
    found: dict[str, _Item] = {}
    for item in items:
        key = item.get(MOUNT_KEY) if isinstance(item, dict) else None
        if not isinstance(key, str) or key in found:
            return None
        found[key] = item
    return found


def _may_be_absent(expected: Expected) -> bool:
    """Return whether the value contains only ``!ignored``."""
    if isinstance(expected, dict):
        return bool(expected) and all(_may_be_absent(item) for item in expected.values())
    return isinstance(expected, Ignored)


def _sorted(value: Expected) -> Expected:
    """Sort a hand-written set into the order of replies; leave one with matchers unchanged."""
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return unordered(value)
    return value


def _sorted_reply(value: Plain) -> Plain:
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return unordered(value)
    return value


def _copy(value: Plain) -> Expected:
    if isinstance(value, dict):
        sets = UNORDERED.intersection(value)
        return {k: _copy(_sorted_reply(v) if k in sets else v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _below(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
