# SPDX-License-Identifier: Apache-2.0
"""Counts, durations, sizes and times as text."""

from __future__ import annotations

import time

import pytest

from nri_scope.text import quantities
from tests.recording.made import START


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0ns"),
        (999, "999ns"),
        (91_234, "91µs"),
        (52_999, "52µs"),
        (999_999, "999µs"),
        (1_000_000, "1.00ms"),
        (3_400_000, "3.40ms"),
        (9_999_999, "9.99ms"),
        (99_990_000, "99.9ms"),
        (100_000_000, "100ms"),
        (2_100_000_000, "2.10s"),
        (60_000_000_000, "1m00s"),
        (3_661_000_000_000, "1h01m"),
        (90_000_000_000_000, "1d01h"),
    ],
)
def test_durations_have_three_digits(ns: int, text: str) -> None:
    assert quantities.duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (4198, "4.10 KiB"), (5 << 30, "5.00 GiB")],
)
def test_sizes_have_binary_units(count: int, text: str) -> None:
    assert quantities.size(count) == text


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    quantities._local.cache_clear()
    try:
        assert quantities.moment(START) == "2025-11-21 02:48:00 +05:30"
        assert quantities.clock(START + 7_000_000) == "02:48:00.007"
    finally:
        monkeypatch.undo()
        time.tzset()
        quantities._local.cache_clear()
