# SPDX-License-Identifier: Apache-2.0
"""Imports are relative inside a room and absolute across rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nri_scope

PACKAGE = Path(nri_scope.__file__).parent
ROOMS = sorted(one.name for one in PACKAGE.iterdir() if (one / "__init__.py").exists())


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The line of each import, the module it names, and whether it is a relative one."""
    package = ["nri_scope", *path.parent.relative_to(PACKAGE).parts]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name, False) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = node.module.split(".") if node.module else []
            if node.level:
                names = [*package[: len(package) - node.level + 1], *names]
            for one in node.names:
                yield node.lineno, ".".join([*names, one.name]), node.level > 0


def test_each_is_of_its_form() -> None:
    wrong = []
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            for line, name, relative in imports(path):
                inside = f"{name}.".startswith(f"nri_scope.{room}.")
                # Generated code is as its generator writes it.
                if inside != relative and room != "_gen":
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {name}")
    assert len(ROOMS) > 15
    assert wrong == []
