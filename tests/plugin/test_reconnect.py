# SPDX-License-Identifier: Apache-2.0
"""Reconnection and its pauses."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path

import pytest

from nri_scope.errors import ConnectError, NriScopeError, RpcError
from nri_scope.plugin import ABSENT_POLL, Backoff, SessionEnd, keep_connected
from nri_scope.transport.sockets import ListeningSocket, connect_socket

END = SessionEnd("closed by the peer", configured=True, synchronized=True)
GONE = ConnectError("/run/nri.sock", "no such socket", can_retry=True)
NO_SOCKET = ConnectError("/etc/passwd", "not a socket")
REFUSED = RpcError(3, "no")
SHORT_PAUSES = Backoff(first=0.0001, longest=0.0001, absent=0.0001)


class Script:
    """Sessions with the outcomes that a test lists."""

    def __init__(self, *outcomes: SessionEnd | NriScopeError) -> None:
        self.outcomes = list(outcomes)
        self.ends = 0
        self.waits: list[str] = []

    async def run_session(self) -> SessionEnd:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, NriScopeError):
            raise outcome
        self.ends += 1
        return outcome

    async def play(self, *, wait: bool = False) -> None:
        await keep_connected(
            self.run_session,
            wait=wait,
            once=False,
            stopping=lambda: not self.outcomes,
            backoff=SHORT_PAUSES,
            on_wait=lambda error: self.waits.append(str(error)),
        )


async def test_first_failure_is_raised_without_wait() -> None:
    with pytest.raises(ConnectError):
        await Script(GONE, END).play()
    for error in (REFUSED, NO_SOCKET):
        with pytest.raises(type(error)):
            await Script(error, END).play(wait=True)
    script = Script(GONE, GONE, END)
    await script.play(wait=True)
    assert (script.ends, len(script.waits)) == (1, 1)


async def test_absent_runtime_after_a_session_is_reported_once_per_wait() -> None:
    script = Script(END, GONE, GONE, END, GONE, END)
    await script.play()
    assert (script.ends, len(script.waits)) == (3, 2)


async def test_rejection_after_a_session_is_retried() -> None:
    script = Script(END, REFUSED, END)
    await script.play()
    assert (script.ends, len(script.waits)) == (2, 1)


async def test_failure_while_stopping_ends_the_loop() -> None:
    script = Script(GONE)
    await script.play()
    assert script.waits == []


def test_pauses_grow_to_a_limit_and_are_reset_after_a_healthy_session() -> None:
    backoff = Backoff(first=0.1, longest=1, healthy=10)
    assert [backoff.pause(0.5) for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    assert backoff.pause(11) == pytest.approx(0.1)
    assert backoff.pause(0) == pytest.approx(0.2)


class Pauses(Backoff):
    """Backoff that records the requested pauses, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_s: list[float] = []

    def pause(self, lasted: float) -> float:
        self.pauses_s.append(super().pause(lasted))
        return 0

    def poll(self) -> float:
        self.pauses_s.append(super().poll())
        return 0


async def test_absent_runtime_is_polled_at_a_constant_interval() -> None:
    """Check that only pauses after other failures grow."""
    pauses = Pauses()
    script = Script(END, *[GONE] * 20, REFUSED, REFUSED, REFUSED, GONE, REFUSED, END)
    await keep_connected(
        script.run_session,
        wait=False,
        once=False,
        stopping=lambda: not script.outcomes,
        backoff=pauses,
    )
    assert pauses.pauses_s == pytest.approx(
        [0.1, *[ABSENT_POLL] * 20, 0.1, 0.2, 0.4, ABSENT_POLL, 0.1]
    )
    assert ABSENT_POLL <= 0.15


async def test_runtime_is_found_after_its_folder_was_replaced(tmp_path: Path) -> None:
    """Check a missing folder, a new folder, a left-over socket, and several restarts."""
    folder, deep = tmp_path / "run", tmp_path / "run" / "nri"
    path = deep / "nri.sock"
    sessions = 0
    stopping = False

    async def session() -> SessionEnd:
        nonlocal sessions
        (await connect_socket(path)).close()
        sessions += 1
        return END

    connecting = asyncio.create_task(
        keep_connected(
            session,
            wait=True,
            once=False,
            stopping=lambda: stopping,
            backoff=Backoff(first=0.001, longest=0.001, absent=0.001),
        )
    )
    async with asyncio.timeout(30):
        for number in range(4):
            await asyncio.sleep(0.01)
            deep.mkdir(parents=True)
            if number == 3:
                left_over = socket.socket(socket.AF_UNIX)
                left_over.bind(str(path))
                left_over.close()
                await asyncio.sleep(0.01)
            listening = ListeningSocket(path)
            before = sessions
            while sessions == before:
                await asyncio.sleep(0.001)
            listening.close()
            shutil.rmtree(folder)
        stopping = True
        await connecting
