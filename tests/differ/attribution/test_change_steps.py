# SPDX-License-Identifier: Apache-2.0
"""Steps of changes are shared by rounds and histories, and so only their class changes them."""

from __future__ import annotations

import ast
from pathlib import Path

import nri_scope.differ

MUTABLE = {"outcome", "note", "is_expected", "evidence", "disputed"}


def test_only_methods_of_a_step_set_its_attributes() -> None:
    written = [
        f"{path.name}:{node.lineno}"
        for path in sorted(Path(nri_scope.differ.__path__[0]).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr in MUTABLE and ast.unparse(node.value) != "self"
    ]
    assert written == []
