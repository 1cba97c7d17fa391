# SPDX-License-Identifier: Apache-2.0
"""No message tells root to run something as root."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri_scope
from nri_scope.process.signals import root_hint

PACKAGE = Path(nri_scope.__file__).parent
ADVICE = re.compile(r"(?<!which )\brun\b[^:]*\bas root\b")


def advice(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the texts that advise to run as root and are not passed to `root_hint`."""
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings, also as help of commands
    hinted = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "root_hint"
        for argument in ast.walk(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation | hinted
            and ADVICE.search(node.value)
        ):
            yield node


def test_every_advice_to_run_as_root_is_a_root_hint() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value!r}"
        for path in PACKAGE.rglob("*.py")
        for node in advice(ast.parse(path.read_text()))
    ]
    assert found == []


def test_advice_outside_of_root_hint_is_found() -> None:
    (node,) = advice(
        ast.parse('"doc, run as root"\nf(root_hint("run as root"))\ng("run it as root")')
    )
    assert node.lineno == 3


@pytest.mark.parametrize(("user", "is_root"), [(0, True), (1000, False)])
def test_root_gets_another_hint(monkeypatch: pytest.MonkeyPatch, user: int, is_root: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("as root" in root_hint("run it as root")) != is_root
