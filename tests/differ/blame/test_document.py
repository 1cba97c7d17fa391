# SPDX-License-Identifier: Apache-2.0
"""A container's lines as JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from nri_scope.differ.attribution.attributed_changes import OutcomeKind, dropped
from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame.document import document
from nri_scope.recording.reading.records import json_in_parts
from nri_scope.specs import Json
from tests.differ.render.samples import CPU, ENV, step

from .histories import FEW, HISTORIES, history_of_turns


def parsed_document(found: History) -> dict[str, Json]:
    read: dict[str, Json] = json.loads("".join(json_in_parts(document(found))))
    return read


def requests_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record["requests"]
    return found


def test_lines_and_changes_have_all_fields() -> None:
    found = history_of_turns(
        {"process": {"env": ["FOO=bar", "A=1"]}}, (ENV, {"process": {"env": ["FOO=baz"]}})
    )
    found.remarks.append("so it is")
    found.add([step("/x", None, 1, "added", CPU, outcome=dropped("no such field"))])
    record = parsed_document(found)
    at = "2023-11-14T22:13:20.000000Z"
    assert record["lines"] == [
        {
            "path": "/process/env/FOO",
            "value": "baz",
            "owner": "30-env-injector",
            "index": "30",
            "evidence": ["tap"],
            "event": 14,
            "at": at,
            "before": "bar",
            "changed": True,
        }
    ]
    changes = record["changes"]
    assert isinstance(changes, list)
    assert [
        [change[name] for name in ("path", "op", "before", "after", "owner", "index", "at")]
        for change in changes
        if isinstance(change, dict)
    ] == [
        ["/process/env/FOO", "replace", "bar", "baz", "30-env-injector", "30", at],
        ["/process/env/A", "remove", "1", None, "30-env-injector", "30", at],
    ]
    assert record["remarks"] == ["so it is"]
    assert record["schema_version"] == 1
    (asked,) = requests_of(record)
    assert asked["outcome"] == {
        "kind": "dropped",
        "reason": "no such field",
        "evidence": "rule",
        "event": None,
        "at": None,
        "actual": None,
    }


@FEW
@given(HISTORIES)
def test_output_is_json_and_lists_are_never_null(found: History) -> None:
    record = parsed_document(found)
    for name in ("lines", "changes", "requests", "remarks"):
        assert isinstance(record[name], list)
    kinds = {one["outcome"]["kind"] for one in requests_of(record)}
    assert not kinds & {OutcomeKind.SEEN, OutcomeKind.IN_EFFECT}


def test_a_path_has_only_its_own_lines_and_changes() -> None:
    found = history_of_turns(
        {"process": {"env": ["FOO=bar"]}, "annotations": {"FOOT": "1"}},
        (ENV, {"process": {"env": ["FOO=baz"]}, "annotations": {"FOOT": "2"}}),
    )
    path = "/process/env/FOO"
    record = json.loads("".join(json_in_parts(document(found, path))))
    assert record["path"] == path
    assert record["began"] == [{"path": path, "value": "bar", "owner": "runtime"}]
    assert [line["path"] for line in record["lines"]] == [path]
    assert [change["path"] for change in record["changes"]] == [path]


def test_a_value_nested_too_deeply_is_cut() -> None:
    deep: Json = "x"
    for _ in range(100_000):
        deep = [deep]
    found = history_of_turns({}, (ENV, {"annotations": {"a": deep}}))
    assert "…" in str(parsed_document(found)["lines"])
