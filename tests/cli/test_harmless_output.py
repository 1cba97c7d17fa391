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

PLUGIN = Path(__file__).parents[2] / "examples" / "python-device-injector" / "device_injector.py"

LOG = ("log", "FILE")
SHOW = ("show", "FILE", "3")
SQL = ("sql", "FILE", "SELECT * FROM events", "--format")
COMMANDS = {
    LOG: 0,
    (*LOG, "--format", "jsonl"): 0,
    SHOW: 0,
    (*SHOW, "--format", "json"): 0,
    ("report", "FILE"): 0,
    ("report", "FILE", "--format", "json"): 0,
    ("diff", "FILE"): 1,
    ("diff", "FILE", "--format", "json"): 1,
    ("blame", "FILE", "escapes-0"): 0,
    ("blame", "FILE", "escapes-0", "--full"): 0,
    ("blame", "FILE", "escapes-0", "--full", "--format", "json"): 0,
    ("report", "FILE", "-o", "OUT.html"): 0,
    ("report", "FILE", "-o", "OUT.md"): 0,
    ("report", "FILE", "--diagnose"): 1,
    ("report", "FILE", "--diagnose", "--format", "json"): 1,
    ("export", "FILE", "--preview"): 0,
    ("export", "FILE", "--format", "jsonl"): 0,
    ("export", "FILE", "--format", "otlp-json"): 0,
    ("export", "FILE", "-o", "OUT.nriscope.zip"): 0,
    (*SQL, "table"): 0,
    (*SQL, "json"): 0,
    (*SQL, "csv"): 0,
    ("sql", "FILE", "SELECT nri_json(id) AS 'a\x1b[31m' FROM event", "--format", "csv"): 0,
    ("replay", "FILE", "--junit", "OUT.xml", "--", "PYTHON", "PLUGIN"): 1,
    ("show", "FILE", "no\x1b[31m\x9bthing"): 2,
}
"""Commands and their exit statuses."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_recording(tmp_path_factory.mktemp("hostile") / "h.nriscope.db", huge=False)


def _controls(text: str) -> list[str]:
    """Return the C0, C1 and DEL characters except line ends."""
    return [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]


def _arguments(command: tuple[str, ...], path: Path, folder: Path) -> list[str]:
    words = {"FILE": str(path), "PYTHON": sys.executable, "PLUGIN": str(PLUGIN)}
    return [words.get(word, word.replace("OUT", str(folder / "out"))) for word in command]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        pytest.param(command, status, id=" ".join(command).encode("unicode_escape").decode())
        for command, status in COMMANDS.items()
    ],
)
def test_pipes_and_files_get_no_control_characters(
    path: Path,
    tmp_path: Path,
    command: tuple[str, ...],
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(_arguments(command, path, tmp_path)) == status
    captured = capfd.readouterr()
    names = {word.replace("OUT", "out") for word in command if word.startswith("OUT")}
    assert {file.name for file in tmp_path.iterdir()} == names
    written = [file for file in tmp_path.iterdir() if file.suffix in (".html", ".md", ".xml")]
    assert captured.out or captured.err or written
    for text in (captured.out, captured.err, *(file.read_text() for file in written)):
        assert _controls(text) == []


@pytest.mark.parametrize("command", [LOG, SHOW, (*SQL, "csv")])
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
    assert process.wait() == COMMANDS[command]
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
