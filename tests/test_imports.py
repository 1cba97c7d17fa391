# SPDX-License-Identifier: Apache-2.0
"""Imports are relative inside a room, absolute across rooms, and of declared packages."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import nri_scope

PACKAGE = Path(nri_scope.__file__).parent
COPIED = PACKAGE / "tap" / "wrapper_start.py"
"""It runs where it was copied to, not as a part of the package."""
ROOMS = sorted(one.name for one in PACKAGE.iterdir() if (one / "__init__.py").exists())


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The line of each import, the module it names, and whether it is a relative one."""
    package = ["nri_scope", *path.parent.relative_to(PACKAGE).parts]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name, False) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = node.module.split(".") if node.module else []
            if node.level:
                names = [*package[: len(package) - node.level + 1], *names]
            for name in node.names:
                yield node.lineno, ".".join([*names, name.name]), node.level > 0


BY_PYTEST = PACKAGE / "pytest_plugin.py"
"""Only pytest imports it."""


def needed(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported absolutely when the code runs, anywhere in it."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=others):
                for other in others:
                    yield from needed(other)
            case _:
                yield from needed(node)


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_package_is_a_declared_dependency() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    declared = {normal(re.split(r"[^\w.-]", one)[0]) for one in project["dependencies"]}
    distributions = packages_distributions()
    found, wrong = set(), []
    for path in PACKAGE.rglob("*.py"):
        for name in needed(ast.parse(path.read_bytes())):
            package = name.partition(".")[0]
            if package in sys.stdlib_module_names or package == "nri_scope" or path == COPIED:
                continue
            names = {normal(one) for one in distributions.get(package, ())}
            if not names & declared and (package, path) != ("pytest", BY_PYTEST):
                wrong.append(f"{path.relative_to(PACKAGE)}: {package}")
            found |= names & declared
    assert wrong == []
    # h2 is reached by attributes of grpclib.
    assert declared - found == {"h2"}


def test_each_is_of_its_form() -> None:
    wrong = []
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            for line, name, relative in imports(path):
                inside = f"{name}.".startswith(f"nri_scope.{room}.")
                # Generated code is as its generator writes it.
                if inside != relative and room != "_gen" and path != COPIED:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {name}")
    assert len(ROOMS) > 15
    assert wrong == []
