# SPDX-License-Identifier: Apache-2.0
"""The map in docs/architecture.md is whole: its changes work, and checks notice forgotten parts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .map_changes import CHANGES, Edit

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("\n## Where does")[2]
ENTRIES = {
    name: (int(least or most), int(most), text)
    for name, least, most, text in re.findall(
        r"^\*\*A new ([\w ]+)\*\* \((?:(\d) to )?(\d)\): (.*)$", TEXT, re.MULTILINE
    )
}
NOT_IN_ROOMS = ("docs", "proto", "scripts", "tests")
FOLDERS = ("docs", "examples", "nri_scope", "proto", "recordings", "scripts", "share", "tests")


def place(path: str, root: Path = ROOT) -> Path:
    """The file that an edit names."""
    return (root if path.startswith(NOT_IN_ROOMS) else root / "nri_scope") / path


def test_every_entry_is_tried() -> None:
    assert ENTRIES.keys() == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_an_entry_counts_and_names_its_files(name: str) -> None:
    least, most, text = ENTRIES[name]
    files = {edit.path for edit in CHANGES[name].edits}
    assert least <= len(files) <= most <= 5
    named = re.findall(r"`([\w./]+)`", text)
    for path in files:
        folder, _, _ = path.rpartition("/")
        assert any(
            f"/{path}".endswith(f"/{one}") or one in (f"{folder}/", f"{folder}/NAME.py")
            for one in named
        ), path


@pytest.mark.parametrize("name", CHANGES)
def test_edits_fit(name: str) -> None:
    for edit in (*CHANGES[name].edits, *CHANGES[name].tests):
        path = place(edit.path)
        assert path.exists() == bool(edit.anchor)
        if edit.anchor:
            edit.apply(path.read_text(encoding="utf-8"))


@pytest.fixture
def copy() -> Iterator[Path]:
    """A copy of the project, which is removed: it is larger than what pytest should keep."""
    with TemporaryDirectory() as folder:
        for name in FOLDERS:
            ignored = shutil.ignore_patterns("target")
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=ignored)
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        yield Path(folder)


def failing(folder: Path, edits: Iterable[Edit], checks: Iterable[str]) -> str:
    """Make the edits in a copy of the project; the output of the first check that fails."""
    for edit in edits:
        path = place(edit.path, folder)
        path.write_text(edit.apply(path.read_text(encoding="utf-8") if edit.anchor else ""))
    for check in checks:
        done = subprocess.run(
            [sys.executable, *shlex.split(check)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{check}:\n{done.stdout}"
    return ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHANGES)
def test_a_whole_change_passes(name: str, copy: Path) -> None:
    change = CHANGES[name]
    assert failing(copy, (*change.edits, *change.tests), change.checks) == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, id=f"{name}: {edit.path}, {edit.anchor or 'new'}")
        for name, change in CHANGES.items()
        for number, edit in enumerate(change.edits)
    ],
)
def test_a_forgotten_part_is_noticed(name: str, number: int, copy: Path) -> None:
    change = CHANGES[name]
    edits = [edit for at, edit in enumerate(change.edits) if at != number]
    output = failing(copy, (*edits, *change.tests), change.checks)
    assert bool(output) == change.edits[number].is_noticed
