# SPDX-License-Identifier: Apache-2.0
"""``nri-scope debug``: options."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from tests.debugger.plugins import two_lives
from tests.tui.terminal import needs_tmux, terminal

PLUGIN = """#!{python}
from nri_scope.plugin import api, run
class P:
    async def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key="VALUE", value="one")])
run(P(), name="p")
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
        "nri-scope: debug needs a terminal: this is not a terminal; `replay` sends the same "
        "events, and --set changes a pod or container on the way\n"
    )


@pytest.mark.exhaustive
@needs_tmux
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--break evnt:x -- ./plugin", "unknown field"),
        ("--profile verbatim -- ./plugin", "debug and --profile verbatim exclude each other"),
        ("--expect 2 -- ./plugin", "there is no option --expect any more; use --listen N=SOCK"),
        ("", "neither COMMAND, --plugin nor --listen was given"),
    ],
)
async def test_invalid_options_of_debug_print_one_line(
    folder: Path, options: str, words: str
) -> None:
    async with terminal(folder, f"debug FILE {options}") as window:
        screen = await window.shows("ended with 2")
        assert words in screen
        assert "Traceback" not in screen
