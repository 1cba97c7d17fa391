# SPDX-License-Identifier: Apache-2.0
"""The count of code lines, and the check against the number in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_size

MODULE = '''# comment
"""Docstring
of two lines."""

import sys  # counts


class Value:
    """Docstring."""

    name: str
    """Docstring of an attribute."""

    def method(self) -> None:
        ...


TEXT = """a value
of two lines begins on one"""
print(
    TEXT,
)
'''


def test_lines_of_code_are_those_where_a_token_begins() -> None:
    assert check_size.code_lines(MODULE) == 9
    assert check_size.code_lines("") == 0


@pytest.mark.parametrize(("allowed", "status"), [(9, 0), (8, 1)])
def test_more_lines_than_allowed_fail(
    allowed: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    for folder in (package, package / "_gen"):
        folder.mkdir()
        (folder / "module.py").write_text(MODULE)
    (tmp_path / "pyproject.toml").write_text(f"[tool.nri-scope]\ncode-lines = {allowed}\n")
    monkeypatch.setattr(check_size, "ROOT", tmp_path)
    monkeypatch.setattr(check_size, "PACKAGE", package)
    assert check_size.main() == status
