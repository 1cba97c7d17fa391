# SPDX-License-Identifier: Apache-2.0
"""Every statement about a simulated node is true, and all surfaces agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri_scope.differ.attribution.attributed_changes import OutcomeKind
from tests.amount import amount

from .node import Node
from .statements import Verdict, check

PLAYS = int(os.environ.get("NRI_SCOPE_PLAYS", amount(96, 12)))
"""Number of plays, each about half a second; set NRI_SCOPE_PLAYS for more."""
GROUPS = 4
MANY = 96
"""Number of plays that have requests with each outcome."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_statement_is_false_and_all_surfaces_agree(group: int, tmp_path: Path) -> None:
    total = Verdict()
    for seed in range(group, PLAYS, GROUPS):
        node = Node(seed, tmp_path / f"{seed}.nriscope.db")
        node.play()
        verdict = check(node)
        assert not verdict.false, (seed, node.runtime, verdict.false[:5])
        total.add(verdict)
    print(f"\n{total}")
    assert sum(total.statements.values()) > 50 * (PLAYS // GROUPS)
    if PLAYS < MANY:
        return
    missing = {str(kind) for kind in OutcomeKind} - {*total.statements}
    assert not missing, f"no request of the plays is {missing}"
