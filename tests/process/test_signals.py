# SPDX-License-Identifier: Apache-2.0
"""Stop signals: which of them reach a command, and how they are handled afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from signal import Signals

import pytest

from nri_scope.process.signals import (
    END_SIGNALS,
    STOP_SIGNALS,
    interrupted_by_signals,
    stop_signals,
)
from tests.loops import pytest_asyncio_loop_factories

PATIENCE = 60
LOOPS = pytest_asyncio_loop_factories()

each = pytest.mark.parametrize("number", END_SIGNALS)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@each
def test_end_signals_raise_keyboard_interrupt(number: Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        send(number)
    assert signal.getsignal(number) is before


def test_an_ignored_hangup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_by_signals():
        send(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_other_signals_stop_a_command_even_if_they_were_ignored(number: Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    calls: list[int] = []
    with stop_signals(lambda number, description: calls.append(number)):
        send(number)
    assert calls == [number]
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("first", STOP_SIGNALS)
def test_all_signals_after_the_first_call_on_repeat(
    first: Signals, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    calls: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        called = asyncio.Event()

        def call(*arguments: object) -> None:
            calls.append(arguments)
            called.set()

        with stop_signals(call, on_repeat=lambda: call("repeat"), loop=loop):
            for number in (first, *STOP_SIGNALS):
                send(number)
                async with asyncio.timeout(PATIENCE):
                    await called.wait()
                called.clear()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert calls == [(first, STOP_SIGNALS[first]), *[("repeat",)] * len(STOP_SIGNALS)]


_AT_EVERY_LINE = """
import asyncio, os, signal, sys
from nri_scope.process import signals
from nri_scope.transport.loop import run

def trace(frame, event, _):
    if frame.f_code.co_filename != signals.__file__:
        return None
    if event == "line":
        os.kill(os.getpid(), signal.SIGTERM)
        sent.append(frame.f_lineno)
    return trace

async def main():
    loop = asyncio.get_running_loop()
    with signals.stop_signals(lambda *_: None, loop=loop, ignore_afterwards=True):
        sys.settrace(trace)
        # Frames entered before settrace are only traced if f_trace is set.
        for one in handled:
            one.f_trace = trace
    sys.settrace(None)

sent, handled = [], []
enter = signals.stop_signals.__wrapped__

def traced(*arguments, **options):
    generator = enter(*arguments, **options)
    handled.append(generator.gi_frame)
    return generator

signals.stop_signals = signals.contextmanager(traced)
run(main())
os.kill(os.getpid(), signal.SIGTERM)
print(len(sent) > 3)
"""


def test_no_signal_during_the_exit_of_the_context_ends_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _AT_EVERY_LINE], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
