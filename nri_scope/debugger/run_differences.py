# SPDX-License-Identifier: Apache-2.0
"""Compare the replies of two runs of one replay, as compact lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from nri_scope.replay.golden import Key, Mismatch, MismatchKind
from nri_scope.replay.golden.compare import compare_entries
from nri_scope.replay.golden.entries import entries_in_order
from nri_scope.replay.golden.matchers import Expected
from nri_scope.replay.golden.reply_values import NameOf
from nri_scope.replay.replies import Reply
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Style, styled
from nri_scope.text.yaml_text import YamlValue, inline

REPLIES_SHOWN = 50
"""Maximum number of differing replies listed."""
PATHS_SHOWN = 20
"""Maximum number of differing paths of one reply listed."""
_VALUE_MAX = 200
"""Maximum number of characters of one value."""


def run_differences(
    before: Iterable[Reply], now: Iterable[Reply], name_of: NameOf
) -> Iterator[str]:
    """Yield a line for each reply that differs, and for each path in it; safe for a terminal.

    They are in the order of the replies; one that is missing now follows its predecessor.
    """
    expected = cast("dict[Key, Expected]", entries_in_order(before, name_of))
    got = entries_in_order(now, name_of)
    places = {key: (place, 0) for place, key in enumerate(got)}
    last = -1, 0
    for key in expected:
        last = places.setdefault(key, (last[0], last[1] + 1))
    mismatches = compare_entries(expected, got, {})
    mismatches.sort(key=lambda mismatch: places[mismatch.key])
    for mismatch in mismatches[:REPLIES_SHOWN]:
        yield from _lines(mismatch)
    if len(mismatches) > REPLIES_SHOWN:
        yield styled(Style.DIM, f"… and {len(mismatches) - REPLIES_SHOWN} more replies")


def count_words(lines: Iterable[str]) -> str:
    """Return how many replies the lines of `run_differences` are about, for a message."""
    count = sum(not line.startswith(" ") for line in lines)
    return f"{count} {'reply differs' if count == 1 else 'replies differ'} from the run before"


def _lines(mismatch: Mismatch) -> Iterator[str]:
    name = safe(str(mismatch.key))
    if mismatch.kind is MismatchKind.UNUSED:
        yield styled(Style.BAD, f"{name}: there is no reply any more")
        return
    if mismatch.kind is MismatchKind.MISSING:
        yield styled(Style.GOOD, f"{name}: there was no reply before")
        yield f"  got {_shown(mismatch.got)}"
        return
    yield styled(Style.STRONG, name)
    for difference in mismatch.differences[:PATHS_SHOWN]:
        path = safe(difference.path, _VALUE_MAX) or "/"
        before, now = cast("YamlValue", difference.expected), difference.got
        if before is None:
            yield styled(Style.GOOD, f"  + {path} = {_shown(now)}")
        elif now is None:
            yield styled(Style.BAD, f"  - {path} (was {_shown(before)})")
        else:
            yield styled(Style.WARN, f"  ~ {path} {_shown(before)} → {_shown(now)}")
    if len(mismatch.differences) > PATHS_SHOWN:
        yield styled(Style.DIM, f"  … and {len(mismatch.differences) - PATHS_SHOWN} more paths")


def _shown(value: YamlValue) -> str:
    text = inline(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"
