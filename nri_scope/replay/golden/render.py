# SPDX-License-Identifier: Apache-2.0
"""Format mismatches as lines and as JSON data, with the expected and actual values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import cast

from nri_scope.nri.plain import Plain
from nri_scope.text.escape import safe
from nri_scope.text.yaml_text import inline, yaml_lines

from .compare import Difference, Mismatch, MismatchKind
from .matchers import Expected, Ignored, Matcher, Present, Regex, Tolerance

MAX_LINES = 40
"""Maximum number of lines of one reply; the list of differing paths is not limited."""
MAX_WIDTH = 400
MAX_SHOWN = 50
"""Maximum number of mismatches listed."""

_CONTEXT = 40
"""Number of characters shown before the first difference of two long values."""
_NOTHING = "nothing"


def lines(
    mismatches: Sequence[Mismatch],
    golden: str,
    most: int | None = MAX_SHOWN,
    *,
    label: str = "golden",
) -> Iterator[str]:
    """Yield plain lines, safe for a terminal.

    ``golden``: file name as given by the user. ``label``: printed before it. Mismatches beyond
    ``most`` are only counted; None lists all.
    """
    if not mismatches:
        return
    file = f"{label} {safe(golden)}"
    yield f"{_counted(len(mismatches))} (expected: {file}; got: this replay)"
    shown = mismatches[:most]
    for alike, group in groupby(shown, _together):
        several = list(group)
        if alike is None:
            for mismatch in several:
                yield from _one(mismatch, file)
        else:
            yield from _quiet(several, file)
    if len(shown) < len(mismatches):
        yield f"… and {_counted(len(mismatches) - len(shown))} more"


def _counted(count: int) -> str:
    return f"{count} mismatch{'es' if count > 1 else ''}"


def _together(mismatch: Mismatch) -> tuple[MismatchKind, str, str] | None:
    return (mismatch.kind, *mismatch.key[:2]) if mismatch.quiet else None


def _quiet(mismatches: list[Mismatch], file: str) -> Iterator[str]:
    kind, key = mismatches[0].kind, mismatches[0].key
    events = ", ".join(mismatch.key.event for mismatch in mismatches)
    if kind is MismatchKind.MISSING:
        problem = f"got an empty reply that has no entry in {file}"
    else:
        problem = f"expected an empty reply ({file}), but the event did not occur"
    yield _cut(f"{safe(key.plugin)} {safe(key.subject)}: {problem}: {safe(events)}")


def _one(mismatch: Mismatch, file: str) -> Iterator[str]:
    at = file + (f", line {mismatch.line}" if mismatch.line else "")
    name = safe(str(mismatch.key))
    count = len(mismatch.differences)
    match mismatch.kind:
        case MismatchKind.DIFFERS:
            yield f"{name}: differs in {count} place{'s' if count > 1 else ''}"
            yield from _differing(mismatch.differences)
            yield f"  expected ({at}):"
            yield from _reply(mismatch.expected)
        case MismatchKind.UNUSED:
            yield f"{name}: expected, but the event did not occur (unused entry)"
            yield f"  expected ({at}):"
            yield from _reply(mismatch.expected)
        case MismatchKind.MISSING:
            yield f"{name}: got a reply that has no entry in {file} (missing entry)"
            yield "  got:"
            yield from _reply(mismatch.got)
            if mismatch.nearest is not None:
                yield f"  nearest expected ({at}): {safe(str(mismatch.nearest))}"
                yield from _reply(mismatch.expected)
                yield from _differing(mismatch.differences)


def _reply(reply: Expected | Plain) -> Iterator[str]:
    if reply == {}:
        yield "    (an empty reply)"
        return
    shown = list(yaml_lines(cast("Expected", reply), short_lists=True))
    for line in shown[:MAX_LINES]:
        yield _cut(f"    {line}")
    if len(shown) > MAX_LINES:
        yield f"    … {len(shown) - MAX_LINES} more lines"


def _differing(differences: Sequence[Difference]) -> Iterator[str]:
    if not differences:
        yield "  no path differs"
        return
    yield "  differing:"
    for one in differences:
        expected, got = _shown(one.expected), _shown(one.got)
        same = _same(expected, got)
        if max(len(expected), len(got)) > MAX_WIDTH and same > _CONTEXT:
            expected, got = (f"…{side[same - _CONTEXT :]}" for side in (expected, got))
        yield f"    {safe(one.path, MAX_WIDTH) or '/'}"
        yield f"      expected {_cut(expected)}"
        yield f"      got      {_cut(got)}"


def _shown(value: Expected | Plain) -> str:
    return _NOTHING if value is None else inline(cast("Expected", value))


def _same(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(line: str) -> str:
    # `safe` would escape the text a second time.
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def as_data(mismatch: Mismatch) -> dict[str, Plain]:
    """Return the mismatch for JSON: a missing value is null, a matcher a mapping with its tag."""
    key, nearest = mismatch.key, mismatch.nearest
    return {
        "kind": mismatch.kind.value,
        "plugin": key.plugin,
        "subject": key.subject,
        "event": key.event,
        "expected": _data(mismatch.expected),
        "got": mismatch.got,
        "nearest": None
        if nearest is None
        else {"plugin": nearest.plugin, "subject": nearest.subject, "event": nearest.event},
        "line": mismatch.line or None,
        "differences": [
            {"path": one.path, "expected": _data(one.expected), "got": one.got}
            for one in mismatch.differences
        ],
    }


def _data(value: Expected) -> Plain:
    match value:
        case Regex() | Tolerance():
            return {value.tag: value.argument}
        case Present() | Ignored():
            return {value.tag: True}
        case dict():
            return {key: _data(item) for key, item in value.items()}
        case list():
            return [_data(item) for item in value]
    assert not isinstance(value, Matcher)
    return value
