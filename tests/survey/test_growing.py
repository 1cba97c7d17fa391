# SPDX-License-Identifier: Apache-2.0
"""A survey that goes on while the recording grows has the results of one survey of the whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from nri_scope.recording.reading.reader import Recording
from nri_scope.survey.survey import Survey, SurveyRun, survey
from tests.amount import amount, sampled
from tests.differ.node import Node

from .growing import GrowingCopy

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))
NORMAL = next(one for one in RECORDINGS if one.name.startswith("containerd-2.4"))
PLAYS = amount(60, 16)
GROUPS = 4


class Growth:
    """A growing recording, and its survey."""

    def __init__(self, source: Path, folder: Path, random: Random) -> None:
        self.folder = folder
        self.copy = GrowingCopy(source, folder / "growing.nriscope.db", random)
        self.is_recorded = True
        self.runs = 0
        """Number of survey runs so far."""
        self._run: SurveyRun | None = None
        self._random = random

    @property
    def file(self) -> Path:
        """The newest attribution file."""
        return self.folder / f"{self.runs}.db"

    def grow(self, until: int) -> Survey:
        """Add events, and survey them."""
        self.copy.grow(until)
        self.is_recorded = until < self.copy.last
        most_s = self._random.choice((None, 0.0))
        while True:
            found = None
            if self._run is not None:
                found = self._run.go_on(lambda share, until: None, most_s=most_s)
            if found is not None and found.has_more:
                continue
            if found is not None:
                return found
            self.close()
            self.runs += 1
            self._run = SurveyRun(self.copy.path, self.file, lambda: self.is_recorded)

    def close(self) -> None:
        """Close the files of the survey."""
        if self._run is not None:
            self._run.close()


def attributed(path: Path, file: Path) -> dict[int, tuple[object, ...]]:
    """Return the changes and problems of all events with an attribution file."""
    with Recording.open(path) as recording:
        recording.attach(file)
        return {one.id: (one.changed, one.owners, one.problem) for one in recording.events()}


def survey_in_steps(source: Path, folder: Path, random: Random) -> int:
    """Survey a recording in random steps, check the result, and return the number of runs."""
    growth = Growth(source, folder, random)
    with closing(growth), closing(growth.copy):
        found = growth.grow(until := 1)
        while until < growth.copy.last:
            until = min(growth.copy.last, until + random.choice((1, 1, 2, 3, 5, 8, 20)))
            found = growth.grow(until)
            assert found.until <= until
        path = growth.copy.path
        assert found == survey(path, folder / "whole.db")
        assert attributed(path, growth.file) == attributed(path, folder / "whole.db")
    return growth.runs


@pytest.mark.exhaustive
@pytest.mark.parametrize("wait_s", sampled([10.0, 0.0]))
@pytest.mark.parametrize("group", sampled(range(GROUPS)))
def test_any_steps_have_the_result_of_the_whole(
    group: int, wait_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.survey.survey.WAIT_S", wait_s)
    for seed in range(group, PLAYS, GROUPS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        node = Node(seed, folder / "node.nriscope.db")
        node.play()
        random = Random(seed)
        if random.random() < 0.3:
            add_gap(node.path, random)
        try:
            survey_in_steps(node.path, folder, random)
        except AssertionError as error:
            raise AssertionError((seed, node.runtime)) from error


def add_gap(path: Path, random: Random) -> None:
    """Add a gap between two events, of one session or of all."""
    with closing(sqlite3.connect(path)) as connection, connection:
        times = connection.execute("SELECT session, at_ns FROM event ORDER BY id").fetchall()
        first = random.randrange(len(times) - 1)
        last = min(len(times) - 1, first + random.choice((1, 2, 10)))
        connection.execute(
            "INSERT INTO gap (session, from_ns, to_ns, reason, lost) VALUES (?, ?, ?, 'lost', 1)",
            (random.choice((None, times[first][0])), times[first][1], times[last][1]),
        )


@pytest.mark.parametrize("wait_s", sampled([10.0, 0.0]))
@pytest.mark.parametrize("path", sampled(RECORDINGS), ids=lambda path: path.name)
def test_recordings_of_real_runtimes_are_surveyed_in_steps(
    path: Path, wait_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.survey.survey.WAIT_S", wait_s)
    # After a reconnection, the gap before it may explain earlier events. It is derived from the
    # sessions until the recorder has written it.
    assert survey_in_steps(path, tmp_path, Random(1)) <= (3 if wait_s else 20)


def test_events_are_read_once(tmp_path: Path) -> None:
    growth = Growth(NORMAL, tmp_path, Random(1))
    with closing(growth), closing(growth.copy):
        last = growth.copy.last
        read = [growth.grow(min(until, last)).until for until in range(10, last + 10, 10)]
        assert growth.runs == 1
    assert read == sorted(read)
    assert read[-1] == last


def test_a_pass_whose_time_is_over_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    is_recorded = True
    passes: list[Survey | None] = []
    with (
        closing(GrowingCopy(NORMAL, tmp_path / "growing.nriscope.db", Random(1))) as copy,
        closing(SurveyRun(copy.path, tmp_path / "run.db", lambda: is_recorded)) as run,
    ):
        copy.grow(copy.last)
        for _ in range(10):
            passes.append(run.go_on(lambda share, until: None, most_s=0.0))
        is_recorded = False
        whole = run.go_on(lambda share, until: None, most_s=0.0)
        last = copy.last
    assert all(one is not None and one.has_more for one in passes)
    read = [one.until for one in passes if one is not None]
    assert read == sorted(read)
    assert 0 < read[-1] < last
    assert whole is not None
    assert (whole.until, whole.has_more) == (last, False)


def test_an_open_round_is_completed_by_later_events(tmp_path: Path) -> None:
    path = next(one for one in RECORDINGS if one.name.startswith("containerd-2.1-slow"))
    growth = Growth(path, tmp_path, Random(1))
    with closing(growth), closing(growth.copy):
        # The first of two probes has seen the creation, and the second one has not yet.
        assert growth.grow(14).until < 13
        assert attributed(growth.copy.path, growth.file)[14] == ((), (), "")
        growth.grow(15)
        found = growth.grow(30)
        assert found.until >= 15
        assert attributed(growth.copy.path, growth.file)[15][2] == "slow"


def test_a_recording_that_goes_on_after_its_end_is_surveyed_anew(tmp_path: Path) -> None:
    growth = Growth(NORMAL, tmp_path, Random(1))
    with closing(growth), closing(growth.copy):
        last, growth.copy.last = growth.copy.last, 40
        assert growth.grow(40).until == 40
        assert growth.grow(40).until == 40
        assert growth.runs == 1
        growth.copy.last = last
        assert growth.grow(last) == survey(growth.copy.path, tmp_path / "whole.db")
        assert growth.runs == 2


def test_another_recording_with_this_name_is_surveyed_anew(tmp_path: Path) -> None:
    growth = Growth(NORMAL, tmp_path, Random(1))
    with closing(growth):
        growth.grow(20)
        growth.copy.close()
        for ending in ("", "-wal", "-shm"):
            Path(f"{growth.copy.path}{ending}").unlink(missing_ok=True)
        other = next(one for one in RECORDINGS if one.name.startswith("cri-o"))
        growth.copy = GrowingCopy(other, growth.copy.path, Random(1))
        with closing(growth.copy):
            found = growth.grow(growth.copy.last)
            assert found == survey(growth.copy.path, tmp_path / "whole.db")


def test_a_ring_removes_results_and_later_all_events_are_read_again(tmp_path: Path) -> None:
    growth = Growth(NORMAL, tmp_path, Random(1))
    with closing(growth), closing(growth.copy):
        last = growth.copy.last
        growth.grow(last // 2)
        growth.copy.remove(last // 8)
        growth.grow(last // 2 + 10)
        assert growth.runs == 1
        with closing(sqlite3.connect(growth.file)) as connection:
            ((first,),) = connection.execute("SELECT min(id) FROM event")
        assert first >= last // 8
        growth.copy.remove(last // 2)
        found = growth.grow(last)
        assert growth.runs == 2
        assert found == survey(growth.copy.path, tmp_path / "whole.db")


def test_a_finding_keeps_the_time_of_an_event_that_a_ring_removed(tmp_path: Path) -> None:
    path = next(one for one in RECORDINGS if one.name.startswith("containerd-2.1-slow"))
    growth = Growth(path, tmp_path, Random(1))
    with closing(growth), closing(growth.copy):
        before = growth.grow(60).findings
        assert before[0].events and before[0].at_ns is not None
        growth.copy.remove(before[0].events[0] + 1)
        after = growth.grow(62).findings
        assert growth.runs == 1
        assert after[0].at_ns == before[0].at_ns
