# SPDX-License-Identifier: Apache-2.0
"""The processor time of an agent for the events that ``log -f`` follows on a busy node.

A recorder writes the events of `benchmarks.node` while one client follows them. The first ones are
not counted, as the agent imports modules and reads the vocabulary for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

from benchmarks import node
from benchmarks.findings import Finding
from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.recorder.writer import Recorder
from tests.agent.agent_process import Agent, agent

_SECONDS_MAX = 0.6
_FIRST = 200
"""Number of events that are not counted."""
_TOGETHER, _PAUSE_S = 20, 0.04
"""500 events each second."""


async def measure(folder: Path, *, events: int) -> list[Finding]:
    """Measure the processor time for 1,000 of ``events`` events, redacted and as recorded."""
    redacted = await _followed(folder / "redacted", events)
    original = await _followed(folder / "original", events, "--unredacted")
    return [
        Finding(
            name="agent: 1,000 events followed",
            value=redacted,
            unit="s",
            limit=_SECONDS_MAX,
            detail=f"{original:.2f} s as recorded",
        )
    ]


async def _followed(folder: Path, events: int, *options: str) -> float:
    """Return the processor time of an agent for 1,000 events, in s."""
    await asyncio.to_thread(folder.mkdir)
    recorder = Recorder.open(folder / "node.nriscope.db")
    sessions, _ = node.begin_sessions(recorder)
    calls = list(islice(chain.from_iterable(node.rounds(_FIRST + events)), _FIRST + events))
    try:
        async with agent(folder, *options) as running, running.client() as stub:
            responses = stub.get_events(v1.GetEventsRequest(follow=True))
            async for response in responses:
                if response.heartbeat is not None and response.heartbeat.caught_up:
                    break
            before = 0.0
            writing = asyncio.create_task(_write(recorder, sessions, calls))
            for number in range(_FIRST + events):
                if number == _FIRST:
                    before = _processor_s(running)
                while (await anext(responses)).event is None:
                    pass
            await writing
            return (_processor_s(running) - before) * 1000 / events
    finally:
        recorder.close()


async def _write(recorder: Recorder, sessions: dict[str, int], calls: Sequence[node.Call]) -> None:
    for begin in range(0, len(calls), _TOGETHER):
        for call in calls[begin : begin + _TOGETHER]:
            recorder.capture(sessions[call.plugin], node.captured_call(call, time.time_ns()))
        await asyncio.sleep(_PAUSE_S)


def _processor_s(running: Agent) -> float:
    tasks = Path(f"/proc/{running.process.process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
