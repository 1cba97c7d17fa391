# SPDX-License-Identifier: Apache-2.0
"""Find mismatches of replies with a golden, each with the nearest expected reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nri_scope.nri.plain import Plain

from .compare import Difference, differences
from .entries import Key, is_quiet
from .matchers import Expected, Ignored

MAX_CANDIDATES = 50
"""Maximum number of candidates for the nearest entry, to limit the time."""
MAX_SEARCHES = 100
"""Maximum number of missing entries whose nearest entry is searched, to limit the time."""


class MismatchKind(StrEnum):
    """Kind of a mismatch."""

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
    key: Key
    expected: Expected
    """The entry of the golden, or the nearest one; None if there is none."""
    got: Plain
    """The actual reply; None if the event did not happen."""
    differences: tuple[Difference, ...] = ()
    """Differences between these two, if both exist."""
    nearest: Key | None = None
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
    expected: Mapping[Key, Expected],
    got: Mapping[Key, dict[str, Plain]],
    lines: Mapping[Key, int],
) -> list[Mismatch]:
    """Return all mismatches, in the order of a golden."""
    unused = [key for key, entry in expected.items() if key not in got and _needs_reply(entry)]
    nearest = _Nearest(expected, unused)
    found: list[Mismatch] = []
    for key, reply in got.items():
        if key not in expected:
            found.append(_missing(key, reply, nearest.to(key, reply), expected, lines))
        elif differ := differences(expected[key], reply):
            line = lines.get(key, 0)
            found.append(
                Mismatch(MismatchKind.DIFFERS, key, expected[key], reply, differ, line=line)
            )
    found += [
        Mismatch(MismatchKind.UNUSED, k, expected[k], None, line=lines.get(k, 0)) for k in unused
    ]
    return sorted(found, key=lambda mismatch: mismatch.key.place)


def _missing(
    key: Key,
    reply: dict[str, Plain],
    nearest: Key | None,
    expected: Mapping[Key, Expected],
    lines: Mapping[Key, int],
) -> Mismatch:
    if nearest is None:
        return Mismatch(MismatchKind.MISSING, key, None, reply)
    entry = expected[nearest]
    differ = differences(entry, reply)
    return Mismatch(MismatchKind.MISSING, key, entry, reply, differ, nearest, lines.get(nearest, 0))


def _needs_reply(entry: Expected) -> bool:
    return not isinstance(entry, Ignored)


class _Nearest:
    """Search for the non-empty entry that is most similar to a reply."""

    def __init__(self, expected: Mapping[Key, Expected], unused: Iterable[Key]) -> None:
        self._expected = expected
        self._unused = frozenset(unused)
        self._searches = 0
        self._by_kind: defaultdict[str, list[Key]] = defaultdict(list)
        for key, entry in expected.items():
            if isinstance(entry, dict) and not is_quiet(entry):
                self._by_kind[key.kind].append(key)

    def to(self, key: Key, reply: dict[str, Plain]) -> Key | None:
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
                other.place,
            ),
            default=None,
        )


def _alike(one: str, other: str) -> int:
    """Return the number of equal parts of two names."""
    return sum(a == b for a, b in zip(one.split("/"), other.split("/"), strict=False))
