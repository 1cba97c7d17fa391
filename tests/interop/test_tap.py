# SPDX-License-Identifier: Apache-2.0
"""`nri-scope tap` between the Go runtime and the Go plugin does not change their messages."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import CreateContainerResponse
from nri_scope.nri.events import RUNTIME_SERVICE
from nri_scope.nri.request_subject import decode_reply
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.interop.build import Variant
from tests.interop.messages import exchanges, normal
from tests.interop.reference import (
    PATIENCE,
    SIZES,
    STATE,
    Played,
    ReferencePlugin,
    ReferenceRuntime,
    Request,
    read_requests,
)

LIFECYCLES = amount(1000, 100)
COMMAND = Path(sys.executable).with_name("nri-scope")


@asynccontextmanager
async def tap(listen: Path, socket: Path, output: Path, *options: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        COMMAND, "tap", f"--listen={listen}", f"--socket={socket}", f"--output={output}", *options,
        stderr=PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        await asyncio.wait_for(process.stderr.readline(), PATIENCE)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def stopped(process: Process) -> None:
    """Stop the tap and check its exit status."""
    process.send_signal(signal.SIGINT)
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, errors.decode()


@dataclass(frozen=True)
class Seen:
    """Requests and replies of a run, at both ends."""

    played: Played
    sent: list[Request]
    received: list[Request]
    plugin_reports: list[Mapping[str, object]]

    @property
    def results(self) -> list[tuple[str, bytes, str, int, int]]:
        """Replies to the runtime. Requests are omitted, as they contain timestamps."""
        return [
            (one.method, reply(one), one.error, one.status, one.message_bytes)
            for one in self.sent
            if one.method != "Configure"
        ]


def reply(one: Request) -> bytes:
    """The reply with sorted maps."""
    message = decode_reply(one.method, one.reply)
    assert message is not None
    return message.SerializeToString(deterministic=True)


async def run(
    variant: Variant, folder: Path, *, tapped: bool, state: int = 0, **play: object
) -> Seen:
    """Play to a plugin that adjusts containers; with a tap the recording is ``folder/r.db``."""
    name = "tapped" if tapped else "untapped"
    socket, tap_socket = folder / f"{name}.sock", folder / "tap.sock"
    sent, received = folder / f"{name}.sent", folder / f"{name}.received"
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(
            await ReferenceRuntime.listen(socket, variant, sent=sent, state=state)
        )
        process = None
        if tapped:
            process = await stack.enter_async_context(tap(tap_socket, socket, folder / "r.db"))
        plugin = await stack.enter_async_context(
            await ReferencePlugin.connect(
                tap_socket if tapped else socket,
                variant,
                requests=received,
                annotation="seen.example.com",
                env="SEEN",
            )
        )
        await runtime.admit()
        played = await runtime.play(**play)  # type: ignore[arg-type]
        await runtime.stop()
        await plugin.ended()
        if process is not None:
            await stopped(process)
        return Seen(played, read_requests(sent), read_requests(received), plugin.reports)


def check(with_tap: Seen, without: Seen, recording: Path) -> None:
    """Check that both ends got the same messages without the tap, and that all are recorded."""
    assert with_tap.played.errors == without.played.errors == ()
    assert with_tap.played.requests == without.played.requests
    assert with_tap.results == without.results
    assert exchanges(with_tap.received) == exchanges(with_tap.sent)
    # Messages that are too long were not sent.
    sent = [one for one in with_tap.sent if not one.error]
    assert [one.reply for one in with_tap.received] == [one.reply for one in sent]
    with Recording.open(recording) as recorded:
        (session,) = recorded.sessions()
        assert (session.role, session.plugin) == ("tap", "10-reference")
        assert session.end_reason == "the runtime closed the connection"
        assert recorded.gaps() == []
        assert recorded.notes() == []
        events = [event for event in recorded.events() if event.method != "RegisterPlugin"]
        assert all(event.took_ns > 0 for event in events)
        assert all(event.status == "ok" for event in events)
        assert [
            (
                event.method,
                normal(event.method, recorded.request(event.id)),
                recorded.reply(event.id),
                event.timeout_ns,
            )
            for event in events
        ] == [
            (one.method, normal(one.method, one.request), one.reply, one.timeout_ns) for one in sent
        ]
        (number,) = recorded.rows("SELECT count(*) FROM tapped WHERE held_ns > 0")[0]
        assert number == len(events) + 1


@pytest.mark.parametrize("variant", [Variant.NRI_0_12], indirect=True)
async def test_many_lifecycles_are_unchanged_by_the_tap(variant: Variant, folder: Path) -> None:
    without = await run(variant, folder, tapped=False, lifecycles=LIFECYCLES)
    with_tap = await run(variant, folder, tapped=True, lifecycles=LIFECYCLES)
    assert with_tap.played.requests == 11 * LIFECYCLES
    changed = [
        CreateContainerResponse.FromString(one.reply)
        for one in with_tap.sent
        if one.method == "CreateContainer"
    ]
    assert all("seen.example.com" in one.adjust.annotations for one in changed)
    check(with_tap, without, folder / "r.db")


# The other version is covered by the test above.
@pytest.mark.parametrize("variant", [Variant.NRI_0_8], indirect=True)
async def test_messages_of_any_length_and_a_split_state_are_unchanged(
    variant: Variant, folder: Path
) -> None:
    play = {"sizes": SIZES, "state": STATE}
    without = await run(variant, folder, tapped=False, **play)  # type: ignore[arg-type]
    with_tap = await run(variant, folder, tapped=True, **play)  # type: ignore[arg-type]
    check(with_tap, without, folder / "r.db")


async def test_requests_of_the_plugin_are_recorded_as_events(
    variant: Variant, folder: Path, socket: Path
) -> None:
    output, tap_socket = folder / "r.db", folder / "tap.sock"
    async with (
        await ReferenceRuntime.listen(socket, variant) as runtime,
        tap(tap_socket, socket, output) as process,
        await ReferencePlugin.connect(tap_socket, variant) as plugin,
    ):
        await runtime.admit()
        await plugin.update("4711")
        await runtime.stop()
        await plugin.ended()
        await stopped(process)
    with Recording.open(output) as recorded:
        asked = [event for event in recorded.events() if event.method in
                 ("RegisterPlugin", "UpdateContainers")]  # fmt: skip
        assert [event.method for event in asked] == ["RegisterPlugin", "UpdateContainers"]
        assert [event.mark for event in asked] == ["", ""]
        services = recorded.rows(
            "SELECT DISTINCT n.text FROM event AS e JOIN name AS n ON n.id = e.service"
        )
        assert services == [(RUNTIME_SERVICE,)]
