# SPDX-License-Identifier: Apache-2.0
"""Plugins in Go on upstream's stub, which log what they got: a truth that nri-scope did not write.

A plugin is started again whenever its connection ends, as a DaemonSet would. What it logged is in
one file for each start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.interop.build import Variant, build

_RESTART_S = 0.3


class Seen(NamedTuple):
    """An event that a plugin got."""

    at_ns: int
    """When it replied."""
    event: str
    pod: str
    container: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Event and subject."""
        return self.event, self.pod, self.container


class Witness:
    """A plugin on the socket of one node, kept running."""

    def __init__(
        self, folder: Path, socket: Path, index: str, name: str, *, dedicated: bool
    ) -> None:
        self._program = build(Variant.NRI_0_12 if dedicated else Variant.NRI_0_8).plugin
        self._folder = folder
        self._arguments = (f"-socket={socket}", f"-index={index}", f"-name={name}")
        self._ended = threading.Event()
        self._allowed = threading.Event()
        self._allowed.set()
        self._process: subprocess.Popen[bytes] | None = None
        self.absences: list[tuple[int, int]] = []
        """Times, in ns, from a signal to the plugin until it was started again, or went on."""
        self._thread = threading.Thread(target=self._keep)

    @contextmanager
    def running(self) -> Iterator[Witness]:
        """Run the plugin for the duration of a block."""
        self._folder.mkdir()
        self._thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._allowed.set()
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGKILL)
            self._thread.join()

    def _keep(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._allowed.wait()
            number += 1
            log = self._folder / f"{number:04}.jsonl"
            with (self._folder / "output").open("ab") as output:
                self._process = subprocess.Popen(
                    [self._program, *self._arguments, f"-requests={log}"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
                self._process.wait()
            self._ended.wait(_RESTART_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill the plugin, and start it again after the block."""
        began_ns = time.time_ns()
        self._allowed.clear()
        self._signal(signal.SIGKILL)
        try:
            yield
        finally:
            self.absences.append((began_ns, time.time_ns()))
            self._allowed.set()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the plugin for the duration of a block."""
        began_ns = time.time_ns()
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.absences.append((began_ns, time.time_ns()))
            self._signal(signal.SIGCONT)

    def seen(self) -> list[Seen]:
        """Return the events of pods and containers that the plugin got, ascending in time."""
        found = []
        for path in self._folder.glob("*.jsonl"):
            for line in path.read_text().splitlines():
                with suppress(ValueError):
                    # The last line of a killed plugin may be cut.
                    entry = json.loads(line)
                    subject = entry.get("pod", ""), entry.get("container", "")
                    if any(subject):
                        found.append(Seen(entry["at_ns"], entry["event"], *subject))
        return sorted(found)
