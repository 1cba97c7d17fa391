# SPDX-License-Identifier: Apache-2.0
"""Probes with the oldest NRI that has today's messages: 0.3, of containerd 1.7.0."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import Evidence
from nri_scope.logger.probe_recorder import ProbeListener, Probes
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.interop.build import build_oldest
from tests.interop.reference import PATIENCE, ReferencePlugin, ReferenceRuntime
from tests.logger.probe_options import probe_options

pytestmark = pytest.mark.interop

LIFECYCLES = 5
# Events 1 to 11, all events of this version.
ALL_EVENTS = 0x7FF


async def _record(path: Path, folder: Path) -> None:
    programs = build_oldest()
    socket = folder / "nri.sock"
    recorder = Recorder.open(path)
    probes = Probes(
        recorder,
        probe_options(socket, "00", "50", "99", name="probe", once=True),
        ProbeListener(),
    )
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(
            await ReferenceRuntime.listen(
                socket, name="containerd", version="v1.7.0", program=programs.runtime
            )
        )
        running = asyncio.create_task(probes.run())
        await runtime.admit(3)
        for number, (index, name, does) in enumerate(
            (("20", "first", {"env": "ADDED"}), ("70", "second", {"annotation": "late"})), 4
        ):
            plugin = await ReferencePlugin.connect(
                socket,
                index=index,
                name=name,
                events=ALL_EVENTS,
                program=programs.plugin,
                **does,  # type: ignore[arg-type]
            )
            await stack.enter_async_context(plugin)
            await runtime.admit(number)
        # The runtime reports a plugin as synchronized shortly before it sends events to it.
        await runtime.play(2)
        await runtime.play(LIFECYCLES)
        probes.stop("done")
        await running
    recorder.close()


def test_changes_of_two_plugins_are_attributed_separately(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    asyncio.run(_record(path, tmp_path))
    with Recording.open(path) as recording:
        assert {session.nri_version for session in recording.sessions()} == {"0.3.0"}
        found = [one for one in recording_differ.rounds(recording) if one.name == "CreateContainer"]
    assert len(found) == LIFECYCLES + 2
    for one in found[-LIFECYCLES:]:
        assert one.seen_by == ("00-probe", "50-probe", "99-probe")
        assert [
            (step.change.kind, step.change.path, str(step.owner), step.evidence)
            for step in one.steps
        ] == [
            ("added", "/process/env/ADDED", "one of 01–49", (Evidence.PROBES,)),
            ("added", "/annotations/late", "one of 51–98", (Evidence.PROBES,)),
        ]
