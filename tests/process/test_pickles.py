# SPDX-License-Identifier: Apache-2.0
"""Only helper processes unpickle, and only what the process that started them has sent."""

from __future__ import annotations

import ast
from pathlib import Path

import nri_scope

_PACKAGE = Path(nri_scope.__file__).parent
_HELPERS = {
    # Orders and entries, in the writer.
    "writer/main.py": {"serve", "_Work.run"},
    "capture/queue.py": {"unpack"},
    # Options, in a viewer's recorder.
    "logger/recorder_process.py": {"Viewer.options"},
}
"""Functions that call `pickle.loads` or `marshal.loads`, by module."""


def loading_functions(tree: ast.AST, path: tuple[str, ...] = ()) -> set[str]:
    """Return the dotted names of the functions that load pickles or marshalled data."""
    names = set[str]()
    for node in ast.iter_child_nodes(tree):
        inner = path
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (*path, node.name)
        match node:
            case ast.Attribute(value=ast.Name(id="pickle" | "marshal"), attr="load" | "loads"):
                names.add(".".join(path))
            case ast.ImportFrom(module="pickle" | "marshal" | "shelve" | "dill"):
                names.add("import")
        names |= loading_functions(node, inner)
    return names


def test_only_functions_of_helpers_unpickle() -> None:
    loading = {
        path.relative_to(_PACKAGE).as_posix(): names
        for path in _PACKAGE.rglob("*.py")
        if (names := loading_functions(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert loading == _HELPERS


def test_only_the_writer_unpacks_entries() -> None:
    importing = {
        path.relative_to(_PACKAGE).as_posix()
        for path in _PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").endswith("capture.queue")
        and "unpack" in {alias.name for alias in node.names}
    }
    assert importing == {"writer/main.py"}
