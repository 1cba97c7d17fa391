# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope.recording.file.schema import TABLES
from scripts.recording_format import render


def test_every_column_is_described() -> None:
    lines = render().splitlines()
    for table in TABLES:
        start = lines.index(f"### {table.name}")
        section = lines[start : start + 10 + len(table.columns)]
        for column in table.columns:
            (line,) = (one for one in section if one.startswith(f"| `{column.name}`"))
            assert line.count("|") == 4
            assert column.comment in line


def test_references_and_keys_are_named() -> None:
    text = render()
    assert "| `pod_object` | integer or null | → `object.id`; the pod in the request |" in text
    assert "| `id` (key) | integer |" in text
    assert "The key is (session, event, position)" in text
    assert "Indexed by container, pod." in text


def test_output_is_deterministic() -> None:
    assert render() == render()
    assert render().endswith("\n")
    assert "None" not in render()
