# SPDX-License-Identifier: Apache-2.0
"""The terminal interface on a large recording, from a key to what it draws in a real terminal."""

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
"""In each row of the list, once it was read."""
_ROWS = 40
"""Of the 45 that this screen has; the others may be what they were."""
_ROWS_ABOVE = 20
"""Of the 23 above the details."""
_PAGES = 30
_APPENDS = 20
_APPENDED = 25
"""Events: 500 a second, seen 20 times a second."""
_FILTERS = ("event:CreateContainer", "took:>200us", "web-0*")
_NOWHERE = "in-no-event"
"""A search for it reads them all."""
_PATIENCE = 120.0
_REST_SECONDS = 1.0
_REST_WORK = 0.3
"""Seconds of processor time in so many seconds: there is nothing more to read."""
_MIB = 1 << 20
_PAGE_DOWN = "\x1b[6~"


async def measure(path: Path, *, events: int, starts: int) -> list[Finding]:
    """Open it, go about in it, let it grow, filter it, leave."""
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
        # The details make room for the list, so that it has all lines.
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
            raise RuntimeError(f"it ended with exit status {status}: {shown.tail()}")
    return [
        Finding(
            name=f"tui: from the command to the first rows {where}",
            value=median(firsts),
            unit="s",
            limit=1,
            detail=f"longest {number(max(firsts))} s of {starts}; "
            f"nothing more was drawn after {number(began)} s",
        ),
        Finding(
            name=f"tui: one screen further {where}",
            value=median(pages) * 1000,
            unit="ms",
            limit=50,
            detail=f"longest {_ms(max(pages))} of {len(pages)}; with the details below it "
            f"{_ms(median(whole))}",
        ),
        Finding(
            name=f"tui: scroll bar drawn to any place {where}",
            value=median(jumps) * 1000,
            unit="ms",
            limit=40,
            detail=f"longest {_ms(max(jumps))} of {len(jumps)}; processor time {_ms(work)} each, "
            "with what is read ahead",
        ),
        Finding(
            name=f"tui: processor time for {_APPENDED} more events {where}",
            value=median(works) * 1000,
            unit="ms",
            limit=50,
            detail=f"on the screen after {_ms(median(seen))}, longest {_ms(max(seen))}, "
            "of which up to 100 ms are until it looks",
        ),
        *(
            Finding(
                name=f"tui: rows that match {text} {where}",
                value=some,
                unit="s",
                limit=0.5,
                detail=f"all of them after {number(everything)} s",
            )
            for text, some, everything in filters
        ),
        Finding(
            name=f"tui: memory {where}",
            value=views / _MIB,
            unit="MiB",
            limit=150,
            detail="peak of the whole process, after all of the above, a search, and a look at "
            f"containers, timeline and plugins; before these {memory / _MIB:.0f} MiB",
        ),
    ]


async def _start(path: Path) -> Terminal:
    return await Terminal.start(command(), "tui", path, size=SIZE, folder=path.parent)


async def _pages(shown: Terminal) -> tuple[list[float], list[float]]:
    """Seconds until the rows of the next screen are there, and until all that follows is."""
    rows, whole = [], []
    for _ in range(_PAGES):
        shown.press(_PAGE_DOWN)
        rows.append(await shown.shows(_TIME, times=_ROWS_ABOVE))
        whole.append(await shown.settled())
    return rows, whole


async def _jumps(shown: Terminal) -> list[float]:
    """Seconds until the rows are there to which the scroll bar was drawn."""
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
    """Return what a terminal sends for the mouse; 32 is added to the button where it is moved."""
    return f"\x1b[<{button};{column};{line}{'m' if up else 'M'}"


async def _append(shown: Terminal, path: Path, events: int) -> tuple[list[float], list[float]]:
    """Processor time that it takes when events come, and seconds until it tells of them."""
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
    """Seconds to the first rows that match, and to all."""
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
    """Search everything for what is nowhere, then wait until each other view has read all."""
    shown.press("/")
    await shown.settled()
    shown.press(_NOWHERE)
    await shown.settled()
    shown.press("\r")
    await shown.shows("not found")
    for key in "234":
        shown.press(key)
        await _at_rest(shown)


async def _at_rest(shown: Terminal) -> None:
    """Wait until it is busy with nothing more than a clock."""
    pid = shown.process.pid
    before, busy = work_of(pid), True
    async with asyncio.timeout(_PATIENCE):
        while busy:
            await asyncio.sleep(_REST_SECONDS)
            now = work_of(pid)
            before, busy = now, now - before > _REST_WORK


def _ms(seconds: float) -> str:
    return f"{number(seconds * 1000)} ms"
