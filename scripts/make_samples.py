# SPDX-License-Identifier: Apache-2.0
"""Make the bundles in ``recordings/`` again: small scenes from real runtimes, redacted.

As root on Debian, with ``runc`` and ``busybox-static`` installed::

    .venv/bin/python -m scripts.make_samples                  # all of them
    .venv/bin/python -m scripts.make_samples conflict cri-o   # those with one of these words

Scenes (`scripts.scenes`) are played on each containerd that can be had; captures of other runtimes
(``tests/data/captures``) are converted. Whatever is made is recorded in a temporary folder, and
only what `nri-scope export --redact` makes of it is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nri_scope.recording.reader import Recording
from scripts.captures import record_capture
from scripts.make_recordings import FOLDER, leave_host_name
from scripts.scenes import SCENES
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.packages import (
    SUITES,
    SeriesUnavailable,
    TestbedError,
    check_machine,
    containerd_binaries,
)
from tests.runtime.testbed.record import command
from tests.runtime.testbed.workload import SECRET

SIZE_MAX = 100_000
"""Bytes of a bundle."""

CAPTURES = {"containerd-2.4": "containerd-2.4-beta", "cri-o-1.37": "cri-o-1.37"}
"""Bundles of what other runtimes sent to a chain of five plugins, by the capture's name."""

CHAIN = (
    "What the runtime sent to five plugins: three that only watch, and two that adjust containers. "
    "A sixth one, at index 20, was not captured."
)


@dataclass(frozen=True)
class Sample:
    """One bundle."""

    name: str
    note: str
    """What it shows; goes into the bundle."""
    record: Callable[[Path], None]
    """Makes the recording. Raises TestbedError."""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.nriscope.zip"

    def make(self, folder: Path) -> None:
        """Record and pack it, in place of the one that is there."""
        recording = folder / f"{self.name}.nriscope.db"
        bundle = folder / self.path.name
        self.record(recording)
        pack(recording, bundle, self.note)
        check(bundle)
        self.path.write_bytes(bundle.read_bytes())
        print(f"{self.path.name}: {self.path.stat().st_size} bytes")


def pack(recording: Path, bundle: Path, note: str) -> None:
    """Pack by our own command, as any user would."""
    done = subprocess.run(
        [command(), "export", recording, "-o", bundle, "--redact", "--note", note],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TestbedError(f"export: {done.stderr.strip()}")


def check(bundle: Path) -> None:
    """Nothing large, and nothing secret. `export` has looked for every value that it replaced."""
    size = bundle.stat().st_size
    if size > SIZE_MAX:
        raise TestbedError(f"{bundle.name} has {size} bytes, at most {SIZE_MAX} are wanted")
    with Recording.open(bundle) as recording:
        for event, request, reply in recording.exchanges():
            if SECRET.encode() in request + reply:
                raise TestbedError(f"{bundle.name}: {SECRET} is in event {event.id}")


def samples() -> list[Sample]:
    """All that there are."""
    found = [
        Sample(f"containerd-{series}-{name}", _first_line(scene.__doc__), _played(series, name))
        for series in SUITES
        for name, scene in SCENES.items()
    ]
    return [*found, *(Sample(name, CHAIN, _converted(of)) for name, of in CAPTURES.items())]


def _played(series: str, scene: str) -> Callable[[Path], None]:
    async def play(file: Path) -> None:
        async with running(containerd_binaries(series), registration="5s") as containerd:
            await SCENES[scene](containerd, file)

    return lambda file: asyncio.run(play(file))


def _converted(capture: str) -> Callable[[Path], None]:
    return partial(record_capture, capture)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def main() -> int:
    """Make the samples that are asked for; returns the exit status."""
    parser = argparse.ArgumentParser(description="Make the bundles in recordings/ again.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="in the names of those to make")
    words: list[str] = parser.parse_args().words
    chosen = [one for one in samples() if not words or any(word in one.name for word in words)]
    if not chosen:
        parser.error(f"no sample has {' or '.join(words)} in its name")
    try:
        check_machine()
        leave_host_name()
        for sample in chosen:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    sample.make(Path(folder))
                except SeriesUnavailable as error:
                    print(f"skipped: {sample.name}: {error}", file=sys.stderr)
    except TestbedError as error:
        print(f"make_samples: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
