# SPDX-License-Identifier: Apache-2.0
"""Every statement about what a node played is true, and all surfaces say the same of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.amount import amount

from .node import Node
from .statements import check

PLAYS = int(os.environ.get("NRI_SCOPE_PLAYS", amount(48, 12)))
"""More are for when something changed: each takes about half a second."""
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_statement_is_false_and_all_surfaces_say_the_same(group: int, tmp_path: Path) -> None:
    statements = 0
    for seed in range(group, PLAYS, GROUPS):
        node = Node(seed, tmp_path / f"{seed}.nriscope.db")
        node.play()
        verdict = check(node)
        assert not verdict.false, (seed, node.runtime, verdict.false[:5])
        statements += sum(verdict.statements.values())
    assert statements > 50 * (PLAYS // GROUPS)
