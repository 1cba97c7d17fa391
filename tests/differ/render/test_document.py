# SPDX-License-Identifier: Apache-2.0
"""Rounds as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri_scope.differ.attribution.attributed_changes import OutcomeKind, RoundDiff
from nri_scope.differ.render import renderer
from nri_scope.differ.render.document import MAX_DEPTH
from nri_scope.specs import Json
from tests.differ.render.samples import (
    ANSWER,
    CALM,
    CREATION,
    STEPS,
    by_cri,
    name_of,
    step,
    with_step,
)

_DOCUMENTED_KEYS = ("path", "op", "before", "after", "owner", "index", "evidence", "event", "at")


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
    loaded_document = document(CALM, CREATION)
    assert loaded_document["schema_version"] == 1
    assert [event["id"] for event in loaded_document["events"]] == [17, 14]
    assert [event["changed"] for event in loaded_document["events"]] == [False, True]
    assert [one["path"] for one in loaded_document["changes"]] == [
        one.change.path for one in STEPS if one.is_change
    ]
    change = loaded_document["changes"][1]
    assert {key: change[key] for key in _DOCUMENTED_KEYS} == {
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
    assert [one["op"] for one in loaded_document["changes"][:4]] == [
        "add",
        "replace",
        "move",
        "remove",
    ]
    assert document() == {
        "schema_version": 1,
        "changes": [],
        "requests": [],
        "events": [],
        "left_out": 0,
        "coverage": None,
    }


def test_all_keys_are_always_present_and_lists_are_never_null() -> None:
    loaded_document = document(CALM, CREATION)
    steps = [*loaded_document["changes"], *loaded_document["requests"]]
    assert len({tuple(one) for one in steps}) == 1
    assert len({tuple(one["outcome"]) for one in steps}) == 1
    assert len({tuple(event) for event in loaded_document["events"]}) == 1
    for key in ("seen_by", "missed_by", "chain", "spans", "remarks", "events"):
        assert all(isinstance(event[key], list) for event in loaded_document["events"])


def test_requests_that_nothing_shows_as_changes_are_a_list_of_their_own() -> None:
    requests = document(CREATION)["requests"]
    assert [(request["path"], request["outcome"]["kind"]) for request in requests] == [
        ("/mounts/~1data", "dropped"),
        ("/linux/resources/cpu/shares", "superseded"),
        ("/linux/resources/memory/limit", "requested"),
        ("/linux/resources/cpu/mems", "dropped"),
    ]
    assert requests[1]["outcome"] == {
        "kind": "superseded",
        "reason": "another value is there",
        "evidence": "cri",
        "event": 20,
        "at": "2023-11-14T22:13:20.000000Z",
        "actual": 1024,
    }
    assert requests[2]["outcome"] == {
        "kind": "requested",
        "reason": "",
        "evidence": None,
        "event": None,
        "at": None,
        "actual": None,
    }


def test_a_file_has_each_request_once() -> None:
    loaded_document = document(CREATION, ANSWER)
    assert len(loaded_document["changes"]) + len(loaded_document["requests"]) == len(STEPS)
    assert [event["changed"] for event in loaded_document["events"]] == [True, False]


def test_live_output_is_one_object_per_round() -> None:
    first, second, third = live(CREATION, CALM, ANSWER)
    assert first["schema_version"] == 1
    assert [len(first[key]) for key in ("changes", "requests")] == [6, 4]
    assert not any(one["again"] for key in ("changes", "requests") for one in first[key])
    assert second["changes"] == second["requests"] == []
    again = [*third["changes"], *third["requests"]]
    assert [one["outcome"]["kind"] for one in again] == ["in effect", "dropped", "superseded"]
    assert all(one["again"] for one in again)
    assert [one["event"] for one in live(CREATION, CALM, quiet=True)] == ["CreateContainer"]


@pytest.mark.parametrize("kind", OutcomeKind)
def test_only_what_is_seen_or_in_effect_is_a_change(kind: OutcomeKind) -> None:
    one = step("/linux/x", None, 1, "added", outcome=by_cri(kind))
    loaded_document = document(with_step(one))
    is_change = kind in (OutcomeKind.SEEN, OutcomeKind.IN_EFFECT)
    assert len(loaded_document["changes"]) == is_change
    assert len(loaded_document["requests"]) == (not is_change)
    assert loaded_document["events"][0]["changed"] is is_change


def test_quiet_omits_unchanged_events() -> None:
    assert [event["id"] for event in document(CALM, CREATION, quiet=True)["events"]] == [14]


def test_side_effects_name_their_container() -> None:
    side = document(CREATION)["changes"][-1]
    assert side["container"] == "shop/web/sidecar"
    assert side["side_effect"] is True


def test_ranges_have_all_owner_details() -> None:
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


def test_a_value_nested_too_deeply_is_cut_and_the_rest_written() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    loaded_document = document(with_step(step("/x", None, deep, "added")))
    shown = json.dumps(loaded_document["changes"][0]["after"])
    assert shown == "[" * MAX_DEPTH + '"\\u2026"' + "]" * MAX_DEPTH
    assert loaded_document["changes"][0]["path"] == "/x"


def test_lines_are_ascii() -> None:
    assert "\n".join(_lines(with_step(step("/\u202e", "\x1b", "\x7fé")))).isascii()


def test_changed_is_true_only_after_a_new_change() -> None:
    for output_format in ("text", "json"):
        for one, changed in ((CALM, False), (ANSWER, False), (CREATION, True)):
            render = renderer(output_format)
            list(render.round(one, name_of))
            assert render.changed is changed
