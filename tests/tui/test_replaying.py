# SPDX-License-Identifier: Apache-2.0
"""Replay of shown events: ``replay`` gets the terminal, and returns it."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from nri_scope.filter import parse
from nri_scope.recording.reader import Recording
from tests.tui.screen import copy_recording, showing
from tests.tui.terminal import needs_tmux, terminal

PLUGIN = """#!{python}
from nri_scope.plugin import api, run

class Plugin:
    def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key="MINE", value="1")])

run(Plugin(), name="plugin")
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a recording; temporary files are created beside it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return copy_recording(tmp_path)


@pytest.mark.exhaustive
async def test_command_line_is_copied_if_the_terminal_cannot_be_handed_over(
    path: Path, tmp_path: Path
) -> None:
    async with showing(path, size=(100, 20), where=parse("container:app")) as screen:
        await screen.shows("matches: container:app")
        await screen.press("r")
        await screen.shows("replay to", "command line of a plugin")
        await screen.type("./p 'x")
        await screen.shows("error: no closing quotation")
        await screen.press("enter")
        assert screen.app.bar.is_open
        await screen.press("'", "enter")
        await screen.shows("copied; run it in another terminal: nri-scope replay ")
        name, verb, file, *rest = shlex.split(screen.app.clipboard)
        assert (name, verb) == ("nri-scope", "replay")
        assert rest == ["--session", "1", "--", "./p", "x"]
        with Recording.open(Path(file)) as recording:
            events = [event for event in recording.events() if event.container == "app"]
        assert len(events) == 8 and Path(file).is_relative_to(tmp_path)
        # The previous input can be recalled.
        await screen.press("r", "up")
        await screen.shows("replay to ./p 'x'")


async def test_empty_command_starts_no_replay(path: Path, tmp_path: Path) -> None:
    async with showing(path) as screen:
        await screen.shows("1 of 34")
        await screen.press("r", "enter")
        await screen.until(lambda: not screen.app.bar.is_open)
        assert not screen.app.jobs.busy
    assert [each for each in tmp_path.iterdir() if each.is_dir()] == []


@pytest.mark.exhaustive
async def test_missing_temporary_folder_shows_an_error(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with showing(path, size=(160, 20)) as screen:
        await screen.shows("1 of 34")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        await screen.press("r")
        await screen.type("./p")
        await screen.press("enter")
        await screen.shows("no such file or directory")
        await screen.until(lambda: not screen.app.jobs.busy)


@pytest.mark.exhaustive
@needs_tmux
async def test_replay_to_a_plugin_uses_the_terminal_and_returns_it(
    path: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN.format(python=sys.executable))
    plugin.chmod(0o755)
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = f"tui {path.name} --where container:app"
    async with terminal(tmp_path, command, variables={"TMPDIR": str(folder)}) as window:
        await window.shows("matches: container:app")
        await window.press("r", "./plugin.py", "Enter")
        await window.shows("replaying 8 shown events", 'env MINE = "1"', "Enter returns")
        await window.press("Enter")
        await window.shows("matches: container:app", "q quit")
        # The plugin never connects: ^C ends the replay, but not the app.
        await window.press("r", "sleep 1000", "Enter")
        await window.shows("-- sleep 1000")
        await window.press("C-c")
        await window.shows("exited with status", "Enter returns")
        await window.press("Enter")
        await window.shows("matches: container:app", "q quit")
        # Only the survey of the recording has a folder.
        assert len(list(folder.iterdir())) == 1
        await window.press("q")
        await window.shows("ended with 0")
        assert list(folder.iterdir()) == []
