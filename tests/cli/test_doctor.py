# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope.cli.main import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/containerd").mkdir(parents=True)
    return tmp_path


def examine(root: Path, *arguments: str) -> int:
    return run(["doctor", "--root", str(root), *arguments])


def test_a_failure_has_status_1_a_reason_and_a_fix(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examine(root) == 1
    output = capsys.readouterr()
    assert output.err == ""
    assert "fail    socket: /var/run/nri/nri.sock does not exist" in output.out
    assert "\n          fix: " in output.out
    assert "\x1b" not in output.out


def test_a_pipe_gets_whole_lines_unless_columns_is_set(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    examine(root)
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 80
    assert sum(" fix: " in line for line in whole.splitlines()) == whole.count("fix:")
    for bad in ("0", "wide", "-5"):
        monkeypatch.setenv("COLUMNS", bad)
        examine(root)
        assert capsys.readouterr().out == whole
    monkeypatch.setenv("COLUMNS", "60")
    examine(root)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == whole.split()


def test_json_is_one_object(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(root, "--format", "json", "--socket", "/x/y.sock") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    socket = next(check for check in document["checks"] if check["name"] == "socket")
    assert (socket["status"], socket["detail"]) == (
        "fail",
        "/x/y.sock does not exist, nor does its folder",
    )
    assert all(
        set(check) == {"name", "status", "detail", "fix", "config"} for check in document["checks"]
    )


def test_file_names_are_escaped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins = root / "opt/nri/plugins"
    plugins.mkdir(parents=True)
    (plugins / "\x1b[31mred\u202e").touch(mode=0o755)
    examine(root)
    output = capsys.readouterr().out
    assert "\\x1b[31mred\\u202e" in output
    assert "\x1b" not in output
    examine(root, "--format", "json")
    assert capsys.readouterr().out.isascii()


@pytest.mark.parametrize("arguments", [["--format", "xml"], ["--bogus"], ["surplus"]])
def test_bad_options_give_one_line_and_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1


def test_the_help_names_the_plugin_that_it_registers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--help"]) == 0
    text = capsys.readouterr().out
    assert "00-nri-scope-doctor" in text
    assert "--root" not in text
