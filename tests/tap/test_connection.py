# SPDX-License-Identifier: Apache-2.0
"""Messages to the user about an open connection."""

from __future__ import annotations

import asyncio
import socket

import pytest

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest
from nri_scope.nri.methods import RUNTIME_SERVICE
from nri_scope.tap import connection as connection_module
from nri_scope.tap.relay_process import Relays
from nri_scope.wire import Code, Connection
from tests.tap.sink import ListSink


async def test_a_plugin_that_stays_though_it_was_refused_is_told_of(
    monkeypatch: pytest.MonkeyPatch, relays: Relays
) -> None:
    monkeypatch.setattr(connection_module, "REFUSED_S", 0.0)
    told: asyncio.Queue[str] = asyncio.Queue()
    ours, runtime = socket.socketpair()
    theirs, plugin = socket.socketpair()
    tapped = connection_module.Connection(
        relays, ListSink(), None, lambda start: None, say=told.put_nowait
    )
    with runtime, plugin:
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        asking, asked = Connection(serves=1, calls=2), Connection(serves=2, calls=1)
        payload = RegisterPluginRequest(plugin_idx="1x", plugin_name="thing").SerializeToString()
        stream_id = asking.send_request(RUNTIME_SERVICE, "RegisterPlugin", payload)
        plugin.sendall(b"".join(asking.data_to_send()))
        runtime.setblocking(False)
        asked.receive_data(await asyncio.get_running_loop().sock_recv(runtime, 1000))
        asked.events_received()
        asked.send_error(stream_id, Code.UNKNOWN, "no such index")
        runtime.sendall(b"".join(asked.data_to_send()))
        async with asyncio.timeout(10):
            words = await told.get()
        assert "1x-thing: no such index" in words
        assert not relaying.done()
    assert (await relaying).refused == "no such index"
