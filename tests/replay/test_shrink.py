# SPDX-License-Identifier: Apache-2.0
"""Shrink recordings to the fewest events that show the same failure, and no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.plugin import Adjustment
from nri_scope.recording.reader import Recording
from nri_scope.replay.golden import Golden
from nri_scope.replay.playback import ReplayListener
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.replay.shrink import (
    Check,
    Limits,
    Place,
    Progress,
    Shrinking,
    ShrinkJob,
    Shrunk,
    golden_of,
    write_test,
)
from nri_scope.replay.shrink.search import Exhausted, Search, fewest
from nri_scope.share.extract import Selection, extract
from nri_scope.transport.loop import run

from .plays import job_of, played
from .recordings import POD, RECORDING, ROOT, container, life, recording, run_pod

CRASH_LOOP = ROOT / "recordings" / "containerd-2.1-crash-loop.nriscope.zip"

Make = Callable[[], Mapping[str, object]]
"""Makes the plugins for one replay, as objects keep what they have received."""


class Shrinker:
    """Makes a recording smaller, with plugins in this process that are new for each replay."""

    def __init__(
        self,
        path: Path,
        make: Make,
        *,
        golden: Golden | None = None,
        check: int = 1,
        limits: Limits | None = None,
        interrupt_at: int = 0,
    ) -> None:
        self._make = make
        self._interrupt_at = interrupt_at
        self.replays = 0
        wanted = ShrinkJob(job_of(path, make()), golden, check, limits or Limits())
        self.shrinking = Shrinking(wanted, self._play)
        self.progress: list[Progress] = []

    def _play(self, job: Job, audience: ReplayListener) -> Replayed:
        self.replays += 1
        if self.replays == self._interrupt_at:
            raise KeyboardInterrupt
        plugin_set = job_of(job.recording, self._make()).plugin_set
        return run(replay(dataclasses.replace(job, plugin_set=plugin_set), audience))

    def shrink(self) -> Shrunk:
        return self.shrinking.shrink(self.shrinking.confirm(), self.progress.append)


def event_texts(path: Path, numbers: Sequence[int]) -> list[str]:
    """Return events as text: name and container or pod."""
    with Recording.open(path) as opened:
        events = opened.events(among=numbers)
        return [f"{one.event} {one.container or one.pod}".strip() for one in events]


def write_and_verify(shrinker: Shrinker, shrunk: Shrunk, path: Path) -> bool:
    """Write the shrunk recording; return whether it shows the same failure, and no other."""
    shrinker.shrinking.write(shrunk, path)
    replayed, shown = shrinker.shrinking.replay(shrunk.failure, path)
    return shown and len(list(replayed.failures())) == 1


class Refuses:
    """Fails when a container with this name is created."""

    def __init__(self, name: str = "broken") -> None:
        self._name = name

    def create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
        if container.name == self._name:
            raise ValueError("not this one")


class CountsStops:
    """Fails at the stop with this number, of any container."""

    def __init__(self, number: int) -> None:
        self._remaining = number

    def stop_container(self, pod: api.PodSandbox, container: api.Container) -> None:
        self._remaining -= 1
        if self._remaining == 0:
            raise ValueError("enough")


def three_lives(path: Path) -> Path:
    """Containers one, two and three of one pod, one after the other, each updated."""
    events = [run_pod()]
    for name in ("one", "two", "three"):
        events += life(container(name), updated=True)
    return recording(path, events)


# -- the algorithm ----------------------------------------------------------------------------


@given(st.integers(0, 40), st.data())
def test_fewest_returns_exactly_the_needed_items(count: int, data: st.DataObject) -> None:
    items = list(range(count))
    needed = data.draw(st.sets(st.sampled_from(items)) if items else st.just(set[int]()))
    assert fewest(items, needed.issubset) == sorted(needed)


@given(st.sets(st.frozensets(st.integers(0, 9), min_size=1), min_size=1))
def test_no_item_of_the_result_can_be_removed(enough: set[frozenset[int]]) -> None:
    everything = range(10)
    known = {*enough, frozenset(everything)}

    def shows(some: Sequence[int]) -> bool:
        return frozenset(some) in known

    remaining = fewest(everything, shows)
    assert shows(remaining)
    assert not any(shows([one for one in remaining if one != out]) for out in remaining)


def test_one_of_many_is_found_quickly() -> None:
    calls = 0

    def shows(some: Sequence[int]) -> bool:
        nonlocal calls
        calls += 1
        return 700 in some

    assert fewest(range(1000), shows) == [700]
    assert calls < 50


def test_a_missing_temporary_folder_ends_the_search_with_a_reason(tmp_path: Path) -> None:
    search = Search(RECORDING, 1, tmp_path / "nowhere", lambda path: True)
    with pytest.raises(Exhausted, match="a temporary file: cannot be written: no such file"):
        search.run(lambda stage: None)
    assert search.best == {event.id for event in search.events}


# -- remaining events --------------------------------------------------------------------------


def test_a_whole_recording_is_shrunk_to_one_creation(tmp_path: Path) -> None:
    shrinker = Shrinker(RECORDING, lambda: {"10-mine": Refuses()})
    shrunk = shrinker.shrink()
    assert event_texts(RECORDING, shrunk.numbers) == [
        "RunPodSandbox batch",
        "CreateContainer broken",
    ]
    assert (shrunk.before, shrunk.after, shrunk.ended) == (30, 2, "")
    assert shrunk.replays < 15
    assert [one.events for one in shrinker.progress] == sorted(
        (one.events for one in shrinker.progress), reverse=True
    )
    assert write_and_verify(shrinker, shrunk, tmp_path / "small.nriscope.db")


def test_events_that_are_needed_together_are_kept(tmp_path: Path) -> None:
    path = three_lives(tmp_path / "x.nriscope.db")
    shrunk = Shrinker(path, lambda: {"10-mine": CountsStops(2)}).shrink()
    assert event_texts(path, shrunk.numbers) == [
        "RunPodSandbox web", "CreateContainer one", "StopContainer one",
        "CreateContainer two", "StopContainer two",
    ]  # fmt: skip


def test_a_crash_loop_is_shrunk_to_the_needed_restarts(tmp_path: Path) -> None:
    shrinker = Shrinker(CRASH_LOOP, lambda: {"10-mine": CountsStops(3)})
    shrunk = shrinker.shrink()
    assert event_texts(CRASH_LOOP, shrunk.numbers) == [
        "RunPodSandbox web", *["CreateContainer app", "StopContainer app"] * 3,
    ]  # fmt: skip
    assert shrunk.replays < 30
    assert write_and_verify(shrinker, shrunk, tmp_path / "small.nriscope.db")


def test_another_failure_is_not_taken_for_the_same(tmp_path: Path) -> None:
    class NeedsBefore:
        """Fails at stops without a start and, with another error, at the stop of ``two``."""

        def __init__(self) -> None:
            self._started: set[str] = set()

        def start_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            self._started.add(container.id)

        def stop_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            if container.id not in self._started:
                raise ValueError("never heard of it")
            if container.name == "two":
                raise ValueError("will not stop")

    path = three_lives(tmp_path / "x.nriscope.db")
    shrunk = Shrinker(path, lambda: {"10-mine": NeedsBefore()}).shrink()
    assert "will not stop" in shrunk.failure.check.text
    assert event_texts(path, shrunk.numbers)[1:] == [
        "CreateContainer two", "StartContainer two", "StopContainer two",
    ]  # fmt: skip


def test_numbers_in_an_error_may_differ(tmp_path: Path) -> None:
    class Numbers:
        def __init__(self) -> None:
            self._events = 0

        def create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            self._events += 1
            if container.name == "three":
                raise ValueError(f"event {self._events}, {self!r}")

    path = three_lives(tmp_path / "x.nriscope.db")
    shrunk = Shrinker(path, lambda: {"10-mine": Numbers()}).shrink()
    assert event_texts(path, shrunk.numbers) == ["RunPodSandbox web", "CreateContainer three"]


def test_a_conflict_of_two_plugins_is_kept(tmp_path: Path) -> None:
    class Sets:
        def create_container(self, pod: api.PodSandbox, container: api.Container) -> Adjustment:
            return Adjustment().add_env("SAME" if container.name == "two" else "OWN", repr(self))

    class SetsToo(Sets):
        def create_container(self, pod: api.PodSandbox, container: api.Container) -> Adjustment:
            return Adjustment().add_env("SAME", repr(self))

    path = three_lives(tmp_path / "x.nriscope.db")
    shrunk = Shrinker(path, lambda: {"10-a": Sets(), "20-b": SetsToo()}).shrink()
    assert shrunk.failure.check.kind == "conflict"
    assert event_texts(path, shrunk.numbers) == ["RunPodSandbox web", "CreateContainer two"]


def test_check_selects_the_second_failure(tmp_path: Path) -> None:
    class RefusesMost:
        def create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            if container.name != "one":
                raise ValueError("no")

    path = three_lives(tmp_path / "x.nriscope.db")
    make: Make = lambda: {"10-mine": RefusesMost()}  # noqa: E731
    assert event_texts(path, Shrinker(path, make, check=2).shrink().numbers)[1:] == [
        "CreateContainer three"
    ]
    with pytest.raises(UsageError, match="--check 3: only 2 fail"):
        Shrinker(path, make, check=3).shrink()


# -- existing containers -------------------------------------------------------------------------


class NeedsMany:
    """Fails at a creation if Synchronize had at least this many containers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._existing = 0

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> None:
        self._existing = len(containers)

    def create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
        if self._existing >= self._count:
            raise ValueError("full")


