# SPDX-License-Identifier: Apache-2.0
"""Keys that go to the next or previous problem or change, from every row of a list."""

from __future__ import annotations

import pytest

from nri_scope.recording.query.event_search import events_with
from nri_scope.tui.commands.jump import GROUP
from tests.amount import sampled
from tests.tui.screen import RECORDINGS, Shown, showing

_KEYS = {"}": ("problem", 1), "{": ("problem", -1), ")": ("changed", 1), "(": ("changed", -1)}
NORMAL = "containerd-2.1-normal-life.nriscope.zip"
SLOW = "containerd-2.1-slow-plugin.nriscope.zip"
DEMO = "demo.nriscope.db"


async def _found(shown: Shown, column: str) -> set[int]:
    return set(
        await shown.app.store.run(
            lambda recording: events_with(recording, column, 0, 10_000, forwards=True)
        )
    )


def _positions(shown: Shown, found: set[int]) -> list[int]:
    """Return the positions of the rows that show one of these events."""
    view = shown.app.views.events.view
    keys = [view.key_at(position) for position in range(view.length)]
    return [
        position
        for position, key in enumerate(keys)
        if (key.is_event == 1 and found & set(view.events_of(key.event)))
        or (key.is_event == 2 and key.event in found)
    ]


def _nearest(there: list[int], start: int, sign: int) -> int:
    """Return the position next to ``start`` in the direction of ``sign``; ``start`` for none."""
    beyond = [at for at in there if (at - start) * sign > 0]
    return (min if sign > 0 else max)(beyond, default=start)


async def _jump(shown: Shown, start: int, key: str) -> int:
    events = shown.app.views.events
    events.go_to(start)
    await shown.press(key)
    await shown.until(
        lambda: all(worker.is_finished for worker in shown.app.workers if worker.group == GROUP)
    )
    return events.listing.cursor


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "column"), sampled([(NORMAL, "changed"), (SLOW, "problem"), (DEMO, "problem")])
)
@pytest.mark.parametrize("by_operation", sampled([False, True]))
async def test_jumps_go_to_the_nearest_row_in_their_direction(
    name: str, column: str, by_operation: bool
) -> None:
    async with showing(RECORDINGS / name, surveyed=True) as shown:
        await shown.until(lambda: shown.app.store.analysis.passes)
        events = shown.app.views.events
        if not by_operation:
            await shown.press("v")
            await shown.until(lambda: events.view.noun == "event")
        there = _positions(shown, await _found(shown, column))
        assert there
        between = [at for at in range(events.view.length) if not events.view.key_at(at).is_event]
        assert between
        # All rows between events, and rows around those to which the keys go.
        near = {at + by for at in (there[0], there[-1]) for by in (-1, 0, 1)}
        for start in sorted({*between, *near} & set(range(events.view.length))):
            for key, (kind, sign) in _KEYS.items():
                if kind == column:
                    expected = _nearest(there, start, sign)
                    assert await _jump(shown, start, key) == expected, (start, key)


@pytest.mark.exhaustive
async def test_jumps_within_an_open_operation_keep_their_direction() -> None:
    async with showing(RECORDINGS / NORMAL, surveyed=True) as shown:
        await shown.until(lambda: shown.app.store.analysis.passes)
        events = shown.app.views.events
        first = _positions(shown, await _found(shown, "changed"))[0]
        events.go_to(first)
        await shown.press("enter")
        await shown.until(lambda: events.view.key_at(first + 1).is_event == 2)
        # The keys go to the rows of events, not to the heading of an open operation.
        there = sorted(map(events.view.position_of, await _found(shown, "changed")))
        assert len([at for at in there if first < at <= first + 4]) > 1
        for start in range(first, first + 5):
            for key, (kind, sign) in _KEYS.items():
                if kind == "changed":
                    expected = _nearest(there, start, sign)
                    assert await _jump(shown, start, key) == expected, (start, key)


@pytest.mark.exhaustive
async def test_a_view_without_an_event_jumps_from_the_cursor_of_the_list() -> None:
    async with showing(RECORDINGS / NORMAL, surveyed=True) as shown:
        await shown.until(lambda: shown.app.store.analysis.passes)
        there = _positions(shown, await _found(shown, "changed"))
        await shown.press("5")
        await shown.shows("[5 Sessions]")
        assert shown.app.views.current.selected_event_id is None
        await _jump(shown, there[0] + 1, "(")
        # The view hands the key to the list, whose search may begin later.
        await shown.until(lambda: shown.app.views.events.listing.cursor == there[0])
