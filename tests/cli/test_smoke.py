# SPDX-License-Identifier: Apache-2.0
"""The main work of each command, as a process: for every Python version."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nri_scope.cli.main import COMMANDS
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.cli.container_events import create
from tests.cli.running import Running, running
from tests.cli.tap_process import plugin_file
from tests.runtime_emulation.runtime import Runtime
from tests.sample_names import API, CHECKOUT, CHECKOUT_API
from tests.tui.terminal import needs_tmux, terminal

RECORDING = Path(__file__).parents[2] / "recordings" / "containerd-1.7.nriscope.db"

FAILS = """\
    def stop_container(self, pod, container):
        raise ValueError("cannot stop " + container.name)
"""

# words of a command -> (arguments, exit status, a line of its output)
OFFLINE = {
    "log": ("FILE", 0, rf"CreateContainer +{CHECKOUT_API}"),
    "show": (f"FILE {CHECKOUT_API}", 0, rf"^  name: {API}$"),
    "sql": ("FILE 'SELECT event, count(*) FROM log GROUP BY 1'", 0, r"^CreateContainer +4$"),
    "report": ("FILE", 0, r"^events    32$"),
    "diff": ("FILE", 1, r"passive connections: 00-nri-scope"),
    "blame": (f"FILE {CHECKOUT_API}", 0, r"created by event \d+"),
    "missing": ("FILE --plugin x", 1, r"^8 creations: 0 missing, 0 connected, 8 unknown$"),
    "demo": ("-o new.nriscope.db", 0, r"The recording is$"),
    "doctor": ("--socket none", 1, r"^1 ok|failed"),
    "replay": ("FILE -- ./plugin", 1, rf"cannot stop {API}"),
    "scenario": (
        f"from-recording FILE --only {CHECKOUT}",
        0,
        rf"^  - CreateContainer: {CHECKOUT_API}$",
    ),
    "new-plugin": ("my-plugin", 0, r"^my-plugin/my_plugin\.py$"),
    "report -o": (f"new.html FILE {CHECKOUT_API}", 0, r"^new\.html: "),
    "export": ("FILE --redact -o new.nriscope.zip", 0, r"new\.nriscope\.zip"),
}
ONLINE = {"record", "tap", "diff", "agent"}
IN_A_TERMINAL = {"tui", "debug"}


def test_every_command_is_covered() -> None:
    assert {words.split()[0] for words in OFFLINE} | ONLINE | IN_A_TERMINAL == set(COMMANDS)


@pytest.mark.parametrize("words", sampled(OFFLINE, len(OFFLINE) - 2))
def test_offline_command(words: str, tmp_path: Path) -> None:
    arguments, status, line = OFFLINE[words]
    shutil.copy(RECORDING, tmp_path / "FILE")
    plugin_file(tmp_path / "plugin", FAILS)
    done = subprocess.run(
        [NRI_SCOPE, *words.split(), *shlex.split(arguments)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert re.search(line, done.stdout + done.stderr, re.MULTILINE), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(tmp_path / "nri.sock")
        yield runtime


async def assert_recorded(command: Running, path: Path) -> None:
    """Interrupt the command, and check that its recording has the container."""
    status, _, errors = await command.interrupt()
    assert status in (0, 1) and "Traceback" not in errors, errors
    with Recording.open(path) as recording:
        events = [event for event in recording.events() if event.event == "CreateContainer"]
        assert {event.container for event in events} == {"app"}


@pytest.mark.exhaustive
async def test_record(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "new.nriscope.db"
    async with running("record", "--socket", tmp_path / "nri.sock", "-o", file) as command:
        await runtime.wait_plugins(1)
        await create(runtime)
        await assert_recorded(command, file)


@pytest.mark.exhaustive
async def test_tap(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "new.nriscope.db"
    plugin = plugin_file(
        tmp_path / "20-thing",
        "    def create_container(self, pod, container):\n        return api.ContainerAdjustment()",
    )
    socket = tmp_path / "nri.sock"
    async with running("tap", "--socket", socket, "-o", file, "--", plugin) as command:
        await runtime.wait_plugins(1)
        await create(runtime)
        await assert_recorded(command, file)


@pytest.mark.exhaustive
async def test_diff_live(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "new.nriscope.db"
    socket = tmp_path / "nri.sock"
    options = ("--live", "--socket", socket, "--probes", "00,99", "-o", file)
    async with running("diff", *options) as command:
        await runtime.wait_plugins(2)
        await create(runtime)
        await assert_recorded(command, file)


@needs_tmux
async def test_tui(tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path / "FILE")
    async with terminal(tmp_path, "tui FILE", (80, 24)) as window:
        await window.shows("containerd 1.7.24", "CreateContainer")
        await window.press("q")
        await window.shows("ended with 0")
