# SPDX-License-Identifier: Apache-2.0
"""The window of time that the timeline shows."""

from __future__ import annotations

from dataclasses import dataclass

MIN_SPAN = 10_000
"""Minimum length of a window, in ns. Exceeds the number of columns, so that each column has its own
time."""
_MARGIN = 50
"""Divisor of the whole time that gives the margin at both ends."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The drawn time, from ``from_ns`` to ``to_ns`` (exclusive)."""

    from_ns: int
    to_ns: int

    @classmethod
    def around(cls, first_ns: int, last_ns: int) -> TimeWindow:
        """Return a window that contains ``first_ns`` to ``last_ns`` (inclusive), with a margin."""
        margin = max((last_ns - first_ns) // _MARGIN, MIN_SPAN)
        return cls(first_ns - margin, last_ns + margin)

    @property
    def span(self) -> int:
        """Length in ns."""
        return self.to_ns - self.from_ns

    def column(self, at_ns: int, width: int) -> int:
        """Return the column of a time; negative or at least ``width`` if outside the window."""
        return (at_ns - self.from_ns) * width // self.span

    def start(self, column: int, width: int) -> int:
        """Return the start time of a column."""
        return self.from_ns - (-column * self.span // width)

    def middle(self, column: int, width: int) -> int:
        """Return the time in the middle of a column."""
        return (self.start(column, width) + self.start(column + 1, width)) // 2

    def zoomed(self, whole: TimeWindow, around_ns: int, *, closer: bool) -> TimeWindow:
        """Halve (``closer``) or double the window within ``whole``, around ``around_ns``."""
        span = max(MIN_SPAN, self.span // 2) if closer else min(whole.span, self.span * 2)
        return TimeWindow(
            from_ns := around_ns - (around_ns - self.from_ns) * span // self.span,
            from_ns + span,
        ).within(whole)

    def moved(self, whole: TimeWindow, by_ns: int) -> TimeWindow:
        """Return the window moved by ``by_ns``, within ``whole``."""
        return TimeWindow(self.from_ns + by_ns, self.to_ns + by_ns).within(whole)

    def moved_to(self, whole: TimeWindow, at_ns: int) -> TimeWindow:
        """Return the window moved within ``whole`` to show a time outside.

        It is moved by half its length to a time shortly after it, for orientation; otherwise, the
        time is in its middle.
        """
        near = self.to_ns <= at_ns < self.to_ns + self.span
        moved = self.moved(whole, self.span // 2 if near else 0)
        return (
            moved
            if moved.shows(at_ns)
            else self.moved(whole, at_ns - self.from_ns - self.span // 2)
        )

    def rounded(self) -> TimeWindow:
        """Return the window with limits of four digits of its length, at least as long."""
        step = 10 ** max(0, len(str(self.span)) - 4)
        return TimeWindow(max(0, self.from_ns // step * step), -(-self.to_ns // step) * step)

    def within(self, whole: TimeWindow) -> TimeWindow:
        """Return the window moved into ``whole``, and shortened if longer."""
        span = min(self.span, whole.span)
        from_ns = min(max(self.from_ns, whole.from_ns), whole.to_ns - span)
        return TimeWindow(from_ns, from_ns + span)

    def joined(self, other: TimeWindow) -> TimeWindow:
        """Return the window from the first start to the last end of both."""
        return TimeWindow(min(self.from_ns, other.from_ns), max(self.to_ns, other.to_ns))

    def shows(self, at_ns: int) -> bool:
        """Return whether a time is in the window."""
        return self.from_ns <= at_ns < self.to_ns
