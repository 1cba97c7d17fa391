# SPDX-License-Identifier: Apache-2.0
"""A copy over the network observed what the node's recording did, whatever its filter."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope.events import FILTERED, LEFT_OUT, NOT_CONNECTED, Gap, Role
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.query.coverage import Unobserved, coverage
from nri_scope.recording.reading.reader import Recording
from tests.agent.drained_reader import copied
from tests.amount import amount
from tests.recording.traffic import NOW, a_start, an_item

RECORDINGS = Path(__file__).parents[2] / "recordings"
SECOND = 10**9
POD = b"\x08\x01\x12\x0e\n\x01p\x12\x03web\x22\x04shop"
"""A StateChange of the pod shop/web: RunPodSandbox."""


def restarted(path: Path, where: str = "") -> None:
    """Write the sessions of three recorders; the second was killed, and none saw shop/none.

    ``where``: the filter of the first recorder.
    """
    for number in range(3):
        began = NOW + number * 100 * SECOND
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start(started_ns=began))
        if where and number == 0:
            recorder.note(session, began, f"{FILTERED}: {where}")
        recorder.capture(session, an_item("Synchronize", wall_ns=began + SECOND))
        # Only the first session has an event of the pod.
        request = POD if number == 0 else b"\x08\x01"
        recorder.capture(session, an_item("StateChange", request, wall_ns=began + 10 * SECOND))
        if number == 2:
            recorder.put_control(Gap(0, session, began + 20, began + 30, "stalled", 3))
        recorder.end_session(session, "over", began + 50 * SECOND)
        recorder.close()


class Run(NamedTuple):
    """A recorder that observed from one second to another one, in a file."""

    file: int
    began: int
    ended: int
    was_killed: bool
    reconnected: int
    """Second in which the runtime was not connected; 0 for none."""
    pod: int
    """Second of an event of the pod shop/web; 0 for none."""
    is_opened_again: bool
    """Whether a recorder opened its file afterwards, and ended before it had a session."""


@st.composite
def runs(draw: st.DrawFn) -> list[Run]:
    """Recorders, one after the other in each file; recorders of different files may overlap."""
    found: list[Run] = []
    for file in range(draw(st.integers(1, 3))):
        began = draw(st.integers(0, 40))
        for _ in range(draw(st.integers(1, 3))):
            ended = began + draw(st.integers(3, 20))
            seconds = st.just(0) | st.integers(began + 1, ended - 1)
            whether = st.booleans()
            found.append(
                Run(file, began, ended, draw(whether), draw(seconds), draw(seconds), draw(whether))
            )
            began = ended + draw(st.integers(1, 20))
    return found


def recorded(folder: Path, run: Run) -> None:
    """Write an event for each second of a recorder; one that was killed leaves its session open."""
    recorder = Recorder.open(folder / f"r{run.file}.nriscope.db")
    session = recorder.begin_session(a_start(started_ns=NOW + run.began * SECOND))
    synchronizes = run.began
    for second in range(run.began, run.ended + 1):
        at_ns = NOW + second * SECOND
        if second and second == run.reconnected:
            recorder.end_session(session, "closed", at_ns)
            synchronizes = second + 1
            next_ns = at_ns + SECOND - 1
            recorder.note_gap(None, at_ns, next_ns, NOT_CONNECTED, None)
            session = recorder.begin_session(a_start(started_ns=next_ns))
            continue
        method = "Synchronize" if second == synchronizes else "StateChange"
        request = POD if second == run.pod != synchronizes else b"\x08\x01"
        recorder.capture(session, an_item(method, request, wall_ns=at_ns))
    if not run.was_killed:
        recorder.end_session(session, "over", NOW + run.ended * SECOND + 1)
    recorder.close()
    if run.is_opened_again:
        Recorder.open(folder / f"r{run.file}.nriscope.db").close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=amount(20, 8))
@given(runs())
def test_gaps_of_a_node_are_what_no_recorder_observed(tmp_path: Path, recorders: list[Run]) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    for run in recorders:
        recorded(folder, run)
    copied(folder, tmp_path / f"{folder.name}.db", "", context=False)
    with Recording.open(tmp_path / f"{folder.name}.db") as copy:
        gaps = copy.gaps()
        observed = coverage(copy)
    for context in (False, True):
        part = tmp_path / f"{folder.name}-{context}.db"
        copied(folder, part, "pod:shop/web", context=context)
        with Recording.open(part) as copy:
            shown = [(gap.from_ns, gap.to_ns) for gap in copy.gaps() if not gap.is_left_out]
            assert shown == [(gap.from_ns, gap.to_ns) for gap in gaps]
            found = coverage(copy, observed.from_ns, observed.to_ns)
            assert times(each for each in found.unobserved if each.why != LEFT_OUT) == times(
                observed.unobserved
            )
    last = max(run.ended for run in recorders)
    for second in range(min(run.began for run in recorders), last):
        at_ns = NOW + second * SECOND + SECOND // 2
        is_observed = any(
            run.began <= second < run.ended and second != (run.reconnected or -1)
            for run in recorders
        )
        in_gap = [gap for gap in gaps if gap.from_ns <= at_ns < gap.to_ns]
        assert bool(in_gap) != is_observed, (second, gaps)


def times(unobserved: Iterable[Unobserved]) -> list[tuple[int, int]]:
    return [(each.from_ns, each.to_ns) for each in unobserved]


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("where", ["pod:shop/web", "pod:shop/none", "event:StateChange", ""])
@pytest.mark.parametrize(
    "name", ["restarted", "filtered", "containerd-2.1-restart.nriscope.zip", "demo"]
)
def test_a_filtered_copy_observed_what_the_node_did(
    tmp_path: Path, name: str, where: str, *, context: bool
) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    source = folder / "a.nriscope.db"
    if name in ("restarted", "filtered"):
        restarted(source, "ns:shop" if name == "filtered" else "")
    elif name == "demo":
        shutil.copy(RECORDINGS / "demo.nriscope.db", source)
    else:
        unpack(RECORDINGS / name, folder).rename(source)
    copied(folder, tmp_path / "copy.db", where, context=context)
    with Recording.open(source) as recording, Recording.open(tmp_path / "copy.db") as copy:
        whole = coverage(recording)
        is_filtered = any(one.why == f"{FILTERED}: ns:shop" for one in whole.unobserved)
        assert is_filtered == (name == "filtered")
        part = coverage(copy, whole.from_ns, whole.to_ns)
        sessions = [session for session in recording.sessions() if session.role != Role.REPLAY]
        assert len(copy.sessions()) >= len(sessions)
    assert [one for one in part.unobserved if one.why != LEFT_OUT] == [*whole.unobserved]
