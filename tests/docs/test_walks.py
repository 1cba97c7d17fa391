# SPDX-License-Identifier: Apache-2.0
"""The two walks of docs/architecture.md, of an event and of a container, are those of the code."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.container_events import setup, start
from tests.cli.recording_process import recording
from tests.docs import call_tracer
from tests.runtime_emulation.runtime import Runtime
from tests.sample_names import CHECKOUT_API

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
Calls: TypeAlias = "list[tuple[str, str]]"
"""Calling and called modules, in order."""

EVENT, CONTAINER = "How a live event flows", "How attribution works"
"""The headings of the diagrams."""
HELPERS = {"entries", "errors", "events", "filter", "nri", "oci", "specs", "text"}
"""Rooms that a walk uses but does not name: values, vocabulary, and OCI specs."""


def drawn(heading: str) -> list[list[str]]:
    """The modules of the diagram below a heading, for each process."""
    block = PAGE.partition(f"## {heading}")[2].split("```")[1]
    processes: list[list[str]] = []
    module = ""
    for text in block.split("another process:"):
        processes.append([])
        for part in re.split("→|─┬|└", text):
            name = part.strip()
            if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", name) and name != "socket":
                module = whole_name(name, module)
                processes[-1].append(module)
    return processes


def whole_name(name: str, before: str) -> str:
    """The name of a module, which a diagram shortens by what it shares with the one before."""
    while before:
        before = before.rpartition(".")[0]
        whole = f"{before}.{name}".removeprefix(".")
        if (call_tracer.PACKAGE / f"{whole.replace('.', '/')}.py").is_file():
            return whole
    return name


def rooms_of(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def problems(walk: Sequence[str], calls: Calls, others: set[str]) -> list[str]:
    """What the walk of a process says against its calls.

    After each step, it or an earlier one calls the next. Steps call no rooms but their own and
    ``others``.
    """
    number = 1
    for caller, called in calls:
        number += number < len(walk) and called == walk[number] and caller in walk[:number]
    wrong = [f"no step before {module} calls it then" for module in walk[number : number + 1]]
    rooms = rooms_of(called for caller, called in calls if caller in walk) - rooms_of(walk) - others
    return wrong + [f"the walk also calls the room {room}" for room in sorted(rooms)]


def calls_of(file: Path) -> list[Calls]:
    """The calls of each process, the one that starts with ``cli`` first."""
    rows = [line.split(" ") for line in file.read_text(encoding="utf-8").splitlines()]
    processes = [[(row[1], row[2]) for row in of] for _, of in groupby(rows, lambda row: row[0])]
    return sorted(processes, key=lambda calls: calls[0][0] != "cli.start")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Calls]:
    """The calls of `record`, and of its writer process, for events of a runtime."""
    folder = tmp_path_factory.mktemp("walk")
    prefix = (sys.executable, call_tracer.__file__, str(folder / "calls"))
    options = ("--socket", folder / "s", "-o", folder / "x.nriscope.db")

    async def record() -> None:
        async with Runtime(setup()) as runtime:
            await runtime.listen(folder / "s")
            async with recording(*options, prefix=prefix) as process:
                await runtime.wait_plugins(1)
                await start(runtime, 3)
                status, _, errors = await process.interrupt()
        assert status == 0, errors

    asyncio.run(record())
    return calls_of(folder / "calls")


@pytest.fixture(scope="module")
def blamed(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """The calls of `blame`."""
    file = tmp_path_factory.mktemp("walk") / "calls"
    command = ("nri_scope", "blame", str(ROOT / "recordings/demo.nriscope.db"), CHECKOUT_API)
    tracer = (sys.executable, call_tracer.__file__, str(file))
    subprocess.run([*tracer, *command], check=True, stdout=subprocess.DEVNULL)
    (calls,) = calls_of(file)
    return calls


@pytest.mark.parametrize("process", [0, 1])
def test_an_event_takes_the_steps_of_the_diagram(process: int, recorded: list[Calls]) -> None:
    """Of its two processes, each also uses rooms of the other one; the writer opens a file."""
    walks, calls = drawn(EVENT), recorded[process]
    walk, others = walks[process], HELPERS | {"share"} | rooms_of(walks[1 - process])
    assert problems(walk, calls, others) == []
    for number, step in enumerate(walk[1:-1], 1):
        renamed = [*walk[:number], f"{step}s", *walk[number + 1 :]]
        assert problems(renamed, calls, others), f"{step} may have any name"
        missing = [*walk[:number], *walk[number + 1 :]]
        others_then = others - rooms_of([step]) | rooms_of(missing)
        assert problems(missing, calls, others_then), f"{step} may be missing"


def test_a_container_takes_the_steps_of_the_diagram(blamed: Calls) -> None:
    (walk,) = drawn(CONTAINER)
    assert problems(walk, blamed, HELPERS) == []
    for number, step in enumerate(walk[1:], 1):
        renamed = [*walk[:number], f"{step}s", *walk[number + 1 :]]
        assert problems(renamed, blamed, HELPERS), f"{step} may have any name"
    for step in ("api", "differ.recording_differ", "differ.attribution.differ"):
        missing = [module for module in walk if module != step]
        assert len(missing) < len(walk) and problems(missing, blamed, HELPERS)


@pytest.mark.parametrize(("heading", "most"), [(EVENT, 12), (CONTAINER, 13)])
def test_a_walk_is_short_and_returns_to_no_room(heading: str, most: int) -> None:
    walk = [module for process in drawn(heading) for module in process]
    assert len(walk) <= most
    rooms = [room for room, _ in groupby(module.partition(".")[0] for module in walk)]
    assert len(rooms) == len(set(rooms)), rooms
