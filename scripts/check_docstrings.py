# SPDX-License-Identifier: Apache-2.0
"""Check that the names in docstrings exist.

Fails with ``path:line: name`` for each that does not, with the line of the function. A name in two
backticks is a word of the code or of a string of its function, or of a function around it, or a
name of its class or module. A name in one backtick may also be a class, function, constant or
module of the package, and is also checked in docstrings of attributes, classes and modules. The
last part of a dotted name is a name of the class or module before it. Words of a format and
examples are written in quotes instead.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, GENERATED = ROOT / "nri_scope", "_gen"

_WORD = r"[A-Za-z_]\w*"
_MARKED = re.compile(rf"(?<!`)(?P<marks>``?)(?P<name>{_WORD}(?:\.{_WORD})*)(?P=marks)(?!`)")
_ALWAYS = frozenset(dir(builtins))

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


def _sets() -> dict[str, set[str]]:
    return defaultdict(set)


@dataclass(frozen=True)
class Names:
    """The names of a package."""

    everywhere: set[str] = field(default_factory=set)
    """Classes, functions, constants and modules."""
    members: dict[str, set[str]] = field(default_factory=_sets)
    """Names in a class, module or folder, by its name."""
    bases: dict[str, set[str]] = field(default_factory=_sets)
    """Names of the base classes, by the name of the class."""

    def add(self, module: str, source: str) -> None:
        """Add the names of a module."""
        tree = ast.parse(source)
        self.members[module] |= _defined(tree)
        self.everywhere.update({module}, _defined(tree))
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom):
                self.members[module] |= _words(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.members[node.name] |= _defined(node) | _attributes(node)
                self.bases[node.name].update(*map(_words, node.bases))
            if isinstance(node, _Definition):
                self.everywhere.add(node.name)

    def inside(self, owner: str) -> set[str]:
        """Return the names in a module or folder, or in a class and its base classes."""
        names, owners, waiting = set[str](), set[str](), {owner}
        while waiting:
            owners |= waiting
            names.update(*(self.members.get(owner, ()) for owner in waiting))
            waiting = {base for owner in waiting for base in self.bases.get(owner, ())} - owners
        return names


def package_names() -> Names:
    """Return the names of the package, including messages and fields of the generated code."""
    names = Names()
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")):
        module = path.parent.name if path.stem == "__init__" else path.stem
        names.add(module, path.read_text(encoding="utf-8"))
        names.members[path.parent.name].add(module)
        names.members[path.parent.parent.name].add(path.parent.name)
    return names


def findings(source: str, package: Names) -> Iterator[tuple[int, str]]:
    """Yield the line and a name of a docstring, for each name that does not exist."""
    tree = ast.parse(source)
    names = ({node.name} if isinstance(node, _Definition) else _words(node) for node in tree.body)
    yield from _below(tree, _ALWAYS.union(*names), package)


def main() -> int:
    """Return exit status 1 when a docstring has a name that does not exist."""
    package = package_names()
    status = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        if GENERATED not in path.parts:
            for line, name in findings(path.read_text(encoding="utf-8"), package):
                sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {name}\n")
                status = 1
    return status


def _below(node: ast.AST, known: Set[str], package: Names) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef():
                yield from _below(child, known | package.inside(child.name), package)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inside = known | _words(child) | _words_of_strings(child)
                for marked in _MARKED.finditer(ast.get_docstring(child) or ""):
                    if not _exists(marked["name"], marked["marks"], inside, package):
                        yield child.lineno, marked["name"]
                yield from _below(child, inside, package)
            case ast.Expr(value=ast.Constant(value=str(text))) if (
                not isinstance(node, _Function) or child is not node.body[0]
            ):
                # The words in two backticks may be values of the attribute.
                for marked in _MARKED.finditer(text):
                    if marked["marks"] == "`" and not _exists(marked["name"], "`", known, package):
                        yield child.lineno, marked["name"]
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from _below(child, known, package)


def _exists(name: str, marks: str, known: Set[str], package: Names) -> bool:
    owner, _, member = name.rpartition(".")
    if not owner:
        return name in known or (marks == "`" and name in package.everywhere)
    if marks == "``" and name[0].islower():
        # An example, such as the name of a sysctl.
        return True
    if member in package.inside(owner.rpartition(".")[2]):
        return True
    # The members of other packages are not known here.
    first = name.partition(".")[0]
    return first not in package.everywhere and first in known | sys.stdlib_module_names


def _defined(owner: ast.Module | ast.ClassDef) -> set[str]:
    """Return the names that a module or class defines."""
    names = {node.name for node in owner.body if isinstance(node, _Definition)}
    for statement in owner.body:
        if not isinstance(statement, _Definition):
            names |= {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return names


def _attributes(owner: ast.ClassDef) -> set[str]:
    """Return the attributes that a class uses, of itself and others, and how it is created."""
    words = {node.attr for node in ast.walk(owner) if isinstance(node, ast.Attribute)}
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            words |= {node.arg for node in ast.walk(method.args) if isinstance(node, ast.arg)}
    return words


def _words(code: ast.AST) -> set[str]:
    """Return the identifiers in code."""
    words: set[str] = set()
    for node in ast.walk(code):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
                words.add(word)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                words.add(node.name)
            case ast.alias(asname=str(word)) | ast.alias(name=word) | ast.keyword(arg=str(word)):
                words.add(word.partition(".")[0])
    return words


def _words_of_strings(function: _Function) -> set[str]:
    """Return the words in the strings of a function, without docstrings."""
    texts = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Expr)}
    return {
        word
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
        for word in re.findall(_WORD, node.value)
    }


if __name__ == "__main__":
    sys.exit(main())
