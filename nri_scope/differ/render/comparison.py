# SPDX-License-Identifier: Apache-2.0
"""Render the differences between two recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.recording.display import many
from nri_scope.recording.records import SCHEMA_VERSION, rfc3339, to_json
from nri_scope.text.styled_text import Layout, Style

from ..comparison import ComparedValue, Comparison, Difference, Named, Pair
from . import wording
from .document import by_record, change_record
from .markdown import HEADINGS, change_cells, code, folded, prose, squeezed, table
from .renderer import Format
from .text import change_lines
from .wording import Legend

_REAL = "the specs that the runtimes actually used"
_SORTED = "mounts moved by the runtime: it sorts all of them if plugins adjust any"
_UNFOLDED_MAX = 20
"""Maximum length of a Markdown list that is not folded."""


def comparison(
    a: str,
    b: str,
    found: Comparison,
    output_format: Format,
    *,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the differences between two recordings, which are called `a` and `b` in the output."""
    match output_format:
        case "json":
            yield to_json(_document(a, b, found))
        case "markdown":
            yield from squeezed(_markdown(a, b, found))
        case "text":
            yield from _text(a, b, found, Layout(width))


# -- text ---------------------------------------------------------------------------------------


def _text(a: str, b: str, found: Comparison, layout: Layout) -> Iterator[str]:
    yield from layout.sentence(f"A: {a}", 0, Style.STRONG)
    yield from layout.sentence(f"B: {b}", 0, Style.STRONG)
    for glyph, where, names, style in (
        ("-", "A", found.only_a, Style.BAD),
        ("+", "B", found.only_b, Style.GOOD),
    ):
        if names:
            yield ""
            yield from layout.sentence(f"only in {where}:", 0, Style.STRONG)
            for one in names:
                yield from layout.sentence(f"{glyph} {one.name}", 2, style)
    for pair in found.differ:
        yield ""
        yield from layout.sentence(pair.name, 0, Style.STRONG)
        if pair.real:
            yield from layout.sentence(f"compared: {_REAL}", 2, Style.DIM)
        for line in _failures(pair):
            yield from layout.sentence(f"! {line}", 2, Style.BAD)
        for difference in pair.differences:
            yield from change_lines(layout, difference.change, owners_of(difference))
    yield ""
    yield from layout.sentence(_tally(found), 0, Style.STRONG)
    for line in _legend(found):
        yield from layout.sentence(line, 0, Style.DIM)


def _legend(found: Comparison) -> list[str]:
    legend = Legend()
    for pair in found.differ:
        for one in pair.differences:
            for side in (one.a, one.b):
                legend.add(side.owner, side.evidence)
    sorted_by_runtime = any(
        one.a.is_sorted or one.b.is_sorted for pair in found.differ for one in pair.differences
    )
    return [*([_SORTED] if sorted_by_runtime else ()), *legend.lines()]


def owners_of(one: Difference) -> str:
    """Return the owner in A, and the one in B if it differs: ``by 10-x → by 20-y``."""
    owner_a, owner_b = _side(one.a), _side(one.b)
    if not owner_a or owner_a == owner_b:
        return owner_b
    return f"{owner_a} → {owner_b}" if owner_b else owner_a


def _side(side: ComparedValue) -> str:
    """Return the owner; "" if the value is missing and no removal was observed."""
    evidence = f" ({wording.sources(side.evidence)})" if side.evidence else ""
    if side.present:
        return f"{wording.by(side.owner)}{evidence}"
    return "" if side.step is None else f"removed {wording.by(side.owner)}{evidence}"


def _failures(pair: Pair) -> Iterator[str]:
    for where, history in (("A", pair.a), ("B", pair.b)):
        if history.failure:
            yield f"creation FAILED in {where}: {history.failure}"
        elif not pair.differences:
            yield f"created in {where}"


def _tally(found: Comparison) -> str:
    if found.of_pair:
        count = sum(len(pair.differences) for pair in found.differ)
        if count:
            return many(count, "difference")
        return "the creations differ" if found.differs else "no differences"
    parts = [
        f"{len(found.differ):,} {'differs' if len(found.differ) == 1 else 'differ'}"
        if found.differ
        else "",
        f"{len(found.only_a):,} only in A" if found.only_a else "",
        f"{len(found.only_b):,} only in B" if found.only_b else "",
        f"{len(found.same):,} the same" if found.same else "",
    ]
    counts = ", ".join(filter(None, parts))
    return f"containers: {counts}" if counts else "no containers in either recording"


# -- Markdown -----------------------------------------------------------------------------------


def _markdown(a: str, b: str, found: Comparison) -> Iterator[str]:
    yield f"A: {code(a)}, B: {code(b)}"
    yield ""
    for where, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            yield from _names(f"Only in {where}", names)
    for pair in found.differ:
        yield f"### {code(pair.name)}"
        yield ""
        if pair.real:
            yield f"- compared: {_REAL}"
        yield from (f"- {prose(line)}" for line in _failures(pair))
        if pair.differences:
            rows = [
                (*change_cells(one.change), prose(_side(one.a)), prose(_side(one.b)))
                for one in pair.differences
            ]
            yield from table((*HEADINGS, "in A", "in B"), rows, "differences")
    yield prose(_tally(found))
    yield ""
    yield from (f"- {prose(line)}" for line in _legend(found))


def _names(title: str, names: Sequence[Named]) -> Iterable[str]:
    lines = [f"- {code(one.name)}" for one in names]
    if len(lines) > _UNFOLDED_MAX:
        return folded(f"{title}: {len(lines):,}", lines)
    return [f"{title}:", "", *lines, ""]


# -- JSON ---------------------------------------------------------------------------------------


def _document(a: str, b: str, found: Comparison) -> dict[str, Plain]:
    return {
        "schema_version": SCHEMA_VERSION,
        "a": a,
        "b": b,
        "changes": [
            _record(pair, difference) for pair in found.differ for difference in pair.differences
        ],
        "containers": [_pair(pair) for pair in found.differ],
        "only_a": [one.name for one in found.only_a],
        "only_b": [one.name for one in found.only_b],
        "same": list(found.same),
    }


def _record(pair: Pair, one: Difference) -> dict[str, Plain]:
    return {
        **change_record(one.change),
        # B is the newer side of the change, so its owner is the difference's owner.
        **_side_record(one.b),
        "container": pair.name,
        "a": _side_record(one.a),
        "b": _side_record(one.b),
    }


def _side_record(side: ComparedValue) -> dict[str, Plain]:
    step = side.step
    return {
        "present": side.present,
        **by_record(side.owner),
        "evidence": [str(one) for one in side.evidence],
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
