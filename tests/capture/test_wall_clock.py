# SPDX-License-Identifier: Apache-2.0
"""Offset between the wall clock and the monotonic clock."""

from __future__ import annotations

import pytest

from nri_scope.capture import sink


def test_wall_offset_ignores_readings_with_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The process pauses between two readings in the first and in the last attempt.
    monotonic = iter([100, 9_100, 9_200, 9_210, 9_300, 20_300])
    wall = iter([1_000_000_150, 1_000_009_205, 1_000_009_310])
    monkeypatch.setattr(sink, "monotonic_ns", lambda: next(monotonic))
    monkeypatch.setattr(sink, "time_ns", lambda: next(wall))
    assert sink.wall_offset() == 1_000_000_000
