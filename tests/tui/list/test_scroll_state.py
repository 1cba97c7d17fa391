# SPDX-License-Identifier: Apache-2.0
"""The window onto a view: positions when rows are added; leaving and resuming following."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nri_scope.events import Gap
from nri_scope.filter import parse
from nri_scope.tui.list.scroll_state import FollowState, ScrollState
from nri_scope.tui.store.event_numbers import NumberList
from nri_scope.tui.store.markers import EntryMarker, RowKey, RowMarker
from nri_scope.tui.store.view import View
from tests.amount import amount

HEIGHT = 5


class Rows:
    """A view to which tests add rows."""

    def __init__(self, count: int = 0) -> None:
        self.ids = NumberList()
        self.between: tuple[RowMarker, ...] = ()
        self.view = View(self.ids)
        self.view.complete = True
        self.newest = 0
        self.add(count)

    def add(self, count: int) -> None:
        self.ids.extend(array("q", range(self.newest + 1, self.newest + count + 1)))
        self.newest += count
        self.view.looked_at = self.newest
        self.view.settle(self.between)

    def trim(self, oldest: int) -> None:
        self.view.settle(self.between, moved=self.ids.trim(oldest))

    def add_gap(self, before: int) -> None:
        number = len(self.between)
        here = EntryMarker(RowKey(before, 0, 0, number), Gap(number, None, 0, 0, "", 1))
        self.between = tuple(sorted([*self.between, here], key=lambda one: one.key))
        self.view.settle(self.between)

    def only(self, *numbers: int) -> View:
        view = View(NumberList(numbers), where=parse("x"), looked_at=self.newest)
        view.complete = True
        view.settle(self.between)
        return view


def listing(count: int, *, follows: bool = True) -> tuple[Rows, ScrollState]:
    rows = Rows(count)
    return rows, ScrollState(rows.view, HEIGHT, follows=follows)


def on_screen(listing: ScrollState) -> list[RowKey]:
    stop = min(listing.top + listing.height, listing.length)
    return [listing.view.key_at(position) for position in range(listing.top, stop)]


class ScrollStateMachine(RuleBasedStateMachine):
    """State machine: actions and growth in any order."""

    @initialize(count=st.integers(0, 20), follows=st.booleans())
    def begin(self, count: int, follows: bool) -> None:
        self.rows, self.listing = listing(count, follows=follows)

    @rule(count=st.integers(1, 8))
    def add_rows(self, count: int) -> None:
        selected, screen = self.listing.selected, on_screen(self.listing)
        state = self.listing.state
        self.rows.add(count)
        self.listing.grow()
        assert self.listing.state is state
        if state is FollowState.FOLLOWING:
            assert self.listing.cursor == self.rows.view.length - 1
            assert self.listing.new_count == 0
            return
        assert selected is None or self.listing.selected == selected
        assert on_screen(self.listing)[: len(screen)] == screen

    @rule(back=st.integers(0, 10))
    def add_gap(self, back: int) -> None:
        selected, state = self.listing.selected, self.listing.state
        offset = self.listing.cursor - self.listing.top
        self.rows.add_gap(max(1, self.rows.newest + 1 - back))
        self.listing.grow()
        if state is not FollowState.FOLLOWING and selected is not None:
            assert self.listing.selected == selected
            # The row stays where it is on the screen, unless rows above it come into view.
            assert self.listing.top == 0 or self.listing.cursor - self.listing.top <= offset

    @rule(count=st.integers(1, 6))
    def remove_oldest(self, count: int) -> None:
        selected, state = self.listing.selected, self.listing.state
        oldest = min(self.rows.newest, (self.rows.ids.array or [1])[0] + count)
        if oldest < 1:
            return
        self.rows.trim(oldest)
        self.listing.grow()
        if state is not FollowState.FOLLOWING and selected is not None and selected.event >= oldest:
            assert self.listing.selected == selected

    @rule(by=st.integers(-7, 7), method=st.sampled_from(["move", "page", "scroll"]))
    def move(self, by: int, method: str) -> None:
        state = self.listing.state
        getattr(self.listing, method)(by)
        if by < 0 and self.listing.view.length:
            assert self.listing.state is not FollowState.FOLLOWING
        else:
            assert self.listing.state is state

    @rule(share=st.floats(0, 1))
    def go_to(self, share: float) -> None:
        position = int(share * max(0, self.listing.length - 1))
        self.listing.go_to(position)
        assert self.listing.cursor == position

    @rule()
    def home(self) -> None:
        self.listing.home()
        assert (self.listing.top, self.listing.cursor) == (0, 0)
        assert self.listing.state is not FollowState.FOLLOWING or not self.listing.view.length

    @rule()
    def end_twice(self) -> None:
        self.listing.end()
        assert self.listing.state is FollowState.FOLLOWING or (
            self.listing.cursor == self.listing.length - 1
        )
        self.rows.add(1)
        self.listing.grow()
        self.listing.end()
        assert self.listing.state is FollowState.FOLLOWING

    @rule()
    def pause(self) -> None:
        before = self.listing.state
        self.listing.pause()
        assert (self.listing.state is FollowState.FOLLOWING) == (
            before is not FollowState.FOLLOWING
        )

    @rule()
    def follow(self) -> None:
        self.listing.follow()
        assert self.listing.state is FollowState.FOLLOWING
        assert self.listing.new_count == 0

    @rule(height=st.integers(0, 12))
    def resize(self, height: int) -> None:
        selected, state = self.listing.selected, self.listing.state
        self.listing.resize(height)
        assert self.listing.selected == selected
        assert self.listing.state is state

    @rule(step=st.integers(1, 4))
    def filter_and_back(self, step: int) -> None:
        selected, state = self.listing.selected, self.listing.state
        self.listing.show(self.rows.only(*self.rows.ids.array[::step]))
        self.in_view()
        self.listing.show(self.rows.view)
        assert self.listing.state is state
        assert self.listing.selected == selected

    @invariant()
    def in_view(self) -> None:
        listing = self.listing
        assert 0 <= listing.top <= max(0, listing.length - 1)
        assert listing.top <= listing.cursor < listing.top + listing.height
        assert 0 <= listing.cursor <= max(0, listing.length - 1)
        assert listing.length <= listing.view.length
        # No room is left empty that rows could fill.
        assert listing.top == 0 or listing.top + listing.height <= listing.length
        assert 0 <= listing.new_count <= listing.view.length


TestScrollState = ScrollStateMachine.TestCase
TestScrollState.settings = settings(max_examples=amount(200, 50), stateful_step_count=30)


def test_following_list_starts_at_the_end() -> None:
    rows, shown = listing(20)
    assert (shown.top, shown.cursor, shown.words) == (15, 19, "following")
    rows.add(3)
    shown.grow()
    assert (shown.top, shown.cursor, shown.words) == (18, 22, "following")


def test_list_that_does_not_follow_starts_at_the_beginning() -> None:
    _, shown = listing(20, follows=False)
    assert (shown.top, shown.cursor, shown.words) == (0, 0, "scrolled")


def test_new_rows_are_counted_until_they_were_on_the_screen() -> None:
    rows, shown = listing(20)
    shown.move(-1)
    rows.add(1234)
    shown.grow()
    assert shown.words == "scrolled, +1,234 new"
    shown.move(5)
    assert shown.new_count == 1230
    shown.move(-5)
    assert shown.new_count == 1230


def test_moving_up_in_an_empty_list_keeps_following() -> None:
    rows, shown = listing(0)
    shown.move(-1)
    shown.page(-1)
    shown.scroll(-1)
    shown.home()
    assert shown.state is FollowState.FOLLOWING
    rows.add(3)
    shown.grow()
    assert shown.cursor == 2
    shown.move(-1)
    state: FollowState = shown.state
    assert state is FollowState.SCROLLED


def test_first_end_goes_to_the_end_and_second_end_follows() -> None:
    _, shown = listing(20)
    shown.home()
    shown.end()
    assert (shown.cursor, shown.state) == (19, FollowState.SCROLLED)
    shown.end()
    assert shown.state is FollowState.FOLLOWING


def test_end_after_another_move_does_not_follow() -> None:
    _, shown = listing(20)
    shown.home()
    shown.end()
    shown.move(-3)
    shown.end()
    assert shown.state is FollowState.SCROLLED


def test_a_pause_keeps_the_cursor_and_the_next_one_follows() -> None:
    rows, shown = listing(20)
    shown.pause()
    rows.add(7)
    shown.grow()
    assert (shown.words, shown.cursor, shown.length) == ("scrolled, +7 new", 19, 27)
    shown.pause()
    assert (shown.words, shown.cursor) == ("following", 26)


def test_the_selected_event_stays_selected_in_another_view() -> None:
    rows, shown = listing(30)
    shown.go_to(14)
    assert shown.selected_event == 15
    shown.show(rows.only(5, 10, 15, 20))
    assert (shown.cursor, shown.selected_event) == (2, 15)


def test_next_event_is_selected_if_the_view_lacks_the_selected_one() -> None:
    rows, shown = listing(30)
    shown.go_to(13)
    shown.show(rows.only(5, 10, 15, 20))
    assert shown.selected_event == 15
    shown.show(rows.only())
    assert (shown.selected, shown.cursor) == (None, 0)
    # The view that contains the event selects it again.
    shown.show(rows.view)
    assert shown.selected_event == 14


def test_event_is_selected_again_once_a_running_filter_reaches_it() -> None:
    rows, shown = listing(30)
    shown.go_to(14)
    ids = NumberList()
    view = View(ids, where=parse("x"), looked_at=0)
    for number in (5, 10, 15, 20):
        ids.extend(array("q", [number]))
        view.looked_at = number
        view.settle(rows.between)
        shown.show(view)
        assert shown.new_count == 0
    assert shown.selected_event == 15


def test_positions_are_right_before_grow_is_called() -> None:
    rows, shown = listing(30)
    shown.go_to(14)
    rows.trim(6)
    assert (shown.cursor, shown.selected_event) == (9, 15)
    rows.add_gap(8)
    shown.move(-1)
    assert (shown.cursor, shown.selected_event) == (9, 14)


def test_selected_gap_is_not_an_event() -> None:
    rows, shown = listing(3)
    rows.add_gap(2)
    shown.grow()
    shown.go_to(1)
    assert shown.selected == rows.between[0].key
    assert shown.selected_event is None


@pytest.mark.parametrize("by", [-1, -3])
def test_mouse_wheel_keeps_the_cursor_visible(by: int) -> None:
    _, shown = listing(20)
    shown.scroll(by)
    assert (shown.top, shown.cursor) == (15 + by, 19 + by)
    assert shown.state is FollowState.SCROLLED
