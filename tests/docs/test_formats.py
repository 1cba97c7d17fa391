# SPDX-License-Identifier: Apache-2.0
"""docs/formats.md matches the code: its examples are real and its tables complete."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.events import LEFT_OUT
from nri_scope.share.formats import FORMATS
from nri_scope.share.formats.expanded_sqlite import TABLES, VIEWS
from nri_scope.share.formats.otlp import MAX_ITEMS, MAX_TEXT, SCHEMA_URL
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT
from tests.share.formats.perfetto_viewer import drawn_from
from tests.share.formats.recordings import SAMPLES, exported, varied

TEXT = (ROOT / "docs" / "formats.md").read_text()
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"


def _section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


def _examples(section: str, language: str = "json") -> list[str]:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def _pattern(example: str) -> re.Pattern[str]:
    """A pattern for an example in which ``…`` replaces omitted text."""
    return re.compile(".*".join(map(re.escape, example.split("…"))))


def _names_in_column(section: str, column: int = 1) -> list[str]:
    """The names in a column of the section's tables."""
    rows = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(.+?)`", row.split("|")[column - 1])]


def test_every_format_is_described() -> None:
    assert _names_in_column(TEXT.partition("\n## ")[0]) == list(FORMATS)
    for name in FORMATS:
        assert _section(name)


@pytest.mark.exhaustive
def test_commands_run_in_order(tmp_path: Path) -> None:
    folder = Path(NRI_SCOPE).parent
    shutil.copy(RECORDING, tmp_path / "FILE")
    printed = ""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for commands in [text for language, text in blocks if not language]:
        # Blocks are independent: remove the files that the previous block wrote.
        for made in {*tmp_path.iterdir()} - {tmp_path / "FILE"}:
            made.unlink()
        done = subprocess.run(
            ["sh", "-ec", commands],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        printed += done.stdout
    for example in _examples(_section("jsonl"), "text") + _examples(
        _section("sqlite-expanded"), "text"
    ):
        assert f"{example}\n" in printed


def test_the_jsonl_examples_are_real() -> None:
    lines = exported(RECORDING, "jsonl").decode().splitlines()
    examples = _examples(_section("jsonl"))
    assert len(examples) == 2
    for example in examples:
        assert any(_pattern(example).fullmatch(line) for line in lines), example


def test_the_span_example_is_real() -> None:
    content = exported(RECORDING, "otlp-json").decode()
    (example,) = _examples(_section("otlp-json"))
    assert _pattern(example).search(content)
    version = re.escape(SCHEMA_URL.rpartition("/")[2].removesuffix(".0"))
    assert re.search(rf"conventions\s{version}\s", TEXT)
    assert f"{MAX_TEXT:,} characters" in TEXT and f"more than {MAX_ITEMS}" in TEXT


def test_every_nri_attribute_is_described(tmp_path: Path) -> None:
    path = varied(tmp_path / "r.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE event SET mark = 'unknown', changed = '[\"/a\"]', owners = changed"
        )
        connection.execute("""UPDATE event SET owners = '["10-a"]'""")
        left_out = "INSERT INTO gap (from_ns, to_ns, reason, lost) VALUES (1, 1, ?, 1)"
        connection.execute(left_out, (LEFT_OUT,))
        connection.commit()
    # The recordings of a chain have requests, of which some are changes.
    content = "".join(exported(one, "otlp-json").decode() for one in (path, *SAMPLES))
    used = set(re.findall(r'"key": "(nri\..+?)"', content))
    assert set(_names_in_column(_section("otlp-json"))) == used


def test_the_track_tree_matches_the_perfetto_output() -> None:
    drawn = drawn_from(exported(RECORDING, "perfetto"))
    path: list[str] = []
    lines = _examples(_section("perfetto"), "text")
    assert len(lines) > 5
    for line in lines:
        name, _, slices = line.strip().partition("  ")
        path = [*path[: (len(line) - len(line.lstrip())) // 2], name]
        track = "/".join(path)
        assert track in drawn.tracks.values()
        shown = " ".join(found.name for found in drawn.on(track))
        assert _pattern(slices.strip()).fullmatch(shown), track


def test_all_tables_and_views_are_described() -> None:
    section = _section("sqlite-expanded")
    assert _names_in_column(section) == list(VIEWS)
    for table in TABLES:
        assert f"`{table}`" in section
