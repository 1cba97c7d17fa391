# SPDX-License-Identifier: Apache-2.0
"""Output of plugins is reported with its event, in bounded memory."""

from __future__ import annotations

import pytest

from nri_scope.replay import playback
from nri_scope.replay.playback import ReplayListener, ReplayProgress
from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed

LINE = PrintedLine("10-a", "stdout", "hello", 0)


class Counting(ReplayListener):
    def __init__(self) -> None:
        self.lines: list[int] = []
        self.left_out: list[int] = []
        self.later = 0

    def event(self, played: PlayedEvent) -> None:
        self.lines.append(len(played.output))
        self.left_out.append(played.output_left_out)

    def line(self, line: PrintedLine) -> None:
        self.later += 1


def play_lines(*, keep: bool, events: int, lines: int) -> Counting:
    audience = Counting()
    replaying = ReplayProgress(Replayed("", "", ""), audience, keep)
    for number in range(events):
        replaying.begin(PlayedEvent(number, "StopContainer", "", 0))
        for _ in range(lines - 1):
            replaying.printed(LINE)
        replaying.end()
        replaying.printed(LINE)
    return audience


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "LINES_KEPT", 10)
    monkeypatch.setattr(playback, "LINES_KEPT_IN_ALL", 25)


def test_kept_lines_are_bounded_in_total() -> None:
    reported = play_lines(keep=True, events=5, lines=10)
    assert reported.lines == [9, 9, 5, 0, 0]
    assert reported.left_out == [0, 0, 4, 9, 9]
    assert reported.later == 2


def test_lines_that_are_not_kept_are_unbounded_in_total() -> None:
    reported = play_lines(keep=False, events=5, lines=10)
    assert reported.lines == [9] * 5
    assert reported.left_out == [0] * 5
    assert reported.later == 5


def test_lines_of_one_event_are_bounded() -> None:
    reported = play_lines(keep=False, events=2, lines=14)
    assert (reported.lines, reported.left_out, reported.later) == ([10, 10], [3, 3], 0)


def test_an_event_that_ends_later_is_reported_before_later_lines() -> None:
    reported: list[str] = []

    class Listening(ReplayListener):
        def event(self, played: PlayedEvent) -> None:
            reported.append(f"{played.event} {len(played.output)} {played.logged}")

        def line(self, line: PrintedLine) -> None:
            reported.append(line.text)

    replaying = ReplayProgress(Replayed("", "", ""), Listening())
    first = PlayedEvent(1, "first", "", 0)
    replaying.begin(first)
    replaying.printed(LINE)

    def complete() -> None:
        first.logged = "complete"

    replaying.end_later(complete)
    assert not reported
    replaying.begin(PlayedEvent(2, "second", "", 0))
    assert not reported
    replaying.printed(LINE)
    assert reported == ["first 1 complete"]
    replaying.end()
    replaying.printed(LINE)
    assert reported == ["first 1 complete", "second 1 ", "hello"]
