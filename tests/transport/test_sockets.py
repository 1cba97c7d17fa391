# SPDX-License-Identifier: Apache-2.0
"""Plain sockets: listening on a path and connecting to one."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from nri_scope.errors import ConnectError
from nri_scope.transport.sockets import ListeningSocket, connect_socket


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.sock"


async def test_both_ends_are_plain_non_blocking_sockets(path: Path) -> None:
    listening = ListeningSocket(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    accepting = asyncio.ensure_future(listening.accept())
    ours = await connect_socket(path)
    theirs = await accepting
    listening.close()
    with ours, theirs:
        assert not ours.getblocking() and not theirs.getblocking()
        ours.send(b"hello")
        assert await asyncio.get_running_loop().sock_recv(theirs, 10) == b"hello"
    assert not path.exists()


async def test_only_a_free_path_or_a_stale_socket_is_used(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listening = ListeningSocket(path)
    with pytest.raises(ConnectError, match="another process already listens here"):
        ListeningSocket(path)
    listening.close()
    path.write_text("a letter")
    with pytest.raises(ConnectError, match="exists and is not a socket"):
        ListeningSocket(path)
    assert path.read_text() == "a letter"


async def test_another_socket_at_the_path_is_not_removed(path: Path) -> None:
    listening = ListeningSocket(path)
    path.unlink()
    other = ListeningSocket(path)
    listening.close()
    (await connect_socket(path)).close()
    other.close()
    assert not path.exists()


async def test_a_failed_connection_is_reported_with_its_reason(path: Path) -> None:
    with pytest.raises(ConnectError) as missing:
        await connect_socket(path)
    assert missing.value.can_retry
    path.write_text("")
    with pytest.raises(ConnectError, match="not a socket") as wrong:
        await connect_socket(path)
    assert not wrong.value.can_retry
