# SPDX-License-Identifier: Apache-2.0
"""Timers that follow the recording's time, of plugins in this process and of launched ones."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.filter import parse
from nri_scope.nri import recording_clock
from nri_scope.plugin import Container, PodSandbox, RuntimeHandle, Update
from nri_scope.replay.chain import Command
from nri_scope.replay.playback import ReplayListener, ReplayProgress
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.recording_clock import TIMERS_MAX, RecordingClock
from nri_scope.replay.report import Report
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.replay.script import ReplaySelection
from nri_scope.replay.testing import perform, plugin_set_of
from nri_scope.runtime import Plugin
from nri_scope.transport.loop import run
from tests.runtime_emulation.small_plugin import SmallPlugin

from .plays import job_of, junit_failures, played, played_to_peers
from .recordings import container, life, recording, run_pod

ROOT = Path(__file__).parents[2]
APP = "shop/web/app"


@pytest.fixture(scope="module")
def one_life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One event per second: CreateContainer (event 4) to RemoveContainer (event 11)."""
    path = tmp_path_factory.mktemp("clock") / "life.nriscope.db"
    return recording(path, [run_pod(), *life(container(), updated=True)])


class Cooling:
    """Gives a container other CPU shares some seconds after its start, and notes what it sees."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.seen: list[str] = []

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        self.runtime = runtime

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        self.runtime.call_later(self.delay, self.cool, container.id, shares=77)

    def cool(self, container_id: str, shares: int) -> None:
        self.seen.append("cool")
        self.runtime.update_soon([Update(container_id).set_cpu(shares=shares)])

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("post_start", container)

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("stop", container)

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        self._note("remove", container)

    def _note(self, event: str, container: Container) -> None:
        self.seen.append(f"{event} {container.linux.resources.cpu.shares.value}")


class CoolingInTask(Cooling):
    async def cool(self, container_id: str, shares: int) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        failed = await self.runtime.update_containers([Update(container_id).set_cpu(shares=shares)])
        self.seen.append(f"cool {failed}")


@pytest.mark.parametrize(
    ("delay", "seen"),
    [
        # StartContainer is at second 5, PostStartContainer at 6, StopContainer at 9.
        (0, ["cool", "post_start 77", "stop 77", "remove 77"]),
        (1, ["cool", "post_start 77", "stop 77", "remove 77"]),
        (1.1, ["post_start 0", "cool", "stop 77", "remove 77"]),
        (4, ["post_start 0", "cool", "stop 77", "remove 77"]),
        (4.000_000_001, ["post_start 0", "stop 0", "cool", "remove 77"]),
        (5, ["post_start 0", "stop 0", "cool", "remove 77"]),
        (5.1, ["post_start 0", "stop 0", "remove 0"]),
    ],
)
def test_timer_fires_before_the_first_event_at_its_time_or_later(
    tmp_path: Path, delay: float, seen: list[str]
) -> None:
    path = recording(tmp_path / "life.nriscope.db", [run_pod(), *_long_life()])
    plugin = Cooling(delay)
    replayed = played(path, {"10-cooling": plugin})
    assert plugin.seen == seen
    changes = [one.change.after for event in replayed.events for one in event.changes]
    assert changes == ([77] if "cool" in seen else [])
    assert replayed.ok


def _long_life() -> list[tuple[str, api.StartContainerRequest]]:
    """The events of a container without an update, which would set the shares."""
    events = [one for one in life(container(), updated=True) if one[0] != "UpdateContainer"]
    # In its place, so that times are the same.
    events.insert(4, ("PostUpdateContainer", api.PostUpdateContainerRequest()))
    return events  # type: ignore[return-value]


def test_async_callback_may_wait_for_its_update(tmp_path: Path) -> None:
    path = recording(tmp_path / "life.nriscope.db", [run_pod(), *_long_life()])
    plugin = CoolingInTask(1.5)
    assert played(path, {"10-cooling": plugin}).ok
    assert plugin.seen == ["post_start 0", "cool []", "stop 77", "remove 77"]


Timer = tuple[int, int, Sequence[int]]
"""A timer: the event at which it is set, its delay in ms, and the delays of timers that its
callback sets."""

TIMERS = st.lists(
    st.tuples(
        st.integers(0, 7), st.integers(0, 9_000), st.lists(st.integers(0, 3_000), max_size=2)
    ),
    max_size=6,
)
EVENTS = [
    "synchronize",
    *("create_container", "post_create_container", "start_container", "post_start_container"),
    *("update_container", "post_update_container", "stop_container", "remove_container"),
]


class Scheduling:
    """Sets the given timers at its events, and notes the order of events and callbacks."""

    def __init__(self, timers: Sequence[Timer], note: Callable[[str], None]) -> None:
        self._timers = timers
        self._note = note

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        self._runtime = runtime

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("create_container")

    def post_create_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("post_create_container")

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("start_container")

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("post_start_container")

    def update_container(self, pod: PodSandbox, container: Container, resources: object) -> None:
        self._event("update_container")

    def post_update_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("post_update_container")

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("stop_container")

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        self._event("remove_container")

    def synchronize(self, pods: object, containers: object) -> None:
        self._event("synchronize")

    def _event(self, name: str) -> None:
        self._note(name)
        for number, (event, delay, then) in enumerate(self._timers):
            if EVENTS[event] == name:
                self._runtime.call_later(delay / 1000, self._fired, f"{number}", then)

    def _fired(self, name: str, then: Sequence[int]) -> None:
        self._note(name)
        for number, delay in enumerate(then):
            self._runtime.call_later(delay / 1000, self._fired, f"{name}.{number}", ())


def expected(timers: Sequence[Timer]) -> list[str]:
    """Return the order of events and callbacks, from a simulation with a sorted list."""
    # Synchronize is not played; its timers begin at the start of the session, second 0. The first
    # event of the recording is RunPodSandbox at second 2.
    times = {"synchronize": 0, **{name: 3000 + 1000 * n for n, name in enumerate(EVENTS[1:])}}
    order: list[str] = []
    pending: list[tuple[int, int, str, Sequence[int]]] = []
    count = 0

    def add(at: int, name: str, then: Sequence[int]) -> None:
        nonlocal count
        count += 1
        pending.append((at, count, name, then))

    for event, now in times.items():
        while pending and min(pending)[0] <= now:
            due, _, name, then = first = min(pending)
            pending.remove(first)
            order.append(name)
            for number, delay in enumerate(then):
                add(due + delay, f"{name}.{number}", ())
        order.append(event)
        for number, (at, delay, then) in enumerate(timers):
            if EVENTS[at] == event:
                add(now + delay, f"{number}", then)
    return order


@given(TIMERS)
def test_timers_fire_in_the_order_of_their_times(one_life: Path, timers: list[Timer]) -> None:
    order: list[str] = []
    assert played(one_life, {"10-plugin": Scheduling(timers, order.append)}).ok
    assert order == expected(timers)


LAUNCHED = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import functools
from nri_scope.plugin import run
from tests.replay.test_recording_clock import Scheduling
timers = [(3, 500, [100, 3000]), (0, 3500, []), (3, 500, [])]
run(Scheduling(timers, functools.partial(print, flush=True)), name="scheduling")
"""