def with_state(path: Path) -> Path:
    """Write a recording in which three containers exist and two others are created."""
    names = ("old-1", "old-2", "old-3")
    state = api.SynchronizeRequest(pods=[POD], containers=[container(name) for name in names])
    return recording(path, [*life(container("one")), *life(container("two"))], state=state)


def test_existing_containers_are_kept_where_needed(tmp_path: Path) -> None:
    path = with_state(tmp_path / "x.nriscope.db")
    shrinker = Shrinker(path, lambda: {"10-mine": NeedsMany(3)})
    shrunk = shrinker.shrink()
    assert event_texts(path, shrunk.numbers) == ["Synchronize", "CreateContainer one"]
    assert shrunk.after == 1
    assert write_and_verify(shrinker, shrunk, tmp_path / "small.nriscope.db")


def test_existing_containers_are_removed_where_not_needed(tmp_path: Path) -> None:
    path = with_state(tmp_path / "x.nriscope.db")
    shrinker = Shrinker(path, lambda: {"10-mine": NeedsMany(0)})
    shrunk = shrinker.shrink()
    assert event_texts(path, shrunk.numbers) == ["CreateContainer one"]
    small = tmp_path / "small.nriscope.db"
    write_and_verify(shrinker, shrunk, small)
    with Recording.open(small) as opened:
        state = opened.state(1)
    assert (len(state.pods), len(state.containers), state.complete) == (1, 0, True)


