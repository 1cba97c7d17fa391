# SPDX-License-Identifier: Apache-2.0
"""Times of a session's events."""

from __future__ import annotations

import pytest

from nri_scope.recorder import wall_clock


def test_clocks_are_compared_without_the_pauses_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The process stands still between the looks, in the first try and in the last one.
    monotonic = iter([100, 9_100, 9_200, 9_210, 9_300, 20_300])
    wall = iter([1_000_000_150, 1_000_009_205, 1_000_009_310])
    monkeypatch.setattr(wall_clock, "monotonic_ns", lambda: next(monotonic))
    monkeypatch.setattr(wall_clock, "time_ns", lambda: next(wall))
    assert wall_clock.wall_offset() == 1_000_000_000
