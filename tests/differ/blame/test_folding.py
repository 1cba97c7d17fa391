# SPDX-License-Identifier: Apache-2.0
"""What is shown of a container's lines."""

from __future__ import annotations

from hypothesis import given

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME
from nri_scope.differ.blame.folding import Fold, view
from nri_scope.differ.blame.owned_lines import OwnedLine, lines
from nri_scope.oci import Json, Spec
from tests.differ.render.samples import ENV

from .histories import FEW, HISTORIES, turns


def _spec(options: list[Json]) -> Spec:
    return {
        "process": {"args": ["sh"], "cwd": "/", "env": ["A=1", "B=2", "C=3"]},
        "mounts": [{"destination": "/d", "type": "bind", "options": options}],
    }


@FEW
@given(HISTORIES)
def test_nothing_that_was_changed_is_left_out(found: History) -> None:
    told = lines(found)
    wanted = [line for line in told if line.changed]
    for rows in (view(told, "full"), view(told, "usual"), view(told, "changed")):
        assert [row for row in rows if isinstance(row, OwnedLine) and row.changed] == wanted
    assert view(told, "full") == told


@FEW
@given(HISTORIES)
def test_folded_lines_are_counted(found: History) -> None:
    told = lines(found)
    rows = view(told, "usual")
    shown = sum(1 for row in rows if isinstance(row, OwnedLine) and row.there and not row.heading)
    folded = sum(row.hidden for row in rows if isinstance(row, Fold))
    assert shown + folded == sum(1 for line in told if line.there and not line.heading)


def test_what_was_changed_comes_with_what_it_is_part_of() -> None:
    told = lines(turns(_spec(["ro"]), (ENV, _spec(["rw"]))))
    rows = view(told, "changed")
    assert [row.label for row in rows if isinstance(row, OwnedLine)] == [
        "mounts",
        "destination",
        "options",
    ]


def test_the_rest_is_folded_and_a_single_line_shown() -> None:
    rows = view(lines(turns(_spec(["ro"]), (ENV, _spec(["rw"])))), "usual")
    assert rows[0] == Fold(RUNTIME, 5, 0)
    assert [row.label for row in rows[1:] if isinstance(row, OwnedLine)] == [
        "mounts",
        "destination",
        "type",
        "options",
    ]
