# SPDX-License-Identifier: Apache-2.0
"""``nri-scope debug`` and ``replay --watch``: options, and a replay on every save."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from tests.cli.command import NRI_SCOPE
from tests.debugger.plugins import two_lives
from tests.tui.terminal import needs_tmux, terminal

PLUGIN = """#!{python}
from nri_scope.plugin import Adjustment, BasePlugin, run
class P(BasePlugin):
    async def create_container(self, pod, container):
        return Adjustment().add_env("VALUE", "one")
run(P(), name="p")
"""


BUILD = """
import re, sys
value = open("src/value").read().strip()
if value == "broken":
    sys.exit("value is broken")
text = re.sub('"VALUE", .*', f'"VALUE", "{value}")', open("plugin").read())
open("plugin", "w").write(text)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    two_lives(tmp_path).rename(tmp_path / "FILE")
    (tmp_path / "plugin").write_text(PLUGIN.format(python=sys.executable))
    (tmp_path / "plugin").chmod(0o755)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_without_a_terminal_another_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["debug", "FILE", "--", "./plugin"]) == 2
    error = capsys.readouterr().err
    assert error == (
        "nri-scope: debug needs a terminal: this is not a terminal; use `replay --step`, which "
        "reads commands as lines\n"
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--watch src", "--watch needs --build"),
        ("--build true", "--build needs --watch"),
        ("--watch missing --build true", "--watch missing: no such file or folder"),
        ("--watch src --build true --step", "--watch and --step exclude each other"),
        ("--watch src --build true --golden g", "--watch and --golden exclude each other"),
        ("--step --loop 2", "--step and --loop exclude each other"),
    ],
)
def test_invalid_options_of_replay_print_one_line(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "FILE", *line.split(), "--", "./plugin"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@needs_tmux
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--break evnt:x -- ./plugin", "unknown field"),
        ("--no-effects -- ./plugin", "debug and --no-effects exclude each other"),
        ("--expect 2 -- ./plugin", "--expect needs --listen"),
        ("", "no plugin was given"),
    ],
)
async def test_invalid_options_of_debug_print_one_line(
    folder: Path, options: str, words: str
) -> None:
    async with terminal(folder, f"debug FILE {options}") as window:
        screen = await window.shows("ended with 2")
        assert words in screen
        assert "Traceback" not in screen


@pytest.fixture
def watching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "build.py").write_text(BUILD)
    build = f"{sys.executable} build.py"
    process = subprocess.Popen(
        [NRI_SCOPE, "replay", "FILE", "--watch", "src", "--build", build, "--", "./plugin"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    yield process
    process.kill()
    process.communicate()


def until(process: subprocess.Popen[str], words: str) -> str:
    """Return the output up to a line with ``words``."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if words in line:
            return text
    raise AssertionError(text)


def test_a_save_builds_and_prints_what_differs(
    folder: Path, watching: subprocess.Popen[str]
) -> None:
    waits, value = "waiting for a save", folder / "src" / "value"
    first = until(watching, waits)
    assert '+ env VALUE = "one"' in first
    assert "3 replies: 3 ok" in first
    value.write_text("two")
    second = until(watching, waits)
    assert "2 replies differ from the run before" in second
    assert "  ~ /adjust/env/VALUE one → two" in second
    assert "env VALUE =" not in second
    value.write_text("broken")
    third = until(watching, waits)
    assert "the build failed, exit status 1; the previous plugin stays" in third
    assert "  value is broken" in third
    value.write_text("two\n")
    assert "all replies equal those of the run before" in until(watching, waits)
    value.write_text('two" +')
    assert "failed to start" in until(watching, waits)
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, errors) == (0, "")
