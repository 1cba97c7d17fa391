# SPDX-License-Identifier: Apache-2.0
"""Plain sockets: those that come to a path, and those that go to one."""

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


async def test_both_ends_are_plain_sockets_that_do_not_block(path: Path) -> None:
    door = ListeningSocket(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    accepting = asyncio.ensure_future(door.accept())
    ours = await connect_socket(path)
    theirs = await accepting
    door.close()
    with ours, theirs:
        assert not ours.getblocking() and not theirs.getblocking()
        ours.send(b"hello")
        assert await asyncio.get_running_loop().sock_recv(theirs, 10) == b"hello"
    assert not path.exists()


async def test_only_a_path_that_is_free_or_left_behind_is_taken(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    door = ListeningSocket(path)
    with pytest.raises(ConnectError, match="another process listens there already"):
        ListeningSocket(path)
    door.close()
    path.write_text("a letter")
    with pytest.raises(ConnectError, match="no socket is there already"):
        ListeningSocket(path)
    assert path.read_text() == "a letter"


async def test_another_socket_that_took_the_path_is_left_there(path: Path) -> None:
    door = ListeningSocket(path)
    path.unlink()
    other = ListeningSocket(path)
    door.close()
    (await connect_socket(path)).close()
    other.close()
    assert not path.exists()


async def test_whom_nobody_can_be_connected_to_is_told(path: Path) -> None:
    with pytest.raises(ConnectError) as missing:
        await connect_socket(path)
    assert missing.value.may_come
    path.write_text("")
    with pytest.raises(ConnectError, match="not a socket") as wrong:
        await connect_socket(path)
    assert not wrong.value.may_come
