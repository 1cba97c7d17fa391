# SPDX-License-Identifier: Apache-2.0
"""Rendered comparisons of two recordings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME
from nri_scope.differ.comparison import Comparison, compare
from nri_scope.differ.comparison_output import DifferenceRow, comparison, row_lines
from nri_scope.differ.render import Format
from nri_scope.specs import Spec
from nri_scope.text.escape import columns, safe
from tests.differ.render.samples import CPU, step


def history(name: str, spec: Spec, **more: Any) -> History:
    return History(f"{name}-id", name, base=spec, base_owner=RUNTIME, spec=spec, **more)


PLAIN: Spec = {"process": {"env": ["FOO=bar", "A=1"]}}
APP = history("shop/web/app", PLAIN)
CHANGED = history(
    "shop/web/app",
    {"process": {"env": ["FOO=baz"], "oomScoreAdj": 5}},
    steps=[
        step("/process/env/FOO", "bar", "baz"),
        step("/process/env/A", "1", None, "removed"),
        step("/process/oomScoreAdj", None, 5, "added", CPU),
    ],
)
OLD, NEW = history("shop/web/old", PLAIN), history("shop/web/new", PLAIN)
SAME = history("shop/web/same", PLAIN)
FOUND = compare(
    {"1": APP, "2": OLD, "3": SAME},
    {"1": CHANGED, "2": NEW, "3": SAME},
)


def lines(found: Comparison, output_format: Format, width: int | None = 80) -> list[str]:
    return [*comparison("a.db", "b.db", found, output_format, width=width)]


def test_text_names_the_owner_of_each_difference() -> None:
    found = replace(FOUND, plugins_only_a=("30-env-injector",), plugins_only_b=("30-env",))
    assert lines(found, "text", None) == [
        "A: a.db",
        "B: b.db",
        "",
        "30-env-injector  - plugin               only in A",
        "30-env           + plugin               only in B",
        "shop/web/old     - container            only in A",
        "shop/web/new     + container            only in B",
        'shop/web/app     ~ env FOO              "bar" → "baz"  runtime → 30-env-injector (tap)',
        'shop/web/app     - env A                "1" → —        runtime → 30-env-injector (tap)',
        "shop/web/app     + process.oomScoreAdj  — → 5          60-cpu-policy (tap)",
        "",
        "containers: 1 differs, 1 only in A, 1 only in B, 1 the same",
        "evidence: tap: the plugin's own reply",
    ]


def test_each_difference_has_one_row_on_a_terminal() -> None:
    assert lines(FOUND, "text", 80)[3:8] == [
        "shop/web/old  - container            only in A",
        "shop/web/new  + container            only in B",
        'shop/web/app  ~ env FOO              "bar" → "baz"  runtime → 30-env-injector (…',
        '              - env A                "1" → —        runtime → 30-env-injector (…',
        "              + process.oomScoreAdj  — → 5          60-cpu-policy (tap)",
    ]


def test_cut_values_show_their_first_difference() -> None:
    def row(before: str, after: str, width: int | None) -> str:
        specs: list[Spec] = [{"process": {"env": [f"URL={text}"]}} for text in (before, after)]
        found = compare(*({"1": history("shop/web/app", spec)} for spec in specs))
        return re.sub(" {2,}", "  ", lines(found, "text", width)[3])

    same = "x" * 90
    assert row(f"{same}1-end", f"{same}2-end", 70) == (
        'shop/web/app  ~ env URL  …xxxx1-end" → …xxxx2-end"  runtime'
    )
    assert row(f"1{same}", f"2{same}", 70) == (
        'shop/web/app  ~ env URL  "1xxxxxxxxxxxxx… → "2xxxxxxxxxxxxxx…  runtime'
    )
    assert f'"{same}1-end" → "{same}2-end"' in row(f"{same}1-end", f"{same}2-end", None)


@given(
    st.lists(st.tuples(st.text(max_size=50), st.text(max_size=50)), min_size=1, max_size=5),
    st.integers(30, 120),
)
@example([("a/b/c", "\u202e" * 40), ("\U0001f600" * 30, "é" * 70)], 30)
def test_lines_are_not_wider_than_the_terminal(texts: list[tuple[str, str]], width: int) -> None:
    wide = [DifferenceRow(a, f"~ {b}", (a, b), (b, a)) for a, b in texts]
    cut = [*row_lines(wide, width)]
    assert len(cut) == len(wide)
    assert all(columns(line) <= width for line in cut)
    assert all(
        safe(text) in line
        for line, row in zip(row_lines(wide, None), wide, strict=True)
        for text in (*row.values, *row.owners)
    )


def test_json_has_the_documented_keys() -> None:
    (line,) = lines(FOUND, "json")
    loaded = json.loads(line)
    assert loaded["only_a"] == ["shop/web/old"]
    assert loaded["only_b"] == ["shop/web/new"]
    assert loaded["same"] == ["shop/web/same"]
    change = loaded["changes"][0]
    assert change["container"] == "shop/web/app"
    assert [change[key] for key in ("path", "op", "before", "after", "owner", "index")] == [
        *("/process/env/FOO", "replace", "bar", "baz", "30-env-injector", "30")
    ]
    assert change["evidence"] == ["tap"]
    assert change["a"]["owner"] == "runtime"
    assert change["a"]["event"] is None
    assert change["event"] == change["b"]["event"] == 14


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_a_failed_creation_is_a_difference(output_format: Format) -> None:
    failed = replace(APP, failure="refused\x1b[2J by 30")
    text = "\n".join(lines(compare({"1": APP}, {"1": failed}), output_format))
    assert "refused" in text
    assert "\x1b" not in text
    if output_format != "json":
        assert "shop/web/app  ! creation  created → FAILED: refused" in text


def test_an_element_that_kept_its_position_is_not_reported_as_moved() -> None:
    found = compare(
        {"1": history("x", {"mounts": [_mount("/a"), _mount("/b"), _mount("/c")]})},
        {"1": history("x", {"mounts": [_mount("/c"), _mount("/b"), _mount("/a")]})},
    )
    joined = "\n".join(lines(found, "text", None))
    assert "> mounts[/b]  2nd place → 2nd place, after different members" in joined
    assert "> mounts[/c]  3rd place → 1st place" in joined
    assert joined.count("> mounts") == 2


def _mount(destination: str) -> Spec:
    return {"destination": destination}


def test_recordings_without_containers_say_so() -> None:
    assert lines(compare({}, {}), "text")[-1] == "no containers in either recording"
