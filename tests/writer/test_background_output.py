# SPDX-License-Identifier: Apache-2.0
"""Background output that blocks, fails or is closed does not delay its callers."""

from __future__ import annotations

import threading
import time

import pytest

from nri_scope.writer.background_output import Background


def test_close_writes_all_items_in_order_and_flushes() -> None:
    written: list[int] = []
    flushes: list[int] = []
    output = Background[int](written.append, flush=lambda: flushes.append(len(written)))
    for number in range(500):
        output.put(number)
    output.close()
    assert written == list(range(500))
    assert flushes[-1] == 500


def test_blocked_output_counts_skipped_items() -> None:
    resume, started = threading.Event(), threading.Event()
    written: list[str] = []

    def write(item: str) -> None:
        started.set()
        resume.wait(30)
        written.append(item)

    output = Background[str](
        write, skipped=lambda count: written.append(f"{count} skipped"), waiting_max=3
    )
    output.put("first")
    started.wait(30)
    for number in range(10):
        output.put(str(number))
    resume.set()
    output.close()
    assert written == ["first", "0", "1", "2", "7 skipped"]


def test_close_stops_waiting_for_blocked_output_after_its_timeout() -> None:
    never = threading.Event()

    def write(item: str) -> None:
        never.wait(60)

    output = Background[str](write)
    output.put("x")
    began = time.monotonic()
    output.close(timeout=0.05)
    assert time.monotonic() - began < 30
    never.set()


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "full"), ValueError("closed")])
def test_failed_output_is_not_written_again(error: Exception) -> None:
    calls: list[str] = []

    def write(item: str) -> None:
        calls.append(item)
        raise error

    output = Background[str](write)
    output.put("a")
    output.close()
    output.put("b")
    assert calls == ["a"]
