# SPDX-License-Identifier: Apache-2.0
"""Render the differences between two recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.records import SCHEMA_VERSION, rfc3339, to_json
from nri_scope.specs import Change, label
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import many
from nri_scope.text.short_names import middle_cut, short_container
from nri_scope.text.styled_text import Layout, Span, Style, StyledText

from .attribution.history import History
from .comparison import ComparedValue, Comparison, Difference, Pair
from .render import wording
from .render.document import by_record, change_record
from .render.values import Format, sides
from .render.wording import GLYPHS, Legend

_SORTED = "mounts moved by the runtime: it sorts all of them if plugins adjust any"
_STYLES = {"+": Style.GOOD, "-": Style.BAD, "~": Style.WARN, ">": Style.NOTE, "!": Style.BAD}
_ARROW, _GAP, _NO_VALUE = " → ", "  ", "—"
_WEIGHTS = 4, 6, 7, 5
"""Widths of a name, a path, values and owners, if none of them fits: the ratio."""
_PADDED_MAX = 40
"""Maximum width to which cells are padded if the lines have no maximum width."""
_COMMON = 4
"""Number of common characters that are shown before the first difference of two cut texts."""


def comparison(
    a: str,
    b: str,
    result: Comparison,
    output_format: Format,
    *,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the differences between two recordings, which are called `a` and `b` in the output."""
    match output_format:
        case "json":
            yield to_json(_document(a, b, result))
        case "text":
            yield from _text(a, b, result, Layout(width))


# -- text ---------------------------------------------------------------------------------------


class DifferenceRow(NamedTuple):
    """One difference. Nothing is escaped."""

    name: str
    """Name of the container or plugin; "" if only two containers are compared."""
    what: str
    """A glyph, and the label of a path, or what else differs."""
    values: tuple[str, str]
    """The value in A and in B; one of them is "" if the other says all."""
    owners: tuple[str, str] = ("", "")
    """The owner in A and in B; "" for a value that never was in that recording."""
    pair: Pair | None = None
    """The container; None for a plugin, and for a container in one of A and B."""
    path: str = ""
    """The path in the container's spec; "" if something else differs."""


def rows(result: Comparison) -> Iterator[DifferenceRow]:
    """Yield a row for each difference, first those of plugins and containers in one of A and B."""
    for what, side, names in (
        ("- plugin", "A", result.plugins_only_a),
        ("+ plugin", "B", result.plugins_only_b),
        ("- container", "A", result.only_a),
        ("+ container", "B", result.only_b),
    ):
        yield from (DifferenceRow(name, what, (f"only in {side}", "")) for name in names)
    for pair in result.differ:
        name = "" if result.of_pair else pair.name
        if pair.a.failure or pair.b.failure:
            values = _creation(pair.a), _creation(pair.b)
            yield DifferenceRow(name, "! creation", values, pair=pair)
        for each in pair.differences:
            row = change_row(each.change)
            yield row._replace(name=name, owners=(_owner(each.a), _owner(each.b)), pair=pair)


def change_row(change: Change) -> DifferenceRow:
    """Return the row of a change, without a name and owners."""
    before, after = (value or _NO_VALUE for value in sides(change))
    what = f"{GLYPHS[change.kind]} {label(change.path)}"
    return DifferenceRow("", what, (before, after), path=change.path)


def row_lines(all_rows: Sequence[DifferenceRow], width: int | None) -> Iterator[StyledText]:
    """Yield the line of each row, in aligned cells.

    ``width``: maximum width of lines, in which equal names are not repeated; None for whole cells.
    """
    table = [
        (safe(row.name), safe(row.what), safe(_joined(*row.values)), safe(_joined(*row.owners)))
        for row in all_rows
    ]
    limit = _PADDED_MAX if width is None else width
    widths = [min(max(map(columns, cells)), limit) for cells in zip(*table, strict=True)]
    while width is not None and sum(widths) > max(width - 3 * len(_GAP), 0):
        # Narrow the column that is widest for its weight.
        widths[max(range(4), key=lambda at: widths[at] / _WEIGHTS[at])] -= 1
    above = ""
    for row, cells in zip(all_rows, table, strict=True):
        if width is not None:
            shorten = short_container if "/" in row.name else middle_cut
            cells = (
                shorten(cells[0], widths[0]) if row.name != above else "",
                middle_cut(cells[1], widths[1]),
                _cut_pair(*map(safe, row.values), width=widths[2]),
                _cut_pair(*map(safe, row.owners), width=widths[3]),
            )
            above = row.name
        *padded, last = cells if cells[3] else cells[:3]
        texts = [
            f"{cell}{' ' * (least - columns(cell))}{_GAP}"
            for cell, least in zip(padded, widths, strict=False)
        ]
        styles = Style.STRONG, _STYLES[row.what[0]], Style.PLAIN, Style.DIM
        yield StyledText(*map(Span, [*texts, last], styles))


def _joined(a: str, b: str) -> str:
    return f"{a}{_ARROW}{b}" if a and b and a != b else a or b


