# SPDX-License-Identifier: Apache-2.0
"""Print the code lines of nri_scope, and fail above ``[tool.nri-scope] code-lines``.

A code line is one where a token begins that is no comment, no docstring and no line end. Generated
code does not count. The number in pyproject.toml goes down with every removal.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, GENERATED = ROOT / "nri_scope", "_gen"
_LAYOUT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def code_lines(source: str) -> int:
    """Return the number of code lines of a module."""
    text: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                # A string alone documents; other constants alone (``...``) are code.
                text.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return len({token.start[0] for token in tokens if token.type not in _LAYOUT} - text)


def main() -> int:
    """Return the exit status: 1 if the package has more code lines than allowed."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        allowed: int = tomllib.load(file)["tool"]["nri-scope"]["code-lines"]
    files = [one for one in PACKAGE.rglob("*.py") if GENERATED not in one.parts]
    lines = sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
    print(f"{lines:,} code lines in {len(files)} files; {allowed:,} allowed by pyproject.toml")
    return int(lines > allowed)


if __name__ == "__main__":
    sys.exit(main())
