# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md is short and names existing files; every room has a complete docstring."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
DECISIONS = ROOT / "docs/decisions"
CODE = ROOT / "nri_scope"
ROOMS = sorted(
    init.parent
    for init in CODE.glob("*/**/__init__.py")
    if "_gen" not in init.relative_to(CODE).parts
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(CODE).as_posix())
def test_a_room_documents_its_input_output_and_limits(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    for part in ("In: ", "Out: ", "never"):
        assert part in text.replace("\n", " ")


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 1500


def test_the_page_names_every_room() -> None:
    table = PAGE.partition("| rooms, top down |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table.replace("/`", "`")))
    assert {room.name for room in ROOMS if room.parent == CODE} - named == set()


def test_files_on_the_page_exist() -> None:
    names = set(re.findall(r"`((?:nri_scope/)?[a-z_/]+\.py)`", PAGE)) - {
        "nri_scope/x/y.py",
        "tests/x/test_y.py",
    }
    assert len(names) >= 15
    folders = (CODE, ROOT / "scripts", ROOT / "tests")
    below = [path.as_posix() for folder in folders for path in folder.rglob("*.py")]
    unknown = [name for name in names if not any(path.endswith(f"/{name}") for path in below)]
    assert sorted(unknown) == []


def test_every_decision_record_is_listed_and_has_its_sections() -> None:
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (DECISIONS / "README.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in DECISIONS.glob("0*.md"))
    for name in listed:
        text = (DECISIONS / name).read_text(encoding="utf-8")
        assert text.startswith(f"# {int(name[:4])}. ")
        for part in ("## Context", "## Decision", "## Consequences"):
            assert part in text, name