def test_a_failing_synchronize_needs_no_event(tmp_path: Path) -> None:
    class CannotSynchronize:
        def synchronize(
            self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
        ) -> None:
            if len(containers) == 3:
                raise ValueError("too many")

    path = with_state(tmp_path / "x.nriscope.db")
    shrunk = Shrinker(path, lambda: {"10-mine": CannotSynchronize()}).shrink()
    assert event_texts(path, shrunk.numbers) == ["Synchronize"]
    assert shrunk.after == 0


# -- goldens ----------------------------------------------------------------------------------


class Answers:
    """Adds a variable to each container, with another value for the named ones."""

    def __init__(self, *others: str) -> None:
        self._others = others

    def create_container(self, pod: api.PodSandbox, container: api.Container) -> Adjustment:
        return Adjustment().add_env("IS", "other" if container.name in self._others else "this")


class Updates:
    """Fails at an update to 201 CPU shares, if ``fails`` is set."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> None:
        shares = resources.cpu.shares.value
        if self._fails and shares == 201:
            raise ValueError("no such update")


def golden(path: Path, plugin: object) -> Golden:
    """Return a golden of the answers of a plugin."""
    result = played(path, {"10-mine": plugin})
    return Golden.of(result.replies(), result.origin, result.name_of)


def test_one_reply_that_does_not_match_the_golden_is_left(tmp_path: Path) -> None:
    path = three_lives(tmp_path / "x.nriscope.db")
    wanted = golden(path, Answers())
    shrinker = Shrinker(path, lambda: {"10-mine": Answers("two")}, golden=wanted)
    shrunk = shrinker.shrink()
    assert shrunk.failure.check.text == (
        "10-mine shop/web/two CreateContainer: the reply differs from the golden"
    )
    assert event_texts(path, shrunk.numbers) == ["RunPodSandbox web", "CreateContainer two"]
    small = tmp_path / "small.nriscope.db"
    shrinker.shrinking.write(shrunk, small)
    result, shown = shrinker.shrinking.replay(shrunk.failure, small)
    assert shown
    # The shrunk recording has its own golden, which expects what the original's does.
    assert shrunk.against is not None
    own = golden_of(shrunk.against, shrunk.failure.check, result)
    assert len(own.compare(result.replies(), result.name_of)) == 1
    right = played(small, {"10-mine": Answers()})
    own.check_origin(right.origin)
    assert own.compare(right.replies(), right.name_of) == []


def test_a_second_update_is_compared_as_the_second(tmp_path: Path) -> None:
    one = container("one")
    events = [run_pod(), *life(one, updated=True)]
    second = api.UpdateContainerRequest(pod=POD, container=one)
    second.linux_resources.cpu.shares.value = 201
    events.insert(-2, ("UpdateContainer", second))
    path = recording(tmp_path / "x.nriscope.db", events)
    wanted = golden(path, Updates(fails=False))
    shrinker = Shrinker(path, lambda: {"10-mine": Updates(fails=True)}, golden=wanted)
    shrunk = shrinker.shrink()
    assert shrunk.failure.check.event == "UpdateContainer#2"
    assert event_texts(path, shrunk.numbers)[1:] == ["CreateContainer one", "UpdateContainer one"]
    small = tmp_path / "small.nriscope.db"
    shrinker.shrinking.write(shrunk, small)
    result, _ = shrinker.shrinking.replay(shrunk.failure, small)
    assert shrunk.against is not None
    own = golden_of(shrunk.against, shrunk.failure.check, result)
    right = played(small, {"10-mine": Updates(fails=False)})
    assert own.compare(right.replies(), right.name_of) == []
    assert len(own.compare(result.replies(), result.name_of)) == 1


def test_a_missing_reply_is_a_failure_to_shrink_to(tmp_path: Path) -> None:
    class Leaves:
        """Subscribes to fewer events than the golden expects."""

        def create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            pass

    class Stays(Leaves):
        def remove_container(self, pod: api.PodSandbox, container: api.Container) -> None:
            pass

    path = three_lives(tmp_path / "x.nriscope.db")
    wanted = golden(path, Stays())
    shrunk = Shrinker(path, lambda: {"10-mine": Leaves()}, golden=wanted).shrink()
    assert shrunk.failure.check.event == "RemoveContainer"
    remaining = event_texts(path, shrunk.numbers)
    assert [one.split()[0] for one in remaining][1:] == ["CreateContainer", "RemoveContainer"]


def test_a_golden_of_another_recording_is_refused(tmp_path: Path) -> None:
    path = three_lives(tmp_path / "x.nriscope.db")
    wanted = golden(path, Answers())
    with pytest.raises(UsageError, match="is for another recording"):
        Shrinker(RECORDING, lambda: {"10-mine": Answers("one")}, golden=wanted).shrink()


# -- end of the search ------------------------------------------------------------------------


def test_a_replay_without_failures_is_rejected() -> None:
    with pytest.raises(UsageError, match="no check fails: every reply is valid"):
        Shrinker(RECORDING, lambda: {"10-mine": Refuses("nobody")}).shrink()


def test_an_intermittent_failure_is_replayed_repeatedly(tmp_path: Path) -> None:
    path = three_lives(tmp_path / "x.nriscope.db")
    made = 0

    def make() -> Mapping[str, object]:
        nonlocal made
        made += 1
        # The first one gets no events: only its name is used.
        return {"10-mine": Refuses("two" if made % 2 == 0 else "")}

    shrinker = Shrinker(path, make)
    failure = shrinker.shrinking.confirm()
    assert (failure.occurrences, failure.replays, failure.is_stable) == (2, 3, False)
    shrunk = shrinker.shrinking.shrink(failure, shrinker.progress.append)
    assert event_texts(path, shrunk.numbers) == ["RunPodSandbox web", "CreateContainer two"]
    assert write_and_verify(shrinker, shrunk, tmp_path / "small.nriscope.db")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(replays=1), "the limit of 1 replays was reached"),
        (Limits(seconds=0), "the limit of 0 s was reached"),
    ],
)
def test_a_search_ends_at_its_limit(limits: Limits, words: str) -> None:
    shrinker = Shrinker(RECORDING, lambda: {"10-mine": Refuses()}, limits=limits)
    shrunk = shrinker.shrink()
    assert shrunk.ended == words
    assert 2 < shrunk.after <= 30


def test_an_interrupted_search_returns_the_best_result(tmp_path: Path) -> None:
    # Three replays confirm the failure; the fourth one leaves something out.
    shrinker = Shrinker(RECORDING, lambda: {"10-mine": Refuses()}, interrupt_at=5)
    shrunk = shrinker.shrink()
    assert shrunk.interrupted
    assert 2 < shrunk.after < 30
    assert write_and_verify(shrinker, shrunk, tmp_path / "small.nriscope.db")


def test_bare_extraction_adds_only_the_creations_of_pod_and_container(tmp_path: Path) -> None:
    path = three_lives(tmp_path / "x.nriscope.db")
    with Recording.open(path) as source:
        (stop,) = (
            event.id
            for event in source.events()
            if (event.event, event.container) == ("StopContainer", "two")
        )
        bare = extract(source, tmp_path / "bare.nriscope.db", Selection(numbers=[stop], bare=True))
        full = extract(source, tmp_path / "full.nriscope.db", Selection(numbers=[stop]))
    assert (bare.counts.events, bare.counts.context) == (1, 4)
    assert full.counts.context > bare.counts.context
    assert event_texts(bare.path, range(100)) == [
        "Configure", "Synchronize", "RunPodSandbox web", "CreateContainer two", "StopContainer two",
    ]  # fmt: skip


# -- the test case ----------------------------------------------------------------------------


def test_error_text_of_a_plugin_is_escaped_in_the_test(tmp_path: Path) -> None:
    nasty = 'a """\\N{x}\x1b[2J\u202e" \\'
    check = Check("error", "10-mine", "CreateContainer", 'shop/web/"é', text=nasty)
    job = job_of(RECORDING, {"10-mine": Refuses()}, faults=["split-sync"], effects=False)
    place = Place.of(tmp_path / "new" / "folder", check)
    write_test(place, job, check, faults=['"\x1b\\'])
    code = place.test.read_text()
    compile(code, "test", "exec")
    assert "\x1b" not in code
    assert place.name == "test_create_container_shop_web"
    assert "effects=False" in code
    with pytest.raises(UsageError, match="file exists"):
        Place.of(tmp_path / "new" / "folder", check)
