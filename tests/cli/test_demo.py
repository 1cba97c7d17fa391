# SPDX-License-Identifier: Apache-2.0
"""The demo: the copy it makes, what it shows, and the commands it names."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_scope.cli import demo, new_plugin
from nri_scope.cli.main import run
from nri_scope.errors import UsageError
from tests.demo_recording import DEMO_EVENTS
from tests.tui.terminal import needs_tmux, terminal

ROOT = Path(__file__).parents[2]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the demo away from any terminal.

    It is the leader of a process group, as at a terminal; its temporary files go to tmp_path.
    """
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, temporary: Path = tmp_path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "nri_scope", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def commands(output: str) -> list[list[str]]:
    """Return the arguments of the commands that the demo names, as a shell parses them."""
    lines = [shlex.split(line) for line in output.splitlines() if " -m nri_scope " in line]
    return [words[words.index("nri_scope") + 1 :] for words in lines]


def test_demo_prints_the_log_and_names_commands_that_work(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output, errors = start().communicate(timeout=60)

    lines = [line for line in output.splitlines() if re.match(r" +\d+ \d\d:\d\d:\d\d\.", line)]
    assert len(lines) == DEMO_EVENTS
    assert errors == "demo: this is not a terminal; printing the log instead\n"
    assert list(tmp_path.iterdir()) == []
    file = demo.bundled_path()
    assert output.index("CreateContainer") < output.index("The recording is")

    named = commands(output)
    assert [words[0] for words in named] == ["tui", "blame", "diff", "report", "new-plugin",
                                             "replay", "doctor", "record"]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    printed: dict[str, str] = {}
    for words in named[:6]:
        assert str(file) in words or words[0] == "new-plugin"
        assert run(words) == (words[0] in ("diff", "report")), words
        printed[words[0]] = capfd.readouterr().out
    # What the plugins did is in the output of the commands that tell it.
    assert re.search(r"30-env-injector +T ~│ +- FOO=overridden +# was bar\n", printed["blame"])
    assert "by 60-cpu-policy (tap)" in printed["diff"]
    assert "40-image-check was disconnected" in printed["report"]
    assert 'Conflict: plugins "50-batch-env" and "30-env-injector"' in printed["report"]
    assert "POD_OWNER" in printed["replay"]


def test_output_can_be_named(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "a name.nriscope.db"
    output, _ = start("-o", str(file)).communicate(timeout=60)
    assert file.exists()
    assert {str(file)} == {words[1] for words in commands(output) if words[0] == "blame"}
    assert list(tmp_path.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_existing_file_is_not_overwritten(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("precious")
    process = start("-o", str(file))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == f"nri-scope: {file}: file exists; choose a new name\n"
    assert output == ""
    assert file.read_text() == "precious"


def test_file_that_cannot_be_created_is_an_error(start: Start, tmp_path: Path) -> None:
    process = start("-o", str(tmp_path / "missing" / "demo.nriscope.db"))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = errors.splitlines()
    assert str(tmp_path / "missing") in line
    assert output == "" and not list(tmp_path.iterdir())


# ^C in a terminal is sent to all of its processes, `kill` to one.
@pytest.mark.exhaustive
def test_without_a_terminal_the_log_is_printed_with_a_notice(start: Start) -> None:
    output, errors = start().communicate(timeout=60)
    assert errors.startswith("demo: this is not a terminal; printing the log instead\n")
    assert "CreateContainer" in output


@needs_tmux
async def test_terminal_shows_the_recording(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo -o d.nriscope.db", (150, 50)) as window:
        await window.shows("containerd 2.1", "3 problems")
        # The cursor begins at the first problem.
        at_problem = re.compile(r"^>.* CreateContainer .* slow 40", re.MULTILINE)
        await window.until(lambda text: at_problem.search(text) is not None)
        await window.press("q")
        text = await window.shows("ended with 0", "doctor")
    assert f"tui {tmp_path}/d.nriscope.db" in "".join(text.split("\n"))
    assert (tmp_path / "d.nriscope.db").read_bytes() == demo.bundled_path().read_bytes()


@needs_tmux
async def test_marks_and_files_of_the_demo_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = demo.bundled_path()
    files, modified = set(bundled.parent.iterdir()), bundled.stat().st_mtime_ns
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with terminal(tmp_path, "demo", (150, 50)) as window:
        await window.shows("containerd 2.1", "3 problems")
        (folder,) = tmp_path.glob("nri-scope-demo-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        await window.press("Down")
        await window.press("m")
        while not (folder / f"{demo.RECORDING}.marks.json").exists():
            await asyncio.sleep(0.05)
        await window.press("q")
        await window.shows("ended with 0", "doctor")
    assert not folder.exists()
    assert (set(bundled.parent.iterdir()), bundled.stat().st_mtime_ns) == (files, modified)


@needs_tmux
async def test_log_option_prints_the_log_in_a_terminal(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo --log -o d.nriscope.db", (120, 160)) as window:
        text = await window.shows("RemovePodSandbox", "The recording is", "ended with 0")
    assert "printing the log instead" not in text


# -- the recording it shows -----------------------------------------------------------------------


def test_recording_is_found_in_a_package_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "nri_scope"
    monkeypatch.setattr(demo, "__file__", str(package / "cli" / "demo.py"))
    with pytest.raises(UsageError, match="missing from this installation"):
        demo.bundled_path()
    for folder in (package.parent / "recordings", package / "recordings"):
        folder.mkdir(parents=True)
        (folder / demo.RECORDING).write_bytes(b"")
        assert demo.bundled_path() == folder / demo.RECORDING


@pytest.mark.parametrize("name", [demo.RECORDING, new_plugin.RECORDING])
def test_recording_is_part_of_the_wheel(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"/recordings/{name}" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    assert demo.bundled_path(name) == ROOT / "recordings" / name


# -- details --------------------------------------------------------------------------------------


def test_named_commands_use_the_program_name_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin dir" / "nri-scope"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    assert demo.program_name() == f"'{script}'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert demo.program_name() == "nri-scope"
    lines = demo.conclusion(tmp_path / "r.nriscope.db").splitlines()
    assert f"  sudo '{script}' record --print text" in lines
    monkeypatch.setattr(sys, "argv", ["/usr/lib/nri_scope/__main__.py", "demo"])
    assert demo.program_name() == f"{shlex.quote(sys.executable)} -m nri_scope"
