# SPDX-License-Identifier: Apache-2.0
"""The process beside the one that answers the runtime."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, signal
from nri_scope.differ.live.process import WatcherProcess

signal.signal(signal.SIGCHLD, signal.{handling})
watcher = WatcherProcess.fork(lambda end: 1)

async def main():
    assert await watcher.receive() is None
    return await watcher.ended()

try:
    print(asyncio.run(main()), watcher.was_killed)
finally:
    watcher.close()
"""


def test_how_it_ended_is_known_whatever_the_one_who_started_us_ignores() -> None:
    for handling in ("SIG_DFL", "SIG_IGN"):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(handling=handling)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.stdout, ended.stderr) == ("1 False\n", "")
