# SPDX-License-Identifier: Apache-2.0
"""Every statement about a simulated node is true, and all surfaces agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.amount import amount

from .node import Node
from .statements import check

PLAYS = int(os.environ.get("NRI_SCOPE_PLAYS", amount(48, 12)))
"""Number of plays, each about half a second; set NRI_SCOPE_PLAYS for more."""
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_statement_is_false_and_all_surfaces_agree(group: int, tmp_path: Path) -> None:
    statements = 0
    for seed in range(group, PLAYS, GROUPS):
        node = Node(seed, tmp_path / f"{seed}.nriscope.db")
        node.play()
        verdict = check(node)
        assert not verdict.false, (seed, node.runtime, verdict.false[:5])
        statements += sum(verdict.statements.values())
    assert statements > 50 * (PLAYS // GROUPS)
