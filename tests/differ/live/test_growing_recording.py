# SPDX-License-Identifier: Apache-2.0
"""Following a recording that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic_ns, time_ns

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.live import Follower, ReadPosition, Seen
from nri_scope.recording.reading.reader import Recording

from .probing import Probing, a_container, change, create, wait_for

BEGINNING = ReadPosition(0, 0)


@pytest.fixture
def probing(tmp_path: Path) -> Iterator[Probing]:
    probing = Probing(tmp_path / "a.nriscope.db", "00", "99")
    yield probing
    probing.recorder.close()


def rounds(seen: Iterable[Seen]) -> list[RoundDiff]:
    return [one for each in seen for one in each.rounds]


def paths(found: RoundDiff) -> list[str]:
    return [step.change.path for step in found.steps]


def test_a_round_is_returned_when_all_saw_it_or_the_next_begins(probing: Probing) -> None:
    probing.created(_00=a_container())
    probing.settle()
    with Recording.open(probing.path) as recording:
        follower = Follower(recording, BEGINNING)
        assert rounds(follower.read()) == []
        probing.created(_99=a_container(k="v"))
        probing.settle()
        (found,) = rounds(follower.read())
        assert (found.name, found.container, paths(found)) == (
            "CreateContainer",
            "app-id",
            ["/annotations/k"],
        )
        assert follower.differ.name_of("app-id") == "shop/web/app"
        for event in (api.POST_CREATE_CONTAINER, api.START_CONTAINER):
            probing.sees("00", "StateChange", change(event, a_container(k="v")))
        probing.settle()
        assert [one.name for one in rounds(follower.read())] == ["PostCreateContainer"]
        probing.recorder.close()
        assert [one.name for one in rounds(follower.finish())] == ["StartContainer"]


def test_a_stalled_round_is_described_once_and_not_returned(
    probing: Probing,
) -> None:
    now = began = monotonic_ns()
    probing.sees("00", "CreateContainer", create(a_container()), at_mono_ns=began)
    probing.settle()
    with Recording.open(probing.path) as recording:
        follower = Follower(recording, BEGINNING, monotonic_ns=lambda: now)
        assert rounds(follower.read()) == []
        assert follower.describe_open_round() == ""
        now += 10_000_000_000
        assert rounds(follower.read()) == []
        assert follower.describe_open_round() == (
            "CreateContainer of shop/web/app: seen by 00-nri-scope, by no other connection for "
            "10.0s; the event is shown when later events show its outcome"
        )
        now += 3_600_000_000_000
        assert rounds(follower.read()) == []
        assert follower.describe_open_round() == ""
        probing.sees("99", "CreateContainer", create(a_container(k="v")), at_mono_ns=began + 1)
        probing.settle()
        (found,) = rounds(follower.read())
        assert (paths(found), found.failure) == (["/annotations/k"], "")
        probing.recorder.close()
        assert rounds(follower.finish()) == []


def test_a_round_ends_when_the_missing_sessions_have_ended(probing: Probing) -> None:
    probing.created(_00=a_container())
    probing.settle()
    with Recording.open(probing.path) as recording:
        follower = Follower(recording, BEGINNING)
        assert rounds(follower.read()) == []
        probing.recorder.end_session(probing.sessions["99"], "lost", time_ns())
        found: list[RoundDiff] = []

        def has_rounds() -> bool:
            found.extend(rounds(follower.read()))
            return bool(found)

        wait_for(has_rounds)
        (one,) = found
        assert (one.seen_by, one.missed_by) == (("00-nri-scope",), ("99-nri-scope",))
        assert one.failure == ""
        assert one.remarks == (
            "nothing was observed after 00-nri-scope, and it is not known whether the chain "
            "continued",
        )


def test_a_probe_that_joins_late_is_part_of_later_rounds(probing: Probing) -> None:
    probing.created(_00=a_container("one"), _99=a_container("one", k="v"))
    probing.settle()
    with Recording.open(probing.path) as recording:
        follower = Follower(recording, BEGINNING)
        (first,) = rounds(follower.read())
        probing.sessions["50"] = probing.join("50")
        two = a_container("two"), a_container("two", k="v")
        probing.created(_00=two[0], _50=two[1], _99=two[1])
        probing.recorder.close()
        (second,) = rounds(follower.finish())
        assert len(first.seen_by) == 2
        assert second.seen_by == ("00-nri-scope", "50-nri-scope", "99-nri-scope")
        (step,) = second.steps
        assert step.owner.index == "01–49"


def test_earlier_events_in_the_file_are_not_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.nriscope.db"
    before = Probing(path, "00", "99")
    before.created(_00=a_container("old"), _99=a_container("old", k="v"))
    before.recorder.close()
    probing = Probing(path)
    with Recording.open(path) as recording:
        after = ReadPosition.end_of(recording)
        assert after == ReadPosition(2, 2)
        probing.sessions |= {index: probing.join(index) for index in ("00", "99")}
        probing.created(_00=a_container("new"), _99=a_container("new", k="v"))
        probing.recorder.close()
        (found,) = rounds(Follower(recording, after).finish())
    assert found.container == "new-id"


def test_every_event_is_returned_once_with_its_request(probing: Probing) -> None:
    with Recording.open(probing.path) as recording:
        follower = Follower(recording, BEGINNING)
        seen: list[Seen] = []
        for number in range(30):
            probing.created(_00=a_container(f"c{number}"), _99=a_container(f"c{number}"))
            if number % 10 == 0:
                probing.settle()
                seen += follower.read()
        probing.recorder.close()
        seen += follower.finish()
        ids = [one.event.id for one in seen if one.event is not None]
        assert ids == list(range(1, 61))
        for one in seen:
            if one.event is not None:
                assert one.request == recording.request(one.event.id)
        assert len(rounds(seen)) == 30
