# SPDX-License-Identifier: Apache-2.0
"""Tests of the reference: its runtime with its plugin."""

from __future__ import annotations

from pathlib import Path

from tests.interop.build import Variant
from tests.interop.messages import exchanges
from tests.interop.reference import SIZES, STATE, ReferencePlugin, ReferenceRuntime, read_requests


async def test_the_plugin_receives_the_runtimes_requests(
    variant: Variant, folder: Path, socket: Path
) -> None:
    sent, received = folder / "sent", folder / "received"
    async with (
        await ReferenceRuntime.listen(socket, variant, sent=sent, state=3) as runtime,
        await ReferencePlugin.connect(socket, variant, requests=received) as plugin,
    ):
        await runtime.admit()
        played = await runtime.play(lifecycles=5)
        await runtime.stop()
        await plugin.ended()

    assert played.events == played.requests == 55
    assert played.errors == ()
    # Configure, Synchronize and the events.
    assert len(read_requests(sent)) == 57
    assert exchanges(read_requests(received)) == exchanges(read_requests(sent))


async def test_messages_have_the_requested_length(
    variant: Variant, folder: Path, socket: Path
) -> None:
    sent = folder / "sent"
    async with (
        await ReferenceRuntime.listen(socket, variant, sent=sent) as runtime,
        await ReferencePlugin.connect(socket, variant) as plugin,
    ):
        await runtime.admit()
        played = await runtime.play(sizes=SIZES)
        await runtime.stop()
        await plugin.ended()

    assert played.failures == 0
    lengths = [item.message_bytes for item in read_requests(sent)[2:]]
    assert lengths == [size for size in SIZES for _ in range(11)]


async def test_a_large_state_is_split(variant: Variant, folder: Path, socket: Path) -> None:
    sent = folder / "sent"
    async with (
        await ReferenceRuntime.listen(socket, variant, sent=sent, state=STATE) as runtime,
        await ReferencePlugin.connect(socket, variant) as plugin,
    ):
        await runtime.admit()
        await runtime.stop()
        await plugin.ended()

    synchronized = plugin.last_report("synchronized")
    assert (synchronized["pods"], synchronized["containers"]) == (STATE, STATE)
    parts = [item for item in read_requests(sent) if item.method == "Synchronize"]
    assert len([part for part in parts if not part.error]) > 1
