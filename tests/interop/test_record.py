# SPDX-License-Identifier: Apache-2.0
"""`nri-scope record` under the Go runtime records exactly the sent events."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nri_scope.errors import RecordingError
from nri_scope.nri.events import METHODS
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.interop.build import Variant
from tests.interop.messages import exchanges, normal
from tests.interop.reference import PATIENCE, SIZES, STATE, Played, ReferenceRuntime, read_requests
from tests.interop.traffic import LIFECYCLE

POD_UPDATES = {"UpdatePodSandbox", "PostUpdatePodSandbox"}
LIFECYCLES = amount(1000, 100)
COMMAND = Path(sys.executable).with_name("nri-scope")


@asynccontextmanager
async def record(socket: Path, output: Path, *options: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        COMMAND, "record", f"--socket={socket}", f"--output={output}", *options, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: Process) -> str:
    """Wait for exit status 0 and return stderr."""
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, errors.decode()
    return errors.decode()


def recorded(path: Path) -> list[tuple[str, bytes]]:
    """Method and normal form of every recorded request."""
    with Recording.open(path) as recording:
        return [
            (event.method, normal(event.method, recording.request(event.id)))
            for event in recording.events()
            if event.method in METHODS
        ]


def count(path: Path) -> int:
    """Number of events on disk; 0 if the recording does not exist yet."""
    try:
        with Recording.open(path) as recording:
            return event_range(recording)[1]
    except RecordingError:
        return 0


async def play_to_record(
    variant: Variant, folder: Path, socket: Path, *, state: int = 0, **play: object
) -> Played:
    """Record one session until the runtime ends; files are ``sent`` and ``r.nriscope.db``."""
    async with await ReferenceRuntime.listen(
        socket, variant, sent=folder / "sent", state=state
    ) as runtime:
        async with record(socket, folder / "r.nriscope.db", "--once") as process:
            await runtime.admit()
            played = await runtime.play(**play)  # type: ignore[arg-type]
            await runtime.stop()
            await ended(process)
    return played


async def test_many_lifecycles_are_recorded_as_they_were_sent(
    variant: Variant, folder: Path, socket: Path
) -> None:
    played = await play_to_record(
        variant, folder, socket, lifecycles=LIFECYCLES, env=10, mounts=4, pod_updates=True
    )

    assert (played.failures, played.errors) == (0, ())
    assert recorded(folder / "r.nriscope.db") == exchanges(read_requests(folder / "sent"))
    sent = [item for item in read_requests(folder / "sent") if not item.error]
    with Recording.open(folder / "r.nriscope.db") as recording:
        events = list(recording.events())
        assert sum(gap.lost or 0 for gap in recording.gaps()) == 0
        assert (len(recording.pods()), len(recording.containers())) == (LIFECYCLES, LIFECYCLES)
    assert [event.timeout_ns for event in events] == [item.timeout_ns for item in sent]
    assert [event.size for event in events] == [len(item.request) for item in sent]
    names = [event.event for event in events[2:]]
    first = names[: len(names) // LIFECYCLES]
    assert names == first * LIFECYCLES
    assert [name for name in first if name not in POD_UPDATES] == [one.name for one in LIFECYCLE]


async def test_messages_of_any_length_are_recorded_as_they_were_sent(
    variant: Variant, folder: Path, socket: Path
) -> None:
    played = await play_to_record(variant, folder, socket, sizes=SIZES)

    assert (played.requests, played.failures) == (len(SIZES) * 11, 0)
    assert recorded(folder / "r.nriscope.db") == exchanges(read_requests(folder / "sent"))


async def test_a_split_state_is_recorded_in_parts_and_whole(
    variant: Variant, folder: Path, socket: Path
) -> None:
    played = await play_to_record(variant, folder, socket, state=STATE, lifecycles=1)

    assert played.failures == 0
    sent = exchanges(read_requests(folder / "sent"))
    assert sum(method == "Synchronize" for method, _ in sent) > 1
    assert recorded(folder / "r.nriscope.db") == sent
    with Recording.open(folder / "r.nriscope.db") as recording:
        (session,) = recording.sessions()
        state = recording.state(session.id)
        assert (len(state.pods), len(state.containers)) == (STATE, STATE)


async def test_a_restart_of_the_runtime_begins_a_new_session(
    variant: Variant, folder: Path, socket: Path
) -> None:
    output = folder / "r.nriscope.db"
    sent = []
    async with record(socket, output, "--wait") as process:
        for number in range(2):
            file = folder / f"sent-{number}"
            async with await ReferenceRuntime.listen(socket, variant, sent=file) as runtime:
                await runtime.admit()
                await runtime.play(2)
                await runtime.stop()
            sent += exchanges(read_requests(file))
        process.send_signal(signal.SIGINT)
        await ended(process)

    assert recorded(output) == sent
    with Recording.open(output) as recording:
        first, second = recording.sessions()
        # Events between the sessions are unknown.
        (gap,) = recording.gaps()
        assert gap.lost is None
        assert first.ended_ns is not None
        assert first.ended_ns <= gap.from_ns <= gap.to_ns == second.synced_ns


async def test_a_launched_record_writes_to_its_configured_file(
    variant: Variant, folder: Path, socket: Path
) -> None:
    output = folder / "launched.nriscope.db"
    plugins, config = folder / "plugins", folder / "config"
    plugins.mkdir()
    config.mkdir()
    (plugins / "10-nri-scope").symlink_to(COMMAND)
    (config / "10-nri-scope.conf").write_text(f"output: {output}\n")
    async with await ReferenceRuntime.listen(
        socket, variant, sent=folder / "sent", plugins=plugins, plugin_config=config
    ) as runtime:
        played = await runtime.play(3)
        # The runtime kills its plugins with SIGKILL: events of the last 100 ms may be lost.
        async with asyncio.timeout(PATIENCE):
            while count(output) < played.requests + 2:
                await asyncio.sleep(0.02)
        await runtime.stop()
    # The writer process ends shortly after the killed one.
    async with asyncio.timeout(PATIENCE):
        while output.with_name(f"{output.name}-wal").exists():
            await asyncio.sleep(0.02)

    assert (played.requests, played.failures) == (33, 0)
    assert recorded(output) == exchanges(read_requests(folder / "sent"))
