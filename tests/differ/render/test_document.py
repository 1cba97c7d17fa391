# SPDX-License-Identifier: Apache-2.0
"""Rounds as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from nri_scope.differ.attribution.attributed_changes import Applied, RoundDiff
from nri_scope.differ.records import MAX_DEPTH
from nri_scope.differ.render import renderer
from nri_scope.oci import Json
from tests.differ.render.samples import CALM, CREATION, JUDGED, STEPS, name_of, step, with_step

_PROMISED = ("path", "op", "before", "after", "owner", "index", "evidence", "event", "at")


def document(*rounds: RoundDiff, quiet: bool = False) -> dict[str, Any]:
    lines = _lines(*rounds, quiet=quiet)
    loaded: dict[str, Any] = json.loads("\n".join(lines))
    return loaded


def live(*rounds: RoundDiff, quiet: bool = False) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _lines(*rounds, live=True, quiet=quiet)]


def _lines(*rounds: RoundDiff, live: bool = False, quiet: bool = False) -> list[str]:
    render = renderer("json", live=live, quiet_unchanged=quiet)
    lines = [*render.head("x")]
    for one in rounds:
        lines += render.round(one, name_of)
    return [*lines, *render.end()]


def test_a_file_is_one_object() -> None:
    told = document(CALM, CREATION)
    assert told["schema_version"] == 1
    assert [event["id"] for event in told["events"]] == [17, 14]
    assert [event["changed"] for event in told["events"]] == [False, True]
    assert len(told["changes"]) == len(STEPS)
    change = told["changes"][1]
    assert {key: change[key] for key in _PROMISED} == {
        "path": "/process/env/FOO",
        "op": "replace",
        "before": "bar",
        "after": "baz",
        "owner": "30-env-injector",
        "index": "30",
        "evidence": ["tap"],
        "event": 14,
        "at": "2023-11-14T22:13:20.000000Z",
    }
    assert [one["op"] for one in told["changes"][:5]] == ["add", "replace", "add", "move", "remove"]
    assert document() == {"schema_version": 1, "changes": [], "events": []}


def test_all_keys_are_always_there_and_lists_are_lists() -> None:
    told = document(CALM, CREATION)
    assert len({tuple(change) for change in told["changes"]}) == 1
    assert len({tuple(event) for event in told["events"]}) == 1
    for key in ("seen_by", "missed_by", "chain", "asked", "spans", "remarks", "events"):
        assert all(isinstance(event[key], list) for event in told["events"])


def test_what_became_of_a_change_is_part_of_it() -> None:
    plain = replace(CREATION, steps=tuple(replace(one, applied=None) for one in STEPS))
    told = document(plain, JUDGED)
    assert len(told["changes"]) == len(STEPS)
    fates = [change["applied"] for change in told["changes"]]
    assert fates[1:3] == [str(Applied.YES), str(Applied.NO)]
    assert told["changes"][5]["actual"] == 1024
    assert [event["changed"] for event in told["events"]] == [True, False]


def test_live_is_an_object_a_round() -> None:
    first, second, third = live(CREATION, CALM, JUDGED)
    assert first["schema_version"] == 1
    assert [change["again"] for change in first["changes"]] == [False] * len(STEPS)
    assert second["changes"] == []
    assert [change["again"] for change in third["changes"]] == [True] * 3
    assert [one["event"] for one in live(CREATION, CALM, quiet=True)] == ["CreateContainer"]


def test_quiet_leaves_unchanged_events_out() -> None:
    assert [event["id"] for event in document(CALM, CREATION, quiet=True)["events"]] == [14]


def test_side_effects_name_their_container() -> None:
    side = document(CREATION)["changes"][-1]
    assert side["container"] == "shop/web/sidecar"
    assert side["side_effect"] is True


def test_ranges_are_told_in_full() -> None:
    change = document(CREATION)["changes"][0]
    assert change["owner"] == "one of 01–29"
    assert change["index"] == "01–29"
    assert change["owner_detail"] == {
        "who": "one of",
        "plugins": [],
        "first": "01",
        "last": "29",
        "ties": ["00", "30"],
        "or_runtime": False,
        "exact": False,
    }


def test_too_deep_a_value_does_not_stop_the_rest() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    told = document(with_step(step("/x", None, deep, "added")))
    shown = json.dumps(told["changes"][0]["after"])
    assert shown == "[" * MAX_DEPTH + '"\\u2026"' + "]" * MAX_DEPTH
    assert told["changes"][0]["path"] == "/x"


def test_lines_are_ascii() -> None:
    assert "\n".join(_lines(with_step(step("/\u202e", "\x1b", "\x7fé")))).isascii()


def test_changed_says_whether_anything_did() -> None:
    for output_format in ("text", "json", "markdown"):
        for one, changed in ((CALM, False), (JUDGED, False), (CREATION, True)):
            render = renderer(output_format)
            list(render.round(one, name_of))
            assert render.changed is changed
