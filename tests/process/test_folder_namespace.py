# SPDX-License-Identifier: Apache-2.0
"""Processes that find one folder in place of another."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime_emulation.scripts import ROOT

PROGRAM = f"""
import ctypes, os, sys
sys.path.insert(0, {str(ROOT)!r})
from nri_scope.process.folder_namespace import replace_folder
place, folder, without_rights = sys.argv[1:]
if without_rights:
    # Without CAP_SYS_ADMIN, from its next execve on.
    ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], place, folder, ""])
try:
    replace_folder(place, folder)
except PermissionError:
    sys.exit(77)
os.execv("/bin/sh", ["sh", "-c", 'cat "$0/file"; cat "$0/../other/file"; ls "$0/.."', place])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a link to itself, and with folders and files."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for name in ("private", "parent/other", "parent/present"):
            (folder / name).mkdir(parents=True)
            (folder / name / "file").write_text(f"in {name}\n")
        (folder / "parent/note").write_text("text")
        (folder / "parent/link").symlink_to("note")
        (folder / "var").symlink_to("parent")
        yield folder


@pytest.mark.parametrize("without_rights", ["", "yes"])
@pytest.mark.parametrize("name", ["present", "absent"])
def test_the_other_folder_is_found_only_by_this_process(
    name: str, without_rights: str, folder: Path
) -> None:
    place = folder / "var" / name
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, place, folder / "private", without_rights],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("namespaces are not permitted here")
    entries = sorted({"link", "note", "other", "present", name})
    assert done.stdout.split("\n") == ["in private", "in parent/other", *entries, ""], done.stderr
    assert {one.name for one in (folder / "parent").iterdir()} == {
        *("link", "note", "other", "present")
    }
    assert (folder / "parent/present/file").read_text() == "in parent/present\n"


def test_a_folder_in_none_is_an_error(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder / "nowhere/place", folder / "private", ""],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("namespaces are not permitted here")
    assert "FileNotFoundError" in done.stderr