def test_timers_of_a_launched_plugin_fire_in_the_same_order(one_life: Path) -> None:
    timers = [(3, 500, [100, 3000]), (0, 3500, []), (3, 500, [])]
    command = Command("10", "scheduling", (sys.executable, "-c", LAUNCHED))
    replayed = run(replay(Job(one_life, PluginSet((command,)))))
    assert replayed.ok
    lines = [line.text for event in replayed.events for line in event.output]
    assert lines == expected(timers)
    # A line about a timer is shown below the timer.
    shown = [event for event in replayed.events if event.event == "call_later"]
    assert [
        (event.subject, event.note, [line.text for line in event.output][:1]) for event in shown
    ] == [
        ("10-scheduling", "3.5 s after the start", ["1"]),
        ("10-scheduling", "0.5 s after event 6", ["0"]),
        ("10-scheduling", "0.5 s after event 6", ["2"]),
        ("10-scheduling", "0.1 s after event 6", ["0.0"]),
        ("10-scheduling", "3 s after event 6", ["0.1"]),
    ]


class Raising(Cooling):
    def cool(self, container_id: str, shares: int) -> None:
        raise LookupError(container_id)


def test_exception_in_a_callback_is_a_failure_with_its_traceback(one_life: Path) -> None:
    replayed, errors = perform(Job(one_life, plugin_set_of(Raising(1))))
    assert list(replayed.failures()) == ["call_later: 10-raising: error: LookupError: app-id"]
    (error,) = errors
    assert error.where == "call_later" and isinstance(error.error, LookupError)
    assert "in cool" in "".join(error.lines())
    shown = [line for event in replayed.events for line in Report().event(event)]
    start = "     +  call_later           10-raising                    "
    assert [line for line in shown if "later" in line or "Lookup" in line] == [
        f"{start}1 s after event 6",
        f"{start}fails: error: LookupError: app-id",
    ]
    assert junit_failures(replayed) == list(replayed.failures())
    (problem,) = [one for one in replayed.events if one.has_problem]
    assert problem.failure == "error: LookupError: app-id"


