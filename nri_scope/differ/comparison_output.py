# SPDX-License-Identifier: Apache-2.0
"""Render the differences between two recordings."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import SCHEMA_VERSION, rfc3339, to_json
from nri_scope.text.quantities import many
from nri_scope.text.styled_text import Layout, Style

from .comparison import ComparedValue, Comparison, Difference, Pair
from .render import wording
from .render.document import by_record, change_record
from .render.text import change_lines
from .render.values import Format
from .render.wording import Legend

_REAL = "the specs that the runtimes actually used"
_SORTED = "mounts moved by the runtime: it sorts all of them if plugins adjust any"


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


def _text(a: str, b: str, result: Comparison, layout: Layout) -> Iterator[str]:
    yield from layout.sentence(f"A: {a}", 0, Style.STRONG)
    yield from layout.sentence(f"B: {b}", 0, Style.STRONG)
    for line in _limits(result):
        yield from layout.sentence(line, 0, Style.WARN)
    for glyph, where, names, style in (
        ("-", "A", result.only_a, Style.BAD),
        ("+", "B", result.only_b, Style.GOOD),
    ):
        if names:
            yield ""
            yield from layout.sentence(f"only in {where}:", 0, Style.STRONG)
            for name in names:
                yield from layout.sentence(f"{glyph} {name}", 2, style)
    for pair in result.differ:
        yield ""
        yield from layout.sentence(pair.name, 0, Style.STRONG)
        if pair.real:
            yield from layout.sentence(f"compared: {_REAL}", 2, Style.DIM)
        for line in _failures(pair):
            yield from layout.sentence(f"! {line}", 2, Style.BAD)
        for difference in pair.differences:
            yield from change_lines(layout, difference.change, owners_of(difference))
    yield ""
    yield from layout.sentence(_tally(result), 0, Style.STRONG)
    if result.remark:
        yield from layout.sentence(result.remark, 0, Style.WARN)
    for line in _legend(result):
        yield from layout.sentence(line, 0, Style.DIM)


def _limits(result: Comparison) -> list[str]:
    sides = zip("AB", result.observed, strict=False)
    return [f"{side}: {each.words}" for side, each in sides if not each.is_whole]


def _legend(result: Comparison) -> list[str]:
    legend = Legend()
    for pair in result.differ:
        for difference in pair.differences:
            for side in (difference.a, difference.b):
                legend.add(side.owner, side.evidence)
    sorted_by_runtime = any(
        each.a.is_sorted or each.b.is_sorted for pair in result.differ for each in pair.differences
    )
    return [*([_SORTED] if sorted_by_runtime else ()), *legend.lines()]


def owners_of(difference: Difference) -> str:
    """Return the owner in A, and the one in B if it differs: ``by 10-x → by 20-y``."""
    owner_a, owner_b = _side(difference.a), _side(difference.b)
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


def _tally(result: Comparison) -> str:
    if result.of_pair:
        count = sum(len(pair.differences) for pair in result.differ)
        if count:
            return many(count, "difference")
        return "the creations differ" if result.differs else "no differences"
    parts = [
        f"{len(result.differ):,} {'differs' if len(result.differ) == 1 else 'differ'}"
        if result.differ
        else "",
        f"{len(result.only_a):,} only in A" if result.only_a else "",
        f"{len(result.only_b):,} only in B" if result.only_b else "",
        f"{len(result.same):,} the same" if result.same else "",
    ]
    counts = ", ".join(filter(None, parts))
    return f"containers: {counts}" if counts else "no containers in either recording"


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
