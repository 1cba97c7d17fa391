# SPDX-License-Identifier: Apache-2.0
"""Rendered differences between two specs."""

from __future__ import annotations

import json

from nri_scope.differ.render.text import spec_diff
from nri_scope.specs import Spec, changes

ONE: Spec = {"process": {"env": ["FOO=bar", "A=1"], "args": ["sleep"]}}
TWO: Spec = {"process": {"env": ["FOO=baz"], "args": ["sleep"]}, "hostname": "x"}


def test_text_has_a_line_for_each_change() -> None:
    lines = [*spec_diff("X.json", "Y.json", changes(ONE, TWO), "text", width=80)]
    assert lines == [
        "X.json → Y.json",
        '  ~ env FOO  "bar" → "baz"',
        '  - env A  was "1"',
        '  + hostname  "x"',
    ]


def test_equal_specs_have_no_changes() -> None:
    assert not [*spec_diff("X.json", "Y.json", (), "text")]
    assert [*spec_diff("X.json", "Y.json", (), "markdown")][-1] == "No difference."


def test_json_has_the_common_keys() -> None:
    (line,) = spec_diff("X.json", "Y.json", changes(ONE, TWO), "json")
    loaded = json.loads(line)
    assert loaded["schema_version"] == 1
    assert [(one["op"], one["path"]) for one in loaded["changes"]] == [
        ("replace", "/process/env/FOO"),
        ("remove", "/process/env/A"),
        ("add", "/hostname"),
    ]


def test_markdown_is_a_table() -> None:
    lines = [*spec_diff("X.json", "Y.json", changes(ONE, TWO), "markdown")]
    assert lines[0] == "`X.json` → `Y.json`"
    assert '| `~` | `env FOO` | `"bar"` | `"baz"` |' in lines
