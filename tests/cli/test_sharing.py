# SPDX-License-Identifier: Apache-2.0
"""What ends a command that writes drafts has it remove them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from signal import Signals

import pytest

from nri_scope.cli.sharing import terminated_kindly

each = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@each
def test_signals_that_end_it_come_as_the_interrupt_key_does(number: Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), terminated_kindly():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@each
def test_one_that_is_ignored_stays_so(number: Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with terminated_kindly():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_IGN
