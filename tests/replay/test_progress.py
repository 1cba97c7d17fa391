# SPDX-License-Identifier: Apache-2.0
"""What plugins print is told with its event, and takes only so much memory."""

from __future__ import annotations

import pytest

from nri_scope.replay import progress
from nri_scope.replay.progress import Audience, ReplayProgress
from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed

LINE = PrintedLine("10-a", "stdout", "hello", 0)


class Counting(Audience):
    def __init__(self) -> None:
        self.lines: list[int] = []
        self.left_out: list[int] = []
        self.later = 0

    def event(self, played: PlayedEvent) -> None:
        self.lines.append(len(played.output))
        self.left_out.append(played.output_left_out)

    def line(self, line: PrintedLine) -> None:
        self.later += 1


def tell(*, keep: bool, events: int, lines: int) -> Counting:
    audience = Counting()
    one = ReplayProgress(Replayed("", "", ""), audience, keep)
    for number in range(events):
        one.begin(PlayedEvent(number, "StopContainer", "", 0))
        for _ in range(lines - 1):
            one.printed(LINE)
        one.end()
        one.printed(LINE)
    return audience


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINES_KEPT", 10)
    monkeypatch.setattr(progress, "LINES_KEPT_IN_ALL", 25)


def test_lines_that_are_kept_are_bounded_in_all() -> None:
    told = tell(keep=True, events=5, lines=10)
    assert told.lines == [9, 9, 5, 0, 0]
    assert told.left_out == [0, 0, 4, 9, 9]
    assert told.later == 2


def test_lines_that_are_forgotten_take_no_room() -> None:
    told = tell(keep=False, events=5, lines=10)
    assert told.lines == [9] * 5
    assert told.left_out == [0] * 5
    assert told.later == 5


def test_lines_of_one_event_are_bounded() -> None:
    told = tell(keep=False, events=2, lines=14)
    assert (told.lines, told.left_out, told.later) == ([10, 10], [3, 3], 0)


def test_an_event_that_ends_later_is_told_before_what_follows() -> None:
    told: list[str] = []

    class Listening(Audience):
        def event(self, played: PlayedEvent) -> None:
            told.append(f"{played.event} {len(played.output)} {played.logged}")

        def line(self, line: PrintedLine) -> None:
            told.append(line.text)

    one = ReplayProgress(Replayed("", "", ""), Listening())
    first = PlayedEvent(1, "first", "", 0)
    one.begin(first)
    one.printed(LINE)

    def complete() -> None:
        first.logged = "complete"

    one.end_later(complete)
    assert not told
    one.begin(PlayedEvent(2, "second", "", 0))
    assert not told
    one.printed(LINE)
    assert told == ["first 1 complete"]
    one.end()
    one.printed(LINE)
    assert told == ["first 1 complete", "second 1 ", "hello"]
