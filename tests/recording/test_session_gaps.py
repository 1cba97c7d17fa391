# SPDX-License-Identifier: Apache-2.0
"""Time without a session is a gap, whether the recorder or the runtime was absent."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import KILLED, LEFT_OUT, Gap, Role, Session
from nri_scope.logger.launched import LaunchedPlugin
from nri_scope.plugin import Identity, SessionEnd
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.query.coverage import coverage, range_words
from nri_scope.recording.query.event_pages import SessionTables
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.sessions import gaps_between
from nri_scope.report.collect import collect
from nri_scope.tui.store.recording_overview import EventDiscovery
from tests.agent.drained_reader import copied
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.logger.list_sink import exchange

RECORDINGS = Path(__file__).parents[2] / "recordings"
CASES = Path(__file__).parent.parent / "data" / "cases"
PREINSTALLED = CASES / "crio-00.nriscope.zip"
AT_THE_SOCKET = CASES / "crio-restart-socket.nriscope.zip"


def session(
    number: int,
    began: int,
    ended: int | None,
    *,
    role: Role = Role.LOGGER,
    reason: str = "interrupted",
) -> Session:
    return Session(number, role, "me", "00", "crio", "1", "", False, 1, 0, 0, began, ended, reason)


def gap(from_ns: int, to_ns: int, reason: str = "a reason", of: int | None = None) -> Gap:
    return Gap(7, of, from_ns, to_ns, reason, None)


def gap_times(sessions: list[Session], recorded_gaps: list[Gap]) -> list[tuple[int, int]]:
    return [(one.from_ns, one.to_ns) for one in gaps_between(sessions, recorded_gaps)]


def output_of(*arguments: str | Path) -> str:
    done = subprocess.run([NRI_SCOPE, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- laws ----------------------------------------------------------------------------------------

SPANS = st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda two: (two[0], sum(two)))
SESSIONS = st.lists(SPANS, max_size=6).map(
    lambda spans: [session(number, *span) for number, span in enumerate(sorted(spans), 1)]
)


def uncovered(sessions: list[Session], recorded_gaps: list[Gap]) -> set[int]:
    """Return the moments between first and last session without a session or a recorded gap."""
    if not sessions:
        return set()
    moments = set(range(sessions[0].started_ns, max(one.ended_ns or 0 for one in sessions)))
    for one in sessions:
        moments -= set(range(one.started_ns, one.ended_ns or 0))
    for each in recorded_gaps:
        moments -= set(range(each.from_ns, each.to_ns))
    return moments


@given(SESSIONS)
def test_every_moment_without_a_session_is_in_one_gap(sessions: list[Session]) -> None:
    found = [moment for span in gap_times(sessions, []) for moment in range(*span)]
    assert sorted(found) == sorted(uncovered(sessions, []))


@given(SESSIONS, st.lists(SPANS.map(lambda span: gap(*span)), max_size=4))
def test_other_moments_than_those_in_recorded_gaps_are_in_one_gap(
    sessions: list[Session], recorded_gaps: list[Gap]
) -> None:
    found = gaps_between(sessions, recorded_gaps)
    moments = [moment for each in found for moment in range(each.from_ns, each.to_ns)]
    assert sorted(moments) == sorted(uncovered(sessions, recorded_gaps))
    assert len({each.id for each in found}) == len(found)


@given(SESSIONS, st.integers(1, 6))
def test_an_open_session_has_no_end(sessions: list[Session], chosen: int) -> None:
    opened = [
        session(one.id, one.started_ns, None, reason="") if one.id == chosen else one
        for one in sessions
    ]
    limit = next((one.started_ns for one in opened if one.ended_ns is None), 100)
    assert all(to_ns <= limit for _, to_ns in gap_times(opened, []))


def test_a_killed_recorder_s_sessions_end_at_the_next_recorder_s_gap() -> None:
    killed = [session(1, 0, 30, reason=KILLED), session(2, 5, 30, reason=KILLED)]
    recorded_gaps = [gap(30, 50, KILLED)]
    assert gap_times([*killed, session(3, 50, 60), session(4, 65, 70)], recorded_gaps) == [(60, 65)]


def test_only_sessions_that_observe_a_node_count() -> None:
    sessions = [
        session(1, 0, 10),
        session(2, 12, 14, role=Role.CRI),
        session(3, 20, 30, role=Role.PROBE),
        session(4, 40, 50, role=Role.TAP),
    ]
    assert gap_times(sessions, []) == [(10, 20), (30, 40)]
    replays = [session(1, 0, 10, role=Role.REPLAY), session(2, 20, 30, role=Role.REPLAY)]
    assert gap_times(replays, []) == []


# -- real files ----------------------------------------------------------------------------------


def test_a_restart_is_a_gap_in_both_recordings_of_it() -> None:
    """Check a launched and an external recorder, without events from 04:24:02 to 04:24:05."""
    for path, words in (
        (PREINSTALLED, "no session was recorded after session 1 had ended: closed by the runtime"),
        (AT_THE_SOCKET, "not connected to the runtime: closed by the runtime"),
    ):
        with Recording.open(path) as recording:
            (found,) = recording.gaps()
            first, second = recording.sessions()
            tables = SessionTables()
            tables.read(recording)
        assert (found.session, found.lost, found.reason) == (None, None, words)
        assert found.from_ns == first.ended_ns
        assert found.to_ns == second.synced_ns
        assert tables.gaps == (found,)
        assert 3e9 < found.to_ns - found.from_ns < 7e9


@pytest.mark.beyond_core
@pytest.mark.exhaustive
@pytest.mark.parametrize("path", sampled([PREINSTALLED, AT_THE_SOCKET]), ids=lambda path: path.name)
def test_stats_log_report_and_export_show_the_gap(path: Path, tmp_path: Path) -> None:
    assert "gaps      1, " in output_of("report", path)
    (listed_gap,) = json.loads(output_of("report", path, "--format", "json"))["gaps"]["list"]
    assert "closed by the runtime" in listed_gap["reason"]
    assert output_of("log", path).count("events lost: unknown") == 1
    report = tmp_path / "report.md"
    subprocess.run([NRI_SCOPE, "report", path, "-o", report], check=True, capture_output=True)
    assert "### Gaps\n" in report.read_text()
    # A copy stores the gap once.
    copy = tmp_path / "copy.nriscope.zip"
    subprocess.run([NRI_SCOPE, "export", path, "-o", copy], check=True, capture_output=True)
    with Recording.open(copy) as recording:
        assert len(recording.gaps()) == 1
        assert len(recording.rows("SELECT id FROM gap")) == 1


async def test_a_restarted_launched_logger_begins_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "ring.nriscope.db"
    for reason in ("closed by the runtime", "killed", "the end"):
        plugin = LaunchedPlugin(Identity("00", "nri-scope"))
        plugin.configure(
            api.ConfigureRequest(
                runtime_name="cri-o", runtime_version="1.37.0", config=f"output: {path}"
            )
        )
        plugin.answered(exchange("Configure"))
        await plugin.finish(SessionEnd(reason, configured=True, synchronized=True))
    with Recording.open(path) as recording:
        gaps, sessions = recording.gaps(), recording.sessions()
    assert [(one.from_ns, one.to_ns) for one in gaps] == [
        (before.ended_ns, after.started_ns) for before, after in pairwise(sessions)
    ]
    assert ["session 1 had ended: closed" in gaps[0].reason, "killed" in gaps[1].reason] == [1, 1]


@pytest.mark.parametrize("name", ["containerd-1.7-restart", "containerd-2.1-restart"])
def test_each_view_says_that_nothing_was_observed_until_the_end_of_synchronize(
    name: str, tmp_path: Path
) -> None:
    path = RECORDINGS / f"{name}.nriscope.zip"
    (tmp_path / "node").mkdir()
    unpack(path, tmp_path / "node").rename(tmp_path / "node" / "a.nriscope.db")
    copied(tmp_path / "node", tmp_path / "copy.db", "pod:shop/none", context=False)
    with Recording.open(path) as recording, Recording.open(tmp_path / "copy.db") as copy:
        _, second = recording.sessions()
        whole = coverage(recording)
        # The TUI, the report and what an agent sent.
        assert EventDiscovery().first(recording).coverage == whole
        assert collect(recording).coverage == whole
        unobserved = coverage(copy, whole.from_ns, whole.to_ns).unobserved
        assert [one for one in unobserved if one.why != LEFT_OUT] == [*whole.unobserved]
        words = range_words(recording, (second.started_ns + 1, second.synced_ns))
        (noted,) = recording.gaps()
        assert [(each.to_ns, each.reason) for each in copy.gaps() if not each.is_left_out] == [
            (noted.to_ns, noted.reason)
        ]
    (between,) = whole.unobserved
    assert between == (noted.from_ns, second.synced_ns, noted.reason)
    since = between._replace(from_ns=second.started_ns + 1)
    assert words.endswith(f"not observed: {since.words}")
