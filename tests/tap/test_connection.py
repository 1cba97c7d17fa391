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


async def test_a_refused_plugin_that_stays_connected_is_reported(
    monkeypatch: pytest.MonkeyPatch, relays: Relays
) -> None:
    monkeypatch.setattr(connection_module, "REFUSED_S", 0.0)
    messages: asyncio.Queue[str] = asyncio.Queue()
    ours, runtime = socket.socketpair()
    theirs, plugin = socket.socketpair()
    tapped = connection_module.Connection(
        relays, ListSink(), None, lambda start, policy: None, say=messages.put_nowait
    )
    with runtime, plugin:
        relaying = asyncio.create_task(tapped.relay(ours, theirs))
        plugin_end, runtime_end = Connection(serves=1, calls=2), Connection(serves=2, calls=1)
        payload = RegisterPluginRequest(plugin_idx="1x", plugin_name="thing").SerializeToString()
        stream_id = plugin_end.send_request(RUNTIME_SERVICE, "RegisterPlugin", payload)
        plugin.sendall(b"".join(plugin_end.data_to_send()))
        runtime.setblocking(False)
        runtime_end.receive_data(await asyncio.get_running_loop().sock_recv(runtime, 1000))
        runtime_end.events_received()
        runtime_end.send_error(stream_id, Code.UNKNOWN, "no such index")
        runtime.sendall(b"".join(runtime_end.data_to_send()))
        async with asyncio.timeout(10):
            message = await messages.get()
        assert "1x-thing: no such index" in message
        assert not relaying.done()
    assert (await relaying).refused == "no such index"
