# SPDX-License-Identifier: Apache-2.0
"""A replay that stops before events and goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.replay.debug_session import DebugListener, DebugSession
from nri_scope.replay.playback import PendingEvent, StepDecision
from nri_scope.replay.result import PlayedEvent
from nri_scope.transport.loop import run
from tests.replay.plays import CallCounter

from .plays import job_of
from .recordings import container, life, recording, run_pod


class Driver(DebugListener):
    """Listener that gives a command at each stop."""

    def __init__(self, *commands: Callable[[DebugSession], None]) -> None:
        self.commands = list(commands)
        self.session: DebugSession | None = None
        self.stops: list[tuple[int, str]] = []
        self.events: list[str] = []
        self.errors: list[NriScopeError] = []

    def event(self, played: PlayedEvent) -> None:
        self.events.append(played.event)

    def stopped(self, pending: PendingEvent | None, position: int) -> None:
        self.stops.append((position, pending.event if pending else ""))
        self._command()

    def restarting(self) -> None:
        self.events.clear()

    def failed(self, error: NriScopeError) -> None:
        self.errors.append(error)
        self._command()

    def _command(self) -> None:
        assert self.session is not None
        command = self.commands.pop(0) if self.commands else DebugSession.quit
        asyncio.get_running_loop().call_soon(command, self.session)


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    return recording(tmp_path / "life.nriscope.db", [run_pod(), *life(container())])


def debugged(path: Path, plugin: object, *commands: Callable[[DebugSession], None]) -> Driver:
    driver = Driver(*commands)
    driver.session = DebugSession(job_of(path, {"10-plugin": plugin}), driver)
    run(driver.session.run())
    return driver


def _step_and_restart(session: DebugSession) -> None:
    session.step()
    session.restart()
    # A second restart during the first one neither.
    session.restart()


class Hanging(CallCounter):
    """Plugin that calls a function in place of one reply."""

    on_call: Callable[[], None] | None = None

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        if self.on_call is not None:
            on_call, self.on_call = self.on_call, None
            on_call()
            await asyncio.Event().wait()
        return await super().create_container(pod, container)


def _to(event: str) -> Callable[[DebugSession], None]:
    return lambda session: session.go_on(lambda pending: pending.event == event)


def test_it_stops_before_each_event_and_at_the_end(one_life: Path) -> None:
    every = debugged(one_life, CallCounter(), *[DebugSession.step] * 20)
    events = [event for _, event in every.stops]
    assert events[:2] == ["RunPodSandbox", "CreateContainer"]
    assert events[-1] == ""
    numbers = [number for number, event in every.stops if event]
    assert numbers == list(range(len(numbers)))


def test_it_runs_to_a_breakpoint_and_ends_with_a_result(one_life: Path) -> None:
    driver = debugged(one_life, CallCounter(), _to("StopContainer"), _to("nothing"))
    assert [event for _, event in driver.stops] == ["RunPodSandbox", "StopContainer", ""]
    assert driver.session is not None
    assert driver.session.result is not None
    assert driver.session.result.ok


def test_going_back_replays_to_a_new_connection(one_life: Path) -> None:
    plugin = CallCounter()
    driver = debugged(
        one_life, plugin, _to("StartContainer"), lambda session: session.back(2), DebugSession.step
    )
    stops = [event for _, event in driver.stops]
    assert stops[1] == "StartContainer"
    assert stops[2:] == ["CreateContainer", "PostCreateContainer"]
    assert plugin.calls == ["CreateContainer"] * 2


def test_going_back_keeps_earlier_decisions(one_life: Path) -> None:
    plugin = CallCounter()
    debugged(
        one_life,
        plugin,
        _to("CreateContainer"),
        lambda session: session.step(StepDecision(skip=True)),
        _to("StopContainer"),
        DebugSession.back,
        _to("nothing"),
    )
    assert plugin.calls == ["StopContainer"]


def test_sending_again_belongs_to_the_event_before(one_life: Path) -> None:
    plugin = CallCounter()
    driver = debugged(
        one_life,
        plugin,
        _to("CreateContainer"),
        DebugSession.step,
        lambda session: session.step(StepDecision(again=True)),
        DebugSession.back,
    )
    assert driver.stops[-1] == (1, "CreateContainer")
    assert plugin.calls == ["CreateContainer"] * 2


@pytest.mark.parametrize("again", [False, True])
def test_a_restart_stops_before_the_event_that_hangs(one_life: Path, again: bool) -> None:
    plugin = Hanging()
    decision = StepDecision(again=again)

    def hang(session: DebugSession) -> None:
        plugin.on_call = session.restart
        session.step(decision)

    steps = [DebugSession.step] if again else []
    driver = debugged(one_life, plugin, _to("CreateContainer"), *steps, hang)
    stop = (2, "PostCreateContainer") if again else (1, "CreateContainer")
    assert driver.stops[-2:] == [stop, stop]
    # A command that was not carried out yet loses no event.
    restarted = debugged(one_life, CallCounter(), _to("StopContainer"), _step_and_restart)
    assert restarted.stops[-2:] == [restarted.stops[1]] * 2


def test_a_plugin_that_does_not_start_is_reported_and_can_be_replaced(one_life: Path) -> None:
    plugin = CallCounter()
    working = job_of(one_life, {"10-plugin": plugin})
    broken = replace(working, profile="containerd-0.0")
    driver = Driver(lambda session: session.restart(working), _to("nothing"))
    driver.session = DebugSession(broken, driver)
    run(driver.session.run())
    assert isinstance(driver.errors[0], UsageError)
    assert plugin.calls == ["CreateContainer", "StopContainer"]
