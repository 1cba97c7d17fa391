# SPDX-License-Identifier: Apache-2.0
"""Speed of the TUI's model with a large recording: opening, jumping, following, filtering.

Runs in a separate process, so that the measured memory does not include earlier benchmarks.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.findings import Finding, number
from nri_scope.filter import parse
from nri_scope.tui.store.store import Store
from nri_scope.tui.store.view import View

SCREEN = 50
"""Rows of a large terminal."""
_JUMPS = 200
_APPENDS = 50
_APPENDED = 25
"""Events per refresh: 500 events/s, 20 refreshes/s."""
_FILTERS = ("event:CreateContainer", "took:>200us", "web-0*")
_MIB = 1 << 20


def measure(path: Path) -> list[Finding]:
    """Measure with a recording written by `many`; appends events to the file."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.tui", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [Finding(**one) for one in json.loads(run.stdout)]


async def _measure(path: Path) -> list[Finding]:
    begin = time.perf_counter()
    store = await Store.open(path)
    rows = await store.rows(store.all, store.all.length - SCREEN, SCREEN)
    first = time.perf_counter() - begin
    if len(rows) != SCREEN:
        raise RuntimeError(f"{len(rows)} rows on the first screen")
    while not store.all.complete:
        await asyncio.sleep(0.001)
    walked = time.perf_counter() - begin
    events = store.all.events
    where = f"of {events:,} events"
    chance = random.Random(1)
    jumps = [
        await _timed(store.rows, store.all, chance.randrange(store.all.length), SCREEN)
        for _ in range(_JUMPS)
    ]
    filters = [await _filter(store, text) for text in _FILTERS]
    view, *_ = filters[0]
    appends = await _append(path, store)
    if view.looked_at <= events:
        raise RuntimeError("the filtered view has not grown")
    memory = _peak_memory()
    await store.close()
    return [
        Finding(
            name=f"tui: first screen {where}",
            value=first,
            unit="s",
            limit=1,
            detail=f"all event numbers read after {number(walked)} s",
        ),
        Finding(
            name=f"tui: jump to any {SCREEN} rows {where}",
            value=median(jumps) * 1000,
            unit="ms",
            limit=50,
            detail=f"longest {number(max(jumps) * 1000)} ms of {_JUMPS}",
        ),
        Finding(
            name=f"tui: {_APPENDED} more events, shown in 4 views {where}",
            value=median(appends) * 1000,
            unit="ms",
            limit=50,
            detail=f"longest {number(max(appends) * 1000)} ms of {_APPENDS}",
        ),
        *(
            Finding(
                name=f"tui: first matches of {text} {where}",
                value=shown,
                unit="s",
                limit=0.5,
                detail=f"all {found.events:,} after {number(whole)} s; "
                f"a jump meanwhile {number(jump * 1000)} ms",
            )
            for text, (found, shown, whole, jump) in zip(_FILTERS, filters, strict=True)
        ),
        Finding(
            name=f"tui: memory of the model {where}",
            value=memory / _MIB,
            unit="MiB",
            limit=150,
            detail="peak, Python and all modules included, Textual not",
        ),
    ]


async def _filter(store: Store, text: str) -> tuple[View, float, float, float]:
    """Return the view, and the seconds to the first match, to all, and of a jump meanwhile."""
    begin = time.perf_counter()
    first: list[float] = []
    jump: list[asyncio.Task[float]] = []

    def on_progress(view: View, _: float) -> None:
        if view.events and not first:
            first.append(time.perf_counter() - begin)
            jump.append(asyncio.create_task(_timed(store.rows, store.all, 1000, SCREEN)))

    view = await store.view(parse(text), on_progress)
    whole = time.perf_counter() - begin
    return view, first[0], whole, await jump[0]


async def _append(path: Path, store: Store) -> list[float]:
    """Return the durations of refreshing all views and reading the newest rows, in seconds."""
    times = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(event)")][1:]
        names = ", ".join(columns)
        for _ in range(_APPENDS):
            connection.execute(
                f"INSERT INTO event ({names}) SELECT {names} FROM event WHERE id <= {_APPENDED}"
            )
            before = store.all.events
            begin = time.perf_counter()
            await store.refresh()
            await store.rows(store.all, store.all.length - SCREEN, SCREEN)
            times.append(time.perf_counter() - begin)
            if store.all.events != before + _APPENDED:
                raise RuntimeError(f"{store.all.events - before} events instead of {_APPENDED}")
    return times


async def _timed(
    work: Callable[[View, int, int], Awaitable[object]], view: View, start: int, count: int
) -> float:
    begin = time.perf_counter()
    await work(view, start, count)
    return time.perf_counter() - begin


def _peak_memory() -> int:
    """Return the peak resident memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not report VmHWM")


def main() -> None:
    """Measure the recording named on the command line, and print JSON."""
    findings = asyncio.run(_measure(Path(sys.argv[1])))
    print(json.dumps([_plain(finding) for finding in findings]))


def _plain(finding: Finding) -> dict[str, object]:
    plain = finding.as_json()
    del plain["reached"]
    return plain


if __name__ == "__main__":
    main()
