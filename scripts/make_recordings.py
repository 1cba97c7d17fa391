# SPDX-License-Identifier: Apache-2.0
"""Recreate the recordings in ``recordings/`` with ``nri-scope record`` and a real containerd.

As root on Debian, with ``runc`` and ``busybox-static`` installed::

    .venv/bin/python -m scripts.make_recordings            # all, of every available containerd
    .venv/bin/python -m scripts.make_recordings 1.7
    .venv/bin/python -m scripts.make_recordings demo       # the recording that `demo` plays

Uses the containerd and the workload of the runtime tests.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import socket
import sys
import tempfile
from pathlib import Path

from scripts.scenes import plugin_chain
from tests import sample_names as names
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import (
    SUITES,
    Binaries,
    SeriesUnavailable,
    TestbedError,
    check_machine,
    containerd_binaries,
)
from tests.runtime.testbed.record import recording
from tests.runtime.testbed.workload import checkout_and_report

FOLDER = Path(__file__).parent.parent / "recordings"

SIZE_MAX = 200_000
"""Bytes. Recordings are part of every clone, and two of them of every distribution."""

DEMO, DEMO_SERIES = "demo", "2.1"

HOST_NAME = "node-1"
"""Appears in recordings: containers on the host's network have it in their environment."""

CLONE_NEWUTS = 0x04000000


async def make(binaries: Binaries, file: Path) -> None:
    """Record the workload, with one pod that exists before the recording."""
    async with running(binaries, registration="5s") as containerd:
        driver = Driver(containerd)
        earlier = await driver.run_pod(names.NODE_NAMESPACE, names.NODE_POD)
        await driver.run(earlier, names.EXPORTER)
        async with recording(file, containerd) as record:
            await checkout_and_report(driver, record.saw)
            status = await record.end()
    if status:
        raise TestbedError(f"record ended with status {status}: {' | '.join(record.words)}")
    print(f"{file.name}: {containerd.cri.runtime.version}, {len(record.events)} events")


async def make_demo(binaries: Binaries, file: Path) -> None:
    """Record a chain of six tapped plugins."""
    async with running(binaries, registration="5s") as containerd:
        await plugin_chain(containerd, file)
        print(f"{file.name}: {containerd.cri.runtime.version}")


def main() -> int:
    """Make the selected recordings; return the exit status."""
    parser = argparse.ArgumentParser(description="Record a real containerd at work.")
    names = [*SUITES, DEMO]
    help_text = f"containerd series, or {DEMO}: {', '.join(names)}; default: all"
    parser.add_argument("names", nargs="*", metavar="NAME", help=help_text)
    chosen: list[str] = parser.parse_args().names or names
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"unknown {', '.join(unknown)}; use {', '.join(names)}")
    try:
        check_machine()
        set_host_name()
        with tempfile.TemporaryDirectory() as folder:
            for name in chosen:
                stem = DEMO if name == DEMO else f"containerd-{name}"
                file = Path(folder) / f"{stem}.nriscope.db"
                try:
                    binaries = containerd_binaries(DEMO_SERIES if name == DEMO else name)
                except SeriesUnavailable as error:
                    print(f"skipped: {error}", file=sys.stderr)
                    continue
                asyncio.run((make_demo if name == DEMO else make)(binaries, file))
                _install(file)
    except TestbedError as error:
        print(f"make_recordings: {error}", file=sys.stderr)
        return 1
    return 0


def set_host_name() -> None:
    """Set a neutral host name for this process and its children, as recordings are published."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS):
        raise TestbedError("cannot create a UTS namespace (unshare failed)")
    socket.sethostname(HOST_NAME)


def _install(file: Path) -> None:
    data = file.read_bytes()
    if len(data) > SIZE_MAX:
        raise TestbedError(f"{file.name} has {len(data)} bytes, the limit is {SIZE_MAX}")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / file.name).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
