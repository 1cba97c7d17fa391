# SPDX-License-Identifier: Apache-2.0
"""Stop signals: which ones reach a command, and what is there when it no longer takes them."""

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
def test_signals_that_end_it_come_as_the_interrupt_key_does(number: Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        send(number)
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_by_signals():
        send(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_others_stop_a_command_even_where_they_were_ignored(number: Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    came: list[int] = []
    with stop_signals(lambda number, words: came.append(number)):
        send(number)
    assert came == [number]
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("first", STOP_SIGNALS)
def test_in_a_loop_the_first_stops_and_each_further_one_is_again(
    first: Signals, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    came: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def tell(*what: object) -> None:
            came.append(what)
            told.set()

        with stop_signals(tell, again=lambda: tell("again"), loop=loop):
            for number in (first, *STOP_SIGNALS):
                send(number)
                async with asyncio.timeout(PATIENCE):
                    await told.wait()
                told.clear()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert came == [(first, STOP_SIGNALS[first]), *[("again",)] * len(STOP_SIGNALS)]


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
    with signals.stop_signals(lambda *_: None, loop=loop, ignored_afterwards=True):
        sys.settrace(trace)
        # What was entered before is not traced by itself.
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


def test_at_no_moment_of_leaving_does_one_end_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _AT_EVERY_LINE], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
