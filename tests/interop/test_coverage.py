# SPDX-License-Identifier: Apache-2.0
"""Coverage data of a plugin in Go: the same by hand, by ``replay`` and by ``tap``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.build import Unavailable, build_covered
from tests.interop.reference import PATIENCE
from tests.interop.toolchain import find_go
from tests.replay.recordings import RECORDING

COMMAND = Path(sys.executable).with_name("nri-scope")

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def plugin() -> Path:
    try:
        return build_covered()
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")


class Covered:
    """A covered plugin and its data, in one folder for each way to start it."""

    def __init__(self, plugin: Path, folder: Path, socket: Path) -> None:
        # The recorded runtime does not know all events of the plugin.
        self.plugin = (plugin, "-events=2047")
        self.socket = socket
        self._folder = folder

    def by(self, start: Callable[[Path], None]) -> str:
        """Return the coverage of a plugin that ``start`` starts, as text.

        Blocks without statements are left out: the plugin's only one is its callback for a closed
        connection, which the stub calls while the plugin ends.
        """
        folder = self._folder / start.__name__
        folder.mkdir()
        start(folder)
        text = self._folder / f"{start.__name__}.txt"
        subprocess.run(
            [find_go("1.24.0"), "tool", "covdata", "textfmt", "-i", folder, "-o", text], check=True
        )
        # Each line ends with the number of a block's statements, and whether it ran.
        lines = text.read_text().splitlines(keepends=True)
        return "".join(line for line in lines if line.split()[1] != "0")

    def at_a_runtime(self, *command: str | Path, **environment: str) -> None:
        """Run a command while a replay listens."""
        replaying: list[str | Path] = [COMMAND, "replay", RECORDING, "--listen", self.socket]
        with subprocess.Popen(replaying, stdout=subprocess.DEVNULL) as runtime:
            deadline = time.monotonic() + PATIENCE
            while not self.socket.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            subprocess.run(command, check=True, env={**os.environ, **environment})
        assert runtime.returncode == 0

    # -- ways to start the plugin ---------------------------------------------------------------

    def hand(self, data: Path) -> None:
        """As a runtime names it, without a connection."""
        variables = {"NRI_PLUGIN_NAME": "p", "NRI_PLUGIN_IDX": "10", "GOCOVERDIR": str(data)}
        self.at_a_runtime(*self.plugin, f"-socket={self.socket}", **variables)

    def replay(self, data: Path) -> None:
        self._replay(data, "--index=10", "--name=p", "--", *self.plugin)

    def tap(self, data: Path) -> None:
        self.at_a_runtime(
            COMMAND, "tap", "--socket", self.socket, "-o", data.with_suffix(".db"),
            f"--env=GOCOVERDIR={data}", "--index=10", "--name=p", "--", *self.plugin,
        )  # fmt: skip

    def hand_with_options(self, data: Path) -> None:
        options = ["-index=10", "-name=p", f"-socket={self.socket}"]
        self.at_a_runtime(*self.plugin, *options, GOCOVERDIR=str(data))

    def external_replay(self, data: Path) -> None:
        self._replay(data, "--", *self.plugin, "-index=10", "-name=p", "-socket={socket}")

    def external_tap(self, data: Path) -> None:
        self.at_a_runtime(
            COMMAND, "tap", "--socket", self.socket, "-o", data.with_suffix(".db"),
            f"--env=GOCOVERDIR={data}",
            "--", *self.plugin, "-index=10", "-name=p", "-socket={socket}",
        )  # fmt: skip

    def killed_replay(self, data: Path) -> None:
        self._replay(data, "--grace=0", "--index=10", "--name=p", "--", *self.plugin)

    def _replay(self, data: Path, *arguments: str | Path) -> None:
        command = [COMMAND, "replay", RECORDING, f"--env=GOCOVERDIR={data}", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_coverage_is_that_of_a_plugin_started_by_hand(
    plugin: Path, tmp_path: Path, socket: Path
) -> None:
    covered = Covered(plugin, tmp_path, socket)
    by_hand = covered.by(covered.hand)
    assert by_hand.count(" 1\n") > 50
    assert covered.by(covered.replay) == by_hand
    assert covered.by(covered.tap) == by_hand
    with_options = covered.by(covered.hand_with_options)
    assert covered.by(covered.external_replay) == with_options
    assert covered.by(covered.external_tap) == with_options
    # Runtimes kill plugins, which then write no counts.
    assert " 1\n" not in covered.by(covered.killed_replay)
