# SPDX-License-Identifier: Apache-2.0
"""Rendered comparisons of two recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME
from nri_scope.differ.comparison import Comparison, compare
from nri_scope.differ.comparison_output import comparison
from nri_scope.differ.render import Format
from nri_scope.specs import Spec
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
    assert lines(FOUND, "text") == [
        "A: a.db",
        "B: b.db",
        "",
        "only in A:",
        "  - shop/web/old",
        "",
        "only in B:",
        "  + shop/web/new",
        "",
        "shop/web/app",
        '  ~ env FOO  "bar" → "baz"  by the runtime → by 30-env-injector (tap)',
        '  - env A  was "1"  by the runtime → removed by 30-env-injector (tap)',
        "  + process.oomScoreAdj  5  by 60-cpu-policy (tap)",
        "",
        "containers: 1 differs, 1 only in A, 1 only in B, 1 the same",
        "evidence: tap: the plugin's own reply",
    ]


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
        assert "created in A" in text
        assert "creation FAILED in B" in text


def test_an_element_that_kept_its_position_is_not_reported_as_moved() -> None:
    found = compare(
        {"1": history("x", {"mounts": [_mount("/a"), _mount("/b"), _mount("/c")]})},
        {"1": history("x", {"mounts": [_mount("/c"), _mount("/b"), _mount("/a")]})},
    )
    joined = "\n".join(lines(found, "text"))
    assert "> mounts[/b]  moved: the 2nd in both orders, but after different members" in joined
    assert "> mounts[/c]  moved from 3rd to 1st place" in joined
    assert joined.count("> mounts") == 2


def _mount(destination: str) -> Spec:
    return {"destination": destination}


def test_recordings_without_containers_say_so() -> None:
    assert lines(compare({}, {}), "text")[-1] == "no containers in either recording"
