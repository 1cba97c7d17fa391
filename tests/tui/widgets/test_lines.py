# SPDX-License-Identifier: Apache-2.0
"""Lines on a screen: scrolled, wrapped, searched, and escaped."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from nri_scope.tui.text.styled_line import Span, Style, StyledLine, line
from nri_scope.tui.widgets.lines import MAX_WRAPPED, LinesView
from tests.tui.hostile import CANARY, NAMES, WIDE, assert_harmless
from tests.tui.keyboard import press, wait_until_handled
from tests.tui.widgets.drawn import text_on


class _LazyLines:
    """Source that creates lines on request."""

    def __init__(self, length: int = 1_000_000) -> None:
        self.length = length
        self.requested: set[int] = set()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int, /) -> StyledLine:
        self.requested.add(index)
        return line(f"line {index}")


class _PendingLines:
    """Source whose lines are available later."""

    def __init__(self) -> None:
        self.available: dict[int, StyledLine] = {}

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int, /) -> StyledLine | None:
        return self.available.get(index)


class _App(App[None]):
    def __init__(self, lines: LinesView) -> None:
        super().__init__()
        self.lines = lines
        self.moved: list[int] = []
        self.opened: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.lines

    def on_mount(self) -> None:
        self.lines.focus()

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        self.moved.append(message.index)

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        self.opened.append(message.index)


def _visible_rows(lines: LinesView) -> list[str]:
    # The last column is the scroll bar's.
    return [row[: lines.scrollable_content_region.width].rstrip() for row in _rows(lines)]


def _rows(lines: LinesView) -> list[str]:
    return text_on(lines).split("\n")


async def _press(pilot: Pilot[None], *keys: str) -> None:
    await press(pilot, *keys)
    await wait_until_handled(pilot)


class TestScrolling:
    async def test_only_visible_lines_of_a_million_are_created(self) -> None:
        source = _LazyLines()
        lines = LinesView(source)
        async with _App(lines).run_test(size=(80, 24)) as pilot:
            assert _visible_rows(lines)[:2] == ["line 0", "line 1"]
            await _press(pilot, "end")
            assert _visible_rows(lines)[-1] == "line 999999"
            await _press(pilot, "pageup")
            assert lines.top == 1_000_000 - 24 - 23
            assert len(source.requested) < 5_000

    async def test_keys_scroll_without_a_cursor(self) -> None:
        lines = LinesView([line(str(number)) for number in range(100)])
        async with _App(lines).run_test(size=(80, 24)) as pilot:
            await _press(pilot, "down", "down", "j")
            assert lines.top == 3
            await _press(pilot, "pagedown", "up")
            assert lines.top == 3 + 23 - 1
            await _press(pilot, "home")
            assert lines.top == 0

    async def test_right_and_left_scroll_long_lines(self) -> None:
        lines = LinesView([line("0123456789" * 20)])
        async with _App(lines).run_test(size=(40, 5)) as pilot:
            assert _visible_rows(lines)[0] == ("0123456789" * 4)[:39]
            await _press(pilot, "right")
            assert _visible_rows(lines)[0].startswith("890123")
            await _press(pilot, "left")
            assert _visible_rows(lines)[0].startswith("012345")

    async def test_a_line_far_below_can_be_scrolled_to_its_end(self) -> None:
        source = [line("short")] * 5_000 + [line("x" * 300 + "end")]
        lines = LinesView(source)
        async with _App(lines).run_test(size=(40, 5)) as pilot:
            # The horizontal scroll bar appears with the wide line.
            await _press(pilot, "end")
            while lines.virtual_size.width < 300 or not lines.show_horizontal_scrollbar:
                await wait_until_handled(pilot)
            await _press(pilot, "end")
            lines.scroll_to(x=lines.max_scroll_x, animate=False)
            await wait_until_handled(pilot)
            assert _visible_rows(lines)[-2].endswith("end")

    async def test_empty_list_shows_its_text(self) -> None:
        lines = LinesView(empty="nothing to see here, " * 3)
        async with _App(lines).run_test(size=(40, 5)):
            assert " ".join(_visible_rows(lines)).count("nothing") == 3


class TestCursor:
    async def test_moving_and_opening_post_messages(self) -> None:
        lines = LinesView(_LazyLines(100), cursor=True)
        app = _App(lines)
        async with app.run_test(size=(80, 24)) as pilot:
            await _press(pilot, "down", "down")
            lines.action_open()
            await wait_until_handled(pilot)
            assert (app.moved, app.opened) == ([1, 2], [2])
            await _press(pilot, "end")
            assert lines.cursor == 99
            assert _visible_rows(lines)[-1] == "line 99"
            await _press(pilot, "down")
            assert lines.cursor == 99

    async def test_click_moves_the_cursor_and_double_click_opens(self) -> None:
        lines = LinesView(_LazyLines(100), cursor=True)
        app = _App(lines)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.click(LinesView, offset=(3, 4))
            assert (lines.cursor, app.opened) == (4, [])
            await pilot.click(LinesView, offset=(3, 6), times=2)
            assert app.opened == [6]

    async def test_stays_within_a_shortened_list(self) -> None:
        source = _LazyLines(100)
        lines = LinesView(source, cursor=True)
        async with _App(lines).run_test(size=(80, 24)) as pilot:
            await _press(pilot, "end")
            source.length = 10
            lines.changed()
            await wait_until_handled(pilot)
            assert lines.cursor == 9
            assert _visible_rows(lines)[-1] == "line 9"

    async def test_is_visible_without_colour(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        lines = LinesView(_LazyLines(10), cursor=True)
        async with _App(lines).run_test(size=(80, 24)):
            one, other = (next(iter(lines.render_line(row))).style for row in (0, 1))
            assert one is not None and other is not None
            assert one.reverse and not other.reverse


class TestWrapping:
    async def test_long_line_continues_below_with_an_indent(self) -> None:
        lines = LinesView([line("a" * 50), line("b" * 10)])
        async with _App(lines).run_test(size=(21, 10)) as pilot:
            await _press(pilot, "W")
            assert _visible_rows(lines)[:4] == [
                "a" * 20,
                f"  {'a' * 18}",
                f"  {'a' * 12}",
                "b" * 10,
            ]

    async def test_wide_characters_are_not_split(self) -> None:
        lines = LinesView([line(f"a{WIDE * 10}")], wrap=True)
        async with _App(lines).run_test(size=(21, 10)):
            assert "".join(row.strip() for row in _visible_rows(lines)[:5]) == f"a{WIDE * 10}"

    async def test_wrapping_keeps_the_top_line(self) -> None:
        lines = LinesView([line(f"{number:03} " + "x" * 60) for number in range(100)])
        async with _App(lines).run_test(size=(41, 10)) as pilot:
            await _press(pilot, "pagedown", "pagedown")
            top = lines.top
            await _press(pilot, "W")
            assert _visible_rows(lines)[0].startswith(f"{top:03}")

    async def test_cursor_counts_lines_and_not_rows(self) -> None:
        lines = LinesView([line(f"{number:03} " + "x" * 60) for number in range(100)], cursor=True)
        async with _App(lines).run_test(size=(41, 10)) as pilot:
            await _press(pilot, "W", "end")
            assert lines.cursor == 99
            assert _visible_rows(lines)[-2].startswith("099")

    async def test_too_many_lines_are_not_wrapped(self) -> None:
        lines = LinesView(_LazyLines(MAX_WRAPPED + 1))
        async with _App(lines).run_test() as pilot:
            await _press(pilot, "W")
            assert not lines.wrap


class TestSearching:
    async def test_search_ignores_case_in_both_directions(self) -> None:
        lines = LinesView(_LazyLines(10_000))
        async with _App(lines).run_test():
            assert await lines.find("LINE 5000", 0) == 5_000
            assert await lines.find("line 77", 1_000, forwards=False) == 779
            assert await lines.find("line 77", 76, forwards=False) is None
            assert await lines.find("", 0) is None

    async def test_matches_are_reversed_without_colour(self) -> None:
        lines = LinesView([(Span("one tw", Style.KEY), Span("o Two [b]three"))])
        async with _App(lines).run_test() as pilot:
            lines.highlight = "two"
            await wait_until_handled(pilot)
            segments = list(lines.render_line(0))
            found = [one.text for one in segments if one.style is not None and one.style.reverse]
            assert found == ["tw", "o", "Two"]


class TestPendingLines:
    async def test_placeholder_is_replaced_when_the_line_arrives(self) -> None:
        source = _PendingLines()
        lines = LinesView(source)
        async with _App(lines).run_test(size=(80, 24)) as pilot:
            assert _visible_rows(lines)[:10] == ["…"] * 10
            source.available[3] = line("here")
            lines.changed()
            await wait_until_handled(pilot)
            assert _visible_rows(lines)[:5] == ["…", "…", "…", "here", "…"]


class TestHostileText:
    @pytest.mark.parametrize("wrap", [False, True])
    async def test_is_escaped_and_not_interpreted_as_markup(self, wrap: bool) -> None:
        lines = LinesView([line(name) for name in NAMES.values()], wrap=wrap)
        async with _App(lines).run_test(size=(120, 80)):
            text = text_on(lines)
            assert_harmless(text)
            assert f"[bold red]{CANARY}[/]" in text
            assert "\\x1b]0;" in text

    @pytest.mark.parametrize("wrap", [False, True])
    async def test_is_cut_if_long_and_gives_its_length(self, wrap: bool) -> None:
        lines = LinesView([line("x" * (10 << 20)), line("after")], wrap=wrap)
        async with _App(lines).run_test(size=(80, 24)) as pilot:
            lines.scroll_to(lines.max_scroll_x, lines.max_scroll_y, animate=False, force=True)
            await wait_until_handled(pilot)
            # The text may be wrapped between two words.
            text = "".join(text_on(lines).split())
            assert "…(10,485,760charactersinall)" in text
            assert sum(len(part) for part in lines._strip(0).text) < 5_000
