# SPDX-License-Identifier: Apache-2.0
"""Signals while a replay is prepared, and when its event loop begins and ends."""

from __future__ import annotations

import _socket
import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import cast

import pytest

from nri_scope.cli.chain_options import PlayOptions, played
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.transport.loop import run_interruptibly


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


async def returns() -> int:
    return 1


async def hangs() -> int:
    await asyncio.Event().wait()
    return 1


async def is_hung_up_at_its_end() -> int:
    async def rest() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # The loop cancels tasks that are left when it ends.
            hang_up()

    left = asyncio.create_task(rest())
    await asyncio.sleep(0)
    assert not left.done()
    return 1


def test_a_signal_at_the_start_is_an_interruption_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pair = _socket.socketpair

    def hung_up(*kind: int) -> object:
        # An event loop creates a pair when it begins.
        monkeypatch.undo()
        hang_up()
        return pair(*kind)

    monkeypatch.setattr(_socket, "socketpair", hung_up)
    _assert_interrupted(hangs, capfd)


def test_a_signal_at_the_end_is_an_interruption_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    _assert_interrupted(is_hung_up_at_its_end, capfd)


def _assert_interrupted(
    work: Callable[[], Coroutine[object, object, int]], capfd: pytest.CaptureFixture[str]
) -> None:
    with interrupted_by_signals():
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work)
        # Later work is not affected.
        assert run_interruptibly(returns) == 1
    assert capfd.readouterr().err == ""


def test_a_signal_before_a_replay_removes_the_recording_of_a_scenario(tmp_path: Path) -> None:
    scenario = tmp_path / "pods.yaml"
    scenario.write_text("scenario: 1\npods: {shop/web: {containers: {app: {}}}}\n")
    given = {"file": scenario, "changes": (), "session": None, "profile": "recorded"}
    options = cast("PlayOptions", given)
    with pytest.raises(KeyboardInterrupt), played(options):
        hang_up()
    assert options["file"] != scenario
    assert not options["file"].parent.exists()
