# SPDX-License-Identifier: Apache-2.0
"""Response time of the TUI with a large recording, from key press to output on a terminal."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.findings import Finding, number
from benchmarks.recorder import command
from benchmarks.terminal import Terminal, peak_memory, work_of

SIZE = (160, 50)
_TIME = r"\d\d:\d\d\.\d{3}"
"""Pattern of the time in each loaded row of the list."""
_ROWS = 40
"""Expected rows, of 45 on the screen: rows that do not change are not redrawn."""
_ROWS_ABOVE = 20
"""Expected rows, of 23 above the details."""
_PAGES = 30
_APPENDS = 20
_APPENDED = 25
"""Events per refresh: 500 events/s, 20 refreshes/s."""
_FILTERS = ("event:CreateContainer", "took:>200us", "web-0*")
_NO_MATCH = "in-no-event"
"""Search text without a match: the search reads all events."""
_IDLE_TIMEOUT_S = 120.0
_IDLE_INTERVAL_S = 1.0
_IDLE_WORK_S = 0.3
"""The TUI is idle if it uses less processor time in one interval."""
_MIB = 1 << 20
_PAGE_DOWN = "\x1b[6~"


async def measure(path: Path, *, events: int, starts: int) -> list[Finding]:
    """Open a recording, scroll, append events, filter, and open the other views."""
    where = f"of {events:,} events"
    firsts = []
    for _ in range(starts - 1):
        async with await _start(path) as shown:
            firsts.append(await shown.shows(_TIME))
            shown.press("q")
            await shown.process.wait()
    async with await _start(path) as shown:
        firsts.append(await shown.shows(_TIME))
        began = await shown.settled(1)
        pages, whole = await _pages(shown)
        # Close the details, so that the list uses all lines.
        shown.press("p")
        await shown.settled()
        before = work_of(shown.process.pid)
        jumps = await _jumps(shown)
        work = (work_of(shown.process.pid) - before) / len(jumps)
        works, seen = await _append(shown, path, events)
        shown.press("g")
        await shown.settled()
        filters = [(text, *await _filter(shown, text)) for text in _FILTERS]
        memory = peak_memory(shown.process.pid)
        await _views(shown)
        views = peak_memory(shown.process.pid)
        shown.press("q")
        if status := await shown.process.wait():
            raise RuntimeError(f"tui ended with exit status {status}: {shown.tail()}")
    return [
        Finding(
            name=f"tui: from the command to the first rows {where}",
            value=median(firsts),
            unit="s",
            limit=1,
            detail=f"longest {number(max(firsts))} s of {starts}; "
            f"drawing ended after {number(began)} s",
        ),
        Finding(
            name=f"tui: page down {where}",
            value=median(pages) * 1000,
            unit="ms",
            limit=50,
            detail=f"longest {_ms(max(pages))} of {len(pages)}; including the details "
            f"{_ms(median(whole))}",
        ),
        Finding(
            name=f"tui: scroll bar dragged to any position {where}",
            value=median(jumps) * 1000,
            unit="ms",
            limit=40,
            detail=f"longest {_ms(max(jumps))} of {len(jumps)}; processor time {_ms(work)} each, "
            "including read-ahead",
        ),
        Finding(
            name=f"tui: processor time for {_APPENDED} more events {where}",
            value=median(works) * 1000,
            unit="ms",
            limit=50,
            detail=f"on the screen after {_ms(median(seen))}, longest {_ms(max(seen))}, "
            "of which up to 100 ms are the polling interval",
        ),
        *(
            Finding(
                name=f"tui: rows that match {text} {where}",
                value=some,
                unit="s",
                limit=0.5,
                detail=f"all matches after {number(everything)} s",
            )
            for text, some, everything in filters
        ),
        Finding(
            name=f"tui: memory {where}",
            value=views / _MIB,
            unit="MiB",
            limit=150,
            detail="peak of the process after the steps above, a search, and opening containers, "
            f"timeline and plugins; {memory / _MIB:.0f} MiB before search and views",
        ),
    ]


async def _start(path: Path) -> Terminal:
    return await Terminal.start(command(), "tui", path, size=SIZE, folder=path.parent)


async def _pages(shown: Terminal) -> tuple[list[float], list[float]]:
    """Return the seconds from page down to the rows, and to the end of drawing."""
    rows, whole = [], []
    for _ in range(_PAGES):
        shown.press(_PAGE_DOWN)
        rows.append(await shown.shows(_TIME, times=_ROWS_ABOVE))
        whole.append(await shown.settled())
    return rows, whole


async def _jumps(shown: Terminal) -> list[float]:
    """Return the seconds from dragging the scroll bar to the rows at its position."""
    columns, lines = SIZE
    shown.press("g")
    await shown.settled()
    top, bottom = 4, lines - 3
    shown.press(_mouse(0, columns, top))
    await shown.settled()
    jumps = []
    for line in (*range(top + 2, bottom, 2), *range(bottom - 2, top + 2, -2)):
        shown.press(_mouse(32, columns, line))
        jumps.append(await shown.shows(_TIME, times=_ROWS))
        await shown.settled()
    shown.press(_mouse(0, columns, top, up=True))
    await shown.settled()
    return jumps


def _mouse(button: int, column: int, line: int, *, up: bool = False) -> str:
    """Return the SGR mouse sequence of a terminal; add 32 to the button for a movement."""
    return f"\x1b[<{button};{column};{line}{'m' if up else 'M'}"


async def _append(shown: Terminal, path: Path, events: int) -> tuple[list[float], list[float]]:
    """Return the processor time for appended events, and the seconds until they are counted."""
    pid = shown.process.pid
    shown.press("G")
    await shown.settled(1)
    works, seen = [], []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(event)")][1:]
        names = ", ".join(columns)
        for count in range(1, _APPENDS + 1):
            connection.execute(
                f"INSERT INTO event ({names}) SELECT {names} FROM event WHERE id <= {_APPENDED}"
            )
            before = work_of(pid)
            shown.forget()
            seen.append(await shown.shows(re.escape(f"{events + count * _APPENDED:,} events")))
            await shown.settled()
            works.append(work_of(pid) - before)
    return works, seen


async def _filter(shown: Terminal, text: str) -> tuple[float, float]:
    """Return the seconds to the first matching rows, and to all."""
    shown.press("f")
    await shown.settled()
    shown.press(text)
    await shown.settled()
    shown.press("\r")
    some = max(await shown.shows(r"[1-9][\d,]* match"), await shown.shows(_TIME, times=_ROWS))
    everything = await shown.shows(r"[1-9][\d,]* matches: ")
    shown.press("x")
    await shown.settled(0.5)
    return some, everything


async def _views(shown: Terminal) -> None:
    """Search all events for a text without a match, then open and load each other view."""
    shown.press("/")
    await shown.settled()
    shown.press(_NO_MATCH)
    await shown.settled()
    shown.press("\r")
    await shown.shows("not found")
    for key in "234":
        shown.press(key)
        await _wait_until_idle(shown)


async def _wait_until_idle(shown: Terminal) -> None:
    """Wait until the TUI only redraws its clock."""
    pid = shown.process.pid
    before, busy = work_of(pid), True
    async with asyncio.timeout(_IDLE_TIMEOUT_S):
        while busy:
            await asyncio.sleep(_IDLE_INTERVAL_S)
            now = work_of(pid)
            before, busy = now, now - before > _IDLE_WORK_S


def _ms(seconds: float) -> str:
    return f"{number(seconds * 1000)} ms"
