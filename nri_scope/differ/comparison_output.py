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
    found: Comparison,
    output_format: Format,
    *,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the differences between two recordings, which are called `a` and `b` in the output."""
    match output_format:
        case "json":
            yield to_json(_document(a, b, found))
        case "text":
            yield from _text(a, b, found, Layout(width))


# -- text ---------------------------------------------------------------------------------------


def _text(a: str, b: str, compared: Comparison, layout: Layout) -> Iterator[str]:
    yield from layout.sentence(f"A: {a}", 0, Style.STRONG)
    yield from layout.sentence(f"B: {b}", 0, Style.STRONG)
    for line in _limits(compared):
        yield from layout.sentence(line, 0, Style.WARN)
    for glyph, where, names, style in (
        ("-", "A", compared.only_a, Style.BAD),
        ("+", "B", compared.only_b, Style.GOOD),
    ):
        if names:
            yield ""
            yield from layout.sentence(f"only in {where}:", 0, Style.STRONG)
            for name in names:
                yield from layout.sentence(f"{glyph} {name}", 2, style)
    for pair in compared.differ:
        yield ""
        yield from layout.sentence(pair.name, 0, Style.STRONG)
        if pair.real:
            yield from layout.sentence(f"compared: {_REAL}", 2, Style.DIM)
        for line in _failures(pair):
            yield from layout.sentence(f"! {line}", 2, Style.BAD)
        for difference in pair.differences:
            yield from change_lines(layout, difference.change, owners_of(difference))
    yield ""
    yield from layout.sentence(_tally(compared), 0, Style.STRONG)
    if compared.remark:
        yield from layout.sentence(compared.remark, 0, Style.WARN)
    for line in _legend(compared):
        yield from layout.sentence(line, 0, Style.DIM)


def _limits(found: Comparison) -> list[str]:
    sides = zip("AB", found.observed, strict=False)
    return [f"{side}: {each.words}" for side, each in sides if not each.is_whole]


def _legend(found: Comparison) -> list[str]:
    legend = Legend()
    for pair in found.differ:
        for difference in pair.differences:
            for side in (difference.a, difference.b):
                legend.add(side.owner, side.evidence)
    sorted_by_runtime = any(
        each.a.is_sorted or each.b.is_sorted for pair in found.differ for each in pair.differences
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


def _tally(compared: Comparison) -> str:
    if compared.of_pair:
        count = sum(len(pair.differences) for pair in compared.differ)
        if count:
            return many(count, "difference")
        return "the creations differ" if compared.differs else "no differences"
    parts = [
        f"{len(compared.differ):,} {'differs' if len(compared.differ) == 1 else 'differ'}"
        if compared.differ
        else "",
        f"{len(compared.only_a):,} only in A" if compared.only_a else "",
        f"{len(compared.only_b):,} only in B" if compared.only_b else "",
        f"{len(compared.same):,} the same" if compared.same else "",
    ]
    counts = ", ".join(filter(None, parts))
    return f"containers: {counts}" if counts else "no containers in either recording"


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
        "only_a": [*found.only_a],
        "only_b": [*found.only_b],
        "same": list(found.same),
        "uncompared": found.uncompared,
        "coverage": dict(zip("ab", (each.record() for each in found.observed), strict=False)),
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