def _cut_pair(a: str, b: str, *, width: int) -> str:
    """Join two texts in at most ``width`` columns, with their first difference."""
    whole, half = _joined(a, b), (width - len(_ARROW)) // 2
    if columns(whole) > width and whole not in (a, b):
        pairs = enumerate(zip(a, b, strict=False))
        common = next((at for at, (left, right) in pairs if left != right), min(len(a), len(b)))
        if common > half - _COMMON > 0:
            a, b = (f"…{text[common - _COMMON :]}" for text in (a, b))
        whole = _joined(safe(a, max(half, width - len(_ARROW) - columns(b))), b)
    return safe(whole, width)


def _text(a: str, b: str, result: Comparison, layout: Layout) -> Iterator[str]:
    def lines(spans: Iterable[Span]) -> Iterator[str]:
        for text, style in spans:
            yield from layout.sentence(text, 0, style)

    yield from lines(title(a, b, result))
    yield ""
    if all_rows := [*rows(result)]:
        yield from row_lines(all_rows, layout.width)
        yield ""
    yield from lines(tally(result))
    yield from lines(Span(text, Style.DIM) for text in legend(result))


def title(a: str, b: str, result: Comparison) -> Iterator[Span]:
    """Yield lines of what is compared, and of what was not observed of it."""
    yield from (Span(f"A: {a}", Style.STRONG), Span(f"B: {b}", Style.STRONG))
    for side, observed in zip("AB", result.observed, strict=False):
        if not observed.is_whole:
            yield Span(f"{side}: {observed.words}", Style.WARN)


def tally(result: Comparison) -> Iterator[Span]:
    """Yield lines of the number of differences, and of what was not compared."""
    yield Span(_tally(result), Style.STRONG)
    if result.remark:
        yield Span(result.remark, Style.WARN)


def legend(result: Comparison) -> Iterator[str]:
    """Yield the sources of the compared values, and the meaning of the owners."""
    items, is_sorted = Legend(), False
    for pair in result.differ:
        for difference in pair.differences:
            for side in (difference.a, difference.b):
                items.add(side.owner, side.evidence)
                is_sorted = is_sorted or side.is_sorted
    if real := sum(pair.real for pair in result.differ):
        yield f"{many(real, 'container')} compared by the specs that the runtimes actually used"
    if is_sorted:
        yield _SORTED
    yield from items.lines()


def _owner(side: ComparedValue) -> str:
    """Return the owner; "" if the value is missing and no removal was observed."""
    if not side.present and side.step is None:
        return ""
    evidence = f" ({wording.sources(side.evidence)})" if side.evidence else ""
    return f"{side.owner}{evidence}"


def _creation(history: History) -> str:
    return f"FAILED: {history.failure}" if history.failure else "created"


def _tally(result: Comparison) -> str:
    if result.of_pair:
        count = sum(len(pair.differences) for pair in result.differ)
        if count:
            return many(count, "difference")
        return "the creations differ" if result.differs else "no differences"
    counts = {
        "differs" if len(result.differ) == 1 else "differ": result.differ,
        "only in A": result.only_a,
        "only in B": result.only_b,
        "the same": result.same,
    }
    text = ", ".join(f"{len(names):,} {words}" for words, names in counts.items() if names)
    return f"containers: {text}" if text else "no containers in either recording"


# -- JSON ---------------------------------------------------------------------------------------


def _document(a: str, b: str, result: Comparison) -> dict[str, Plain]:
    return {
        "schema_version": SCHEMA_VERSION,
        "a": a,
        "b": b,
        "changes": [
            _record(pair, difference) for pair in result.differ for difference in pair.differences
        ],
        "containers": [_pair(pair) for pair in result.differ],
        "only_a": [*result.only_a],
        "only_b": [*result.only_b],
        "same": list(result.same),
        "plugins_only_a": [*result.plugins_only_a],
        "plugins_only_b": [*result.plugins_only_b],
        "uncompared": result.uncompared,
        "coverage": dict(zip("ab", (each.record() for each in result.observed), strict=False)),
    }


def _record(pair: Pair, difference: Difference) -> dict[str, Plain]:
    return {
        **change_record(difference.change),
        # B is the newer side of the change, so its owner is the difference's owner.
        **_side_record(difference.b),
        "container": pair.name,
        "a": _side_record(difference.a),
        "b": _side_record(difference.b),
    }


def _side_record(side: ComparedValue) -> dict[str, Plain]:
    step = side.step
    return {
        "present": side.present,
        **by_record(side.owner),
        "evidence": [str(evidence) for evidence in side.evidence],
        "event": None if step is None else step.event,
        "at": None if step is None else rfc3339(step.at_ns),
    }


def _pair(pair: Pair) -> dict[str, Plain]:
    return {
        "container": pair.name,
        "a_id": pair.a.id,
        "b_id": pair.b.id,
        "a_failure": pair.a.failure,
        "b_failure": pair.b.failure,
        "real": pair.real,
    }
