# SPDX-License-Identifier: Apache-2.0
"""The signals that ask a command to stop, and how they are handled."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Imported by helper processes, some of which do not need asyncio.
    import asyncio

STOP_SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal is gone",
}
"""Signals that stop a command in an orderly way, with their descriptions."""

END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Stop signals that Python does not handle in an orderly way by default."""


@contextmanager
def stop_signals(
    stop: Callable[[int, str], object],
    *,
    again: Callable[[], object] | None = None,
    among: Collection[signal.Signals] = tuple(STOP_SIGNALS),
    loop: asyncio.AbstractEventLoop | None = None,
    ignored_afterwards: bool = False,
) -> Iterator[None]:
    """Call ``stop`` with the number and the description of each stop signal.

    From the second signal on, ``again`` is called instead. Both are called as callbacks of
    ``loop``; without a loop, they are called between any two instructions of the main thread, and
    may raise.

    SIGHUP stays ignored if it was ignored: ``nohup`` relies on this to let a command outlive its
    terminal. SIGINT and SIGTERM do not stay ignored: shells ignore SIGINT for all commands in the
    background, and SIGTERM must end a command in all cases.

    At the end, the former handlers are restored or, with ``ignored_afterwards``, all stop signals
    are ignored from then on, for commands with only bounded work left. Use it in the main thread.
    """
    before = {
        number: former
        for number in among
        if (former := signal.getsignal(number)) is not signal.SIG_IGN or number != signal.SIGHUP
    }
    came = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        first, came = not came, True
        words = STOP_SIGNALS[signal.Signals(number)]
        act = again if again and not first else partial(stop, number, words)
        if loop is None:
            act()
        else:
            loop.call_soon_threadsafe(act)

    # Not the loop's own handlers: removing one briefly restores the default action.
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        if ignored_afterwards:
            ignore_stop_signals()
        else:
            for number, former in before.items():
                signal.signal(number, signal.SIG_DFL if former is None else former)


def ignore_stop_signals() -> None:
    """Ignore all stop signals from now on."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""
    with stop_signals(_interrupt, among=END_SIGNALS):
        yield


def _interrupt(number: int, words: str) -> None:
    raise KeyboardInterrupt
