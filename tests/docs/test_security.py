# SPDX-License-Identifier: Apache-2.0
"""Each promise of SECURITY.md names existing tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_TEXT = (ROOT / "SECURITY.md").read_text()
_PROMISES = [
    " ".join(found.split())
    for section in _TEXT.split("\n## ")[2:-1]
    for found in re.split(r"\n\n|\n(?=- )", section.partition("\n")[2])
    if re.search(r"\btests?[/_]", found)
]
_BULLETS = [bullet for bullet in re.split(r"\n\n|\n(?=- )", _TEXT) if bullet.startswith("- ")]


def test_every_bullet_names_a_test() -> None:
    assert len(_BULLETS) > 15
    assert [one for one in _BULLETS if not re.search(r"`test(?:s/|_)\w+", one)] == []


@pytest.mark.parametrize("promise", _PROMISES, ids=lambda promise: promise[:40])
def test_the_named_tests_exist(promise: str) -> None:
    named = re.findall(
        r"`((?:tests/[\w/]+(?:\.py)?|test_\w+|Test\w+)(?:\.py)?)(?:::(\w+))?`", promise
    )
    assert named
    files: list[Path] = []
    for name, _ in named:
        if name.startswith("tests/"):
            files.append(ROOT / name)
        elif name.endswith(".py"):
            # A file in the folder of a previously named one.
            files += [near for file in files if (near := file.with_name(name)).is_file()][:1]
            assert files and files[-1].name == name, name
    assert all(file.exists() for file in files), files
    code = "".join(file.read_text() for file in files if file.is_file())
    for name, part in named:
        for symbol in part, "" if "." in name or "/" in name else name:
            assert re.search(rf"(?:def|class) {symbol}", code), symbol
