# SPDX-License-Identifier: Apache-2.0
"""Recreate the bundles in ``recordings/``: small redacted scenes from real runtimes.

As root on Debian, with ``runc`` and ``busybox-static`` installed::

    .venv/bin/python -m scripts.make_samples                  # all bundles
    .venv/bin/python -m scripts.make_samples conflict cri-o   # names with one of these words

Scenes (`scripts.scenes`) are played on each available containerd, others
(`scripts.docker_scenes`) on a Docker Engine; captures of other runtimes (``tests/data/captures``)
are converted. Recordings are written to a temporary folder, and only
the output of `nri-scope export --redact` is stored.
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

from nri_scope.recording.reading.reader import Recording
from scripts import docker_scenes
from scripts.captures import record_capture
from scripts.make_recordings import FOLDER, set_host_name
from scripts.scenes import SCENES
from tests.docker.engine import running as running_engine
from tests.docker.programs import programs
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
"""Maximum size of a bundle in bytes."""

CHAIN = (
    "Requests of the runtime to five plugins: three passive ones, and two that adjust containers. "
)
WITHOUT_20 = f"{CHAIN}A sixth plugin, at index 20, was not captured."
CRASH = f"{CHAIN}The recording ends with the crash of the runtime at UpdateContainer."

CAPTURES = {
    "containerd-2.4": ("containerd-2.4-beta", WITHOUT_20),
    "cri-o-1.37": ("cri-o-1.37", WITHOUT_20),
    "isulad-2.1": ("isulad", CRASH),
}
"""Bundles made from captures of other runtimes with five plugins: the capture's name, the note."""


@dataclass(frozen=True)
class Sample:
    """A bundle to make."""

    name: str
    note: str
    """Description, stored in the bundle."""
    record: Callable[[Path], None]
    """Function that writes the recording. Raises TestbedError."""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.nriscope.zip"

    def make(self, folder: Path) -> None:
        """Record and pack the bundle, replacing an existing one."""
        recording = folder / f"{self.name}.nriscope.db"
        bundle = folder / self.path.name
        self.record(recording)
        pack(recording, bundle, self.note)
        check(bundle)
        self.path.write_bytes(bundle.read_bytes())
        print(f"{self.path.name}: {self.path.stat().st_size} bytes")


def pack(recording: Path, bundle: Path, note: str) -> None:
    """Pack a recording with the `export` command, like any user."""
    done = subprocess.run(
        [command(), "export", recording, "-o", bundle, "--redact", "--note", note],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TestbedError(f"export: {done.stderr.strip()}")


def check(bundle: Path) -> None:
    """Check the size of a bundle, and that no message contains the workload's secret.

    `export` has searched the bundle for all other replaced values. Raises TestbedError.
    """
    size = bundle.stat().st_size
    if size > SIZE_MAX:
        raise TestbedError(f"{bundle.name} has {size} bytes, the limit is {SIZE_MAX}")
    with Recording.open(bundle) as recording:
        for event, request, reply in recording.exchanges():
            if SECRET.encode() in request + reply:
                raise TestbedError(f"{bundle.name}: event {event.id} contains {SECRET}")


def samples() -> list[Sample]:
    """Return all samples: each scene for each series of containerd, and the captures."""
    scenes = [
        Sample(f"containerd-{series}-{name}", _first_line(scene.__doc__), _played(series, name))
        for series in SUITES
        for name, scene in SCENES.items()
    ]
    captures = [
        Sample(name, note, _converted(capture)) for name, (capture, note) in CAPTURES.items()
    ]
    docker = [
        Sample(f"docker-29.2-{name}", _first_line(scene.__doc__), _played_by_docker(name))
        for name, scene in docker_scenes.SCENES.items()
    ]
    return [*scenes, *captures, *docker]


def _played(series: str, scene: str) -> Callable[[Path], None]:
    async def play(file: Path) -> None:
        async with running(containerd_binaries(series), registration="5s") as containerd:
            await SCENES[scene](containerd, file)

    return lambda file: asyncio.run(play(file))


def _played_by_docker(scene: str) -> Callable[[Path], None]:
    def play(file: Path) -> None:
        with running_engine(programs()) as engine:
            asyncio.run(docker_scenes.SCENES[scene](engine, file))

    return play


def _converted(capture: str) -> Callable[[Path], None]:
    return partial(record_capture, capture)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def main() -> int:
    """Make the selected samples; return the exit status."""
    parser = argparse.ArgumentParser(description="Recreate the bundles in recordings/.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="make bundles with it in the name")
    words: list[str] = parser.parse_args().words
    chosen = [one for one in samples() if not words or any(word in one.name for word in words)]
    if not chosen:
        parser.error(f"no sample name contains {' or '.join(words)}")
    try:
        check_machine()
        set_host_name()
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
