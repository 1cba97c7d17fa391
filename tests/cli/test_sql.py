# SPDX-License-Identifier: Apache-2.0
"""``nri-scope sql``."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope.cli.main import cli, run
from tests.recording.recordings import record

ODD = "SELECT 1 AS n, 1 AS n, NULL AS nil, x'00ff' AS b, 9e999 AS big, 'a\x1b\n\"' AS t"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("sql") / "x.nriscope.db")


def sql(path: Path, query: str, *more: str) -> str:
    result = CliRunner().invoke(cli, ["sql", str(path), query, *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert not result.stderr
    return result.stdout


def test_table(path: Path) -> None:
    lines = sql(path, "SELECT event, count(*) AS n FROM log GROUP BY 1 ORDER BY 2 DESC, 1").split(
        "\n"
    )
    assert lines[0].split() == ["event", "n"]
    assert lines[2].split() == ["CreateContainer", "4"]
    assert lines[-2].split() == ["UpdateContainer", "1"]


def test_json_is_one_object(path: Path) -> None:
    assert json.loads(sql(path, ODD, "--format", "json")) == {
        "schema_version": 1,
        "columns": ["n", "n_2", "nil", "b", "big", "t"],
        "rows": [
            {
                "n": 1,
                "n_2": 1,
                "nil": None,
                "b": base64.b64encode(b"\x00\xff").decode(),
                "big": "inf",
                "t": 'a\x1b\n"',
            }
        ],
    }
    assert json.loads(sql(path, "SELECT 1 WHERE 0", "--format", "json"))["rows"] == []
    many = json.loads(sql(path, "SELECT id FROM log", "--format", "json"))
    assert [row["id"] for row in many["rows"]] == list(range(1, 32))


def test_csv_has_the_values_escaped(path: Path) -> None:
    rows = list(csv.reader(io.StringIO(sql(path, ODD, "--format", "csv"))))
    assert rows == [
        ["n", "n", "nil", "b", "big", "t"],
        ["1", "1", "", "AP8=", "inf", r'a\x1b\n"'],
    ]


def test_a_table_is_safe_for_a_terminal(path: Path) -> None:
    assert r"a\x1b\n" in sql(path, ODD)


@pytest.mark.parametrize("query", ["DELETE FROM event", "SELEC", "PRAGMA user_version = 7"])
def test_invalid_or_writing_sql_gives_one_line_and_status_2(
    path: Path, query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = path.read_bytes()
    assert run(["sql", str(path), query]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("nri-scope: ") and captured.err.count("\n") == 1
    assert path.read_bytes() == before
