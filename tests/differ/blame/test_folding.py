# SPDX-License-Identifier: Apache-2.0
"""Views of a container's lines: full, usual and changed."""

from __future__ import annotations

from hypothesis import given

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME
from nri_scope.differ.blame.owned_lines import OwnedLine, lines
from nri_scope.differ.blame.text import Fold, view
from nri_scope.specs import Json, Spec
from tests.differ.render.samples import ENV

from .histories import FEW, HISTORIES, history_of_turns


def _spec(options: list[Json]) -> Spec:
    return {
        "process": {"args": ["sh"], "cwd": "/", "env": ["A=1", "B=2", "C=3"]},
        "mounts": [{"destination": "/d", "type": "bind", "options": options}],
    }


@FEW
@given(HISTORIES)
def test_every_view_has_all_changed_lines(found: History) -> None:
    all_lines = lines(found)
    changed_lines = [line for line in all_lines if line.changed]
    for rows in (view(all_lines, "full"), view(all_lines, "usual"), view(all_lines, "changed")):
        assert [row for row in rows if isinstance(row, OwnedLine) and row.changed] == changed_lines
    assert view(all_lines, "full") == all_lines


@FEW
@given(HISTORIES)
def test_folded_lines_are_counted(found: History) -> None:
    all_lines = lines(found)
    rows = view(all_lines, "usual")
    shown = sum(1 for row in rows if isinstance(row, OwnedLine) and row.exists and not row.heading)
    folded = sum(row.hidden for row in rows if isinstance(row, Fold))
    assert shown + folded == sum(1 for line in all_lines if line.exists and not line.heading)


def test_a_changed_line_is_shown_with_its_parents() -> None:
    all_lines = lines(history_of_turns(_spec(["ro"]), (ENV, _spec(["rw"]))))
    rows = view(all_lines, "changed")
    assert [row.label for row in rows if isinstance(row, OwnedLine)] == [
        "mounts",
        "destination",
        "options",
    ]


def test_unchanged_lines_are_folded_except_a_single_one() -> None:
    rows = view(lines(history_of_turns(_spec(["ro"]), (ENV, _spec(["rw"])))), "usual")
    assert rows[0] == Fold(RUNTIME, 5, 0)
    assert [row.label for row in rows[1:] if isinstance(row, OwnedLine)] == [
        "mounts",
        "destination",
        "type",
        "options",
    ]
