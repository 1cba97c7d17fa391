# SPDX-License-Identifier: Apache-2.0
"""No output, to a pipe, a terminal or a file, contains control characters for a terminal."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.cli.main import cli, run
from nri_scope.text.escape import spreadsheet_cell
from tests.tui.hostile import hostile_recording

COMMANDS = (
    ("log", "FILE"),
    ("log", "FILE", "--format", "jsonl"),
    ("show", "FILE", "3"),
    ("show", "FILE", "3", "--format", "json"),
    ("stats", "FILE"),
    ("stats", "FILE", "--format", "json"),
    ("diff", "FILE"),
    ("diff", "FILE", "--format", "json"),
    ("diff", "FILE", "--format", "markdown"),
    ("blame", "FILE", "escapes-0"),
    ("blame", "FILE", "escapes-0", "--full"),
    ("blame", "FILE", "escapes-0", "--full", "--format", "json"),
    ("blame", "FILE", "escapes-0", "--full", "--format", "markdown"),
    ("report", "FILE", "-o", "OUT.html"),
    ("report", "FILE", "-o", "OUT.md"),
    ("report", "FILE", "--diagnose"),
    ("report", "FILE", "--diagnose", "--format", "json"),
    ("export", "FILE", "--preview"),
    ("export", "FILE", "--preview", "--format", "json"),
    ("export", "FILE", "--format", "jsonl"),
    ("export", "FILE", "--format", "otlp-json"),
    ("export", "FILE", "-o", "OUT.nriscope.zip"),
    *(
        ("sql", "FILE", "SELECT * FROM events", "--format", form)
        for form in ("table", "json", "csv")
    ),
    ("sql", "FILE", "SELECT nri_json(id) AS 'a\x1b[31m' FROM event", "--format", "csv"),
    ("replay", "FILE", "--junit", "OUT.xml", "--", "/bin/false"),
    ("show", "FILE", "no\x1b[31m\x9bthing"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_recording(tmp_path_factory.mktemp("hostile") / "h.nriscope.db", huge=False)


def _controls(text: str) -> list[str]:
    """Return the C0, C1 and DEL characters except line ends."""
    return [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]


def _arguments(command: tuple[str, ...], path: Path, folder: Path) -> list[str]:
    return [
        str(path) if word == "FILE" else word.replace("OUT", str(folder / "out"))
        for word in command
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c).encode("unicode_escape"))
def test_pipes_and_files_get_no_control_characters(
    path: Path, tmp_path: Path, command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    run(_arguments(command, path, tmp_path))
    captured = capfd.readouterr()
    written = [file for file in tmp_path.iterdir() if file.suffix in (".html", ".md", ".xml")]
    assert captured.out or captured.err or written
    for text in (captured.out, captured.err, *(file.read_text() for file in written)):
        assert _controls(text) == []


@pytest.mark.parametrize("command", COMMANDS[:1] + COMMANDS[2:3] + COMMANDS[24:25])
def test_a_terminal_gets_no_control_characters(path: Path, command: tuple[str, ...]) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nri_scope", *_arguments(command, path, path.parent)],
        stdout=slave,
        stderr=slave,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1"},
    )
    os.close(slave)
    parts: list[bytes] = []
    while part := _read(master):
        parts.append(part)
    os.close(master)
    assert process.wait() in (0, 1)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    assert len(text) > 1_000
    assert _controls(text) == []


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        # The other end is closed.
        return b""


_CELLS = st.text(
    st.one_of(
        st.sampled_from("=+-@\t\r\n'\";,0159.e＝＋－＠"), st.characters(exclude_categories=["Cs"])
    ),
    max_size=12,
)


@settings(deadline=None)
@given(st.lists(_CELLS, min_size=2, max_size=4))
@example(["x", " =1+1"])
def test_no_csv_cell_is_a_formula_and_no_cell_moves(texts: list[str]) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(map(spreadsheet_cell, texts))
    assert _controls(buffer.getvalue()) == []
    (row,) = csv.reader(io.StringIO(buffer.getvalue()))
    assert len(row) == len(texts)
    for cell in row:
        if cell.lstrip(" ")[:1] in set("=+-@\t\r\n＝＋－＠") and cell.strip(" "):
            float(cell)


@settings(deadline=None)
@given(st.lists(_CELLS, min_size=2, max_size=4))
@example(["x", "a;=1+1", 'b;"=1+1', "c; @SUM(1)"])
def test_no_csv_cell_is_a_formula_if_semicolons_separate_cells(texts: list[str]) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(map(spreadsheet_cell, texts))
    for cell in buffer.getvalue().split(";")[1:]:
        assert cell.lstrip(" \"'")[:1] not in set("=+-@＝＋－＠") or cell[:1] == "'"


def test_numbers_stay_numbers_in_csv(path: Path) -> None:
    query = "SELECT -5 AS a, '-5' AS b, '-5+1' AS c, '=1' AS \"=d\", -1.5 AS e, 'x' AS f"
    result = CliRunner().invoke(cli, ["sql", str(path), query, "--format", "csv"])
    assert result.stdout == "a,b,c,'=d,e,f\n-5,-5,'-5+1,'=1,-1.5,x\n"