def test_timer_after_the_last_event_is_reported(one_life: Path) -> None:
    replayed = played(one_life, {"10-cooling": Cooling(60)})
    assert replayed.ok
    last = replayed.events[-1]
    # 60 s after second 5; the last event is at second 10.
    assert (last.event, last.skipped) == ("call_later", "due 55 s after the last event")


class Cancelling(Cooling):
    def start_container(self, pod: PodSandbox, container: Container) -> None:
        self.timers = [self.runtime.call_later(delay, self.cool, "", 1) for delay in (0, 1.5, 60)]

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        for timer in self.timers:
            timer.cancel()
            timer.cancel()

    def cool(self, container_id: str, shares: int) -> None:
        self.seen.append("cool")


def test_cancelled_timer_does_not_fire(one_life: Path) -> None:
    plugin = Cancelling(0)
    replayed = played(one_life, {"10-cancelling": plugin})
    assert plugin.seen == ["cool", "stop 200", "remove 200"]
    assert [event.note for event in replayed.events if event.event == "call_later"] == [
        "0 s after event 6"
    ]
    assert replayed.ok


def test_timers_end_with_the_session(one_life: Path) -> None:
    plugin = Cooling(2.5)
    # Event 7 is the fifth that is played: after it the runtime restarts, and then is second 7.
    replayed = played(one_life, {"10-cooling": plugin}, faults=["restart-runtime:after=5"])
    assert plugin.seen == ["post_start 0", "stop 200", "remove 200"]
    assert replayed.ok


def test_time_passes_with_events_that_are_not_sent(one_life: Path) -> None:
    plugin = Cooling(1)
    where = parse("event:StartContainer OR event:RemoveContainer")
    replayed = played(one_life, {"10-cooling": plugin}, selection=ReplaySelection(where=where))
    assert plugin.seen == ["cool", "remove 200"]
    assert [event.event for event in replayed.events if event.event_id or event.note] == [
        *("StartContainer", "call_later", "RemoveContainer"),
    ]


def test_each_round_begins_at_the_start_of_the_recording(one_life: Path) -> None:
    plugin = Cooling(1.5)
    assert played(one_life, {"10-cooling": plugin}, rounds=2).ok
    assert plugin.seen == ["post_start 0", "cool", "stop 200", "remove 200"] * 2


def test_other_plugins_are_offered_the_clock_and_nothing_else(one_life: Path) -> None:
    peer = SmallPlugin("10-peer")
    replayed = played_to_peers(job_of(one_life, {}), peer)
    assert replayed.ok
    offered = [one.method for one in peer.requests if one.metadata]
    assert offered == ["Configure"]
    assert {one.service for one in peer.requests} == {"nri.pkg.api.v1alpha1.Plugin"}


def test_number_of_pending_timers_is_limited() -> None:
    replayed = Replayed("", "", "")

    async def main() -> None:
        clock = RecordingClock(ReplayProgress(replayed, ReplayListener()), lambda: None, 0)
        plugin = Plugin(lambda *_: None)
        for number in range(TIMERS_MAX):
            clock.change_timer(plugin, recording_clock.START, number, 1)
        with pytest.raises(RpcError, match="100000 timers are pending already"):
            clock.change_timer(plugin, recording_clock.START, TIMERS_MAX, 1)
        with pytest.raises(RpcError, match="no method 'Sing' here"):
            clock.change_timer(plugin, "Sing", 1, 1)

    asyncio.run(main())
