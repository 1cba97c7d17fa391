# SPDX-License-Identifier: Apache-2.0
"""Signals that ask a command to stop, their handling, and advice about the command's user."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not imported at run time: some helper processes use this module without asyncio.
    import asyncio

STOP_SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal is gone",
}
"""Signals on which a command cleans up and ends, with their descriptions."""

END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Stop signals that by default end Python without cleanup."""


@contextmanager
def stop_signals(
    stop: Callable[[int, str], object],
    *,
    on_repeat: Callable[[], object] | None = None,
    signals: Collection[signal.Signals] = tuple(STOP_SIGNALS),
    loop: asyncio.AbstractEventLoop | None = None,
    ignore_afterwards: bool = False,
) -> Iterator[None]:
    """Call ``stop`` with the number and the description of each stop signal.

    If ``on_repeat`` is given, it is called instead for all signals after the first. Both are called
    as callbacks of ``loop``; without a loop, they are called between any two instructions of the
    main thread, and may raise.

    SIGHUP stays ignored if it was ignored: nohup(1) relies on this to let a command outlive its
    terminal. SIGINT and SIGTERM are handled even if they were ignored: shells ignore SIGINT for all
    commands in the background, and SIGTERM must always end a command.

    On exit, the former handlers are restored; or, with ``ignore_afterwards``, all stop signals are
    ignored until the process ends, for commands with only bounded work left. Must be used in the
    main thread.
    """
    former_handlers = {
        number: former
        for number in signals
        if (former := signal.getsignal(number)) is not signal.SIG_IGN or number != signal.SIGHUP
    }
    is_stopping = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_first, is_stopping = not is_stopping, True
        description = STOP_SIGNALS[signal.Signals(number)]
        callback = on_repeat if on_repeat and not is_first else partial(stop, number, description)
        if loop is None:
            callback()
        else:
            loop.call_soon_threadsafe(callback)

    # The loop's own handlers are not used: removing one briefly restores the default action.
    for number in former_handlers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        if ignore_afterwards:
            ignore_stop_signals()
        else:
            for number, former in former_handlers.items():
                signal.signal(number, signal.SIG_DFL if former is None else former)


@contextmanager
def terminal_stops_refused(
    on_refused: Callable[[], object], loop: asyncio.AbstractEventLoop
) -> Iterator[None]:
    """Do not let a terminal stop this process, for whose replies other processes wait.

    ``on_refused`` is called as a callback of ``loop`` for each ^Z. SIGTTOU, for output from the
    background, is ignored. On exit, both signals are ignored until the process ends: a stopped
    process would not end. Must be used in the main thread.
    """
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGTSTP, lambda number, frame: loop.call_soon_threadsafe(on_refused))
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)


def ignore_stop_signals() -> None:
    """Ignore all stop signals until the process ends."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""
    with stop_signals(_interrupt, signals=END_SIGNALS):
        yield


def _interrupt(_number: int, _description: str) -> None:
    raise KeyboardInterrupt


def root_hint(hint: str) -> str:
    """Return ``hint``, to run something as root; for root, where to look for other causes."""
    if os.geteuid():
        return hint
    # Permission bits do not apply to root.
    return "look for SELinux or AppArmor denials; run it on the node, not in a container"
