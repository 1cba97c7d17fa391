# SPDX-License-Identifier: Apache-2.0
"""A debug session: stops, edited requests and replies, and what differs after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.debugger.debugger import Debugger
from nri_scope.errors import FilterError, UsageError
from nri_scope.filter import parse
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.replay.result import PlayedEvent
from nri_scope.replay.run import Job

from .plugins import NAME, Adjuster, job

CREATE = "event:CreateContainer"
TIMEOUT_S = 60.0


class Driver:
    """A running session, and its stops."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self._stop = asyncio.Event()
        debugger.on_stop = self._stop.set

    async def stop(self) -> str:
        """Wait for a stop; return the pending event, or "" at the end."""
        async with asyncio.timeout(TIMEOUT_S):
            await self._stop.wait()
        self._stop.clear()
        pending = self.debugger.pending
        return f"{pending.event} {pending.subject}" if pending is not None else ""

    async def after(self, command: Callable[[], object]) -> str:
        """Give a command, and wait for the next stop."""
        command()
        return await self.stop()


@asynccontextmanager
async def debugged(one: Job, *breaks: str, until: int = 0) -> AsyncIterator[Driver]:
    driver = Driver(Debugger(one, [parse(text) for text in breaks], until))
    running = asyncio.create_task(driver.debugger.session.run())
    try:
        yield driver
    finally:
        driver.debugger.session.quit()
        await running


def last(driver: Driver) -> PlayedEvent:
    return driver.debugger.sent[-1].played


async def test_it_first_stops_at_a_breakpoint_and_then_at_the_next_one(tmp_path: Path) -> None:
    async with debugged(job(tmp_path, Adjuster()), CREATE) as driver:
        debugger = driver.debugger
        assert await driver.stop() == "CreateContainer shop/web/app"
        assert await driver.after(debugger.go_on) == "CreateContainer shop/web/sidecar"
        assert await driver.after(debugger.go_on) == ""
        assert debugger.is_at_end


async def test_it_first_stops_before_a_number(tmp_path: Path) -> None:
    async with debugged(job(tmp_path, Adjuster()), until=6) as driver:
        assert await driver.stop() == "StartContainer shop/web/app"
        assert await driver.after(lambda: driver.debugger.run_to("8")) == (
            "StopContainer shop/web/app"
        )
        for text in ("8", "3", "x", "-1", "²"):
            with pytest.raises(UsageError):
                driver.debugger.run_to(text)


async def test_an_edited_request_is_sent(tmp_path: Path) -> None:
    plugin = Adjuster()
    async with debugged(job(tmp_path, plugin), CREATE) as driver:
        await driver.stop()
        debugger = driver.debugger
        text = debugger.request_text()
        edited = text.replace("name: app", "name: app\n  env: {EDITED: 1}")
        await driver.after(lambda: debugger.send_text(edited))
        assert plugin.created[0].env == ["EDITED=1"]
        assert last(driver).note == "the request was edited"
        request = debugger.sent[-1].request
        assert request is not None
        assert "EDITED=1" in str(request)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("name: app", "naem: app", "container.naem: unknown key; did you mean name?"),
        ("id: app-id", "id: other", "container.id: must stay app-id"),
        ("id: pod-id", "id: other", "pod.id: must stay pod-id"),
        ("", "", "the request was not changed"),
        ("container:", "container", "not YAML"),
    ],
)
async def test_a_refused_request_leaves_the_session_stopped(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    async with debugged(job(tmp_path, Adjuster()), CREATE) as driver:
        await driver.stop()
        debugger = driver.debugger
        text = debugger.request_text().replace(before, after)
        with pytest.raises(UsageError) as error:
            debugger.send_text(text)
        assert words in str(error.value)
        assert debugger.session.is_stopped
        assert await driver.after(debugger.step) == "PostCreateContainer shop/web/app"


async def test_a_reply_is_written_in_place_of_the_plugin(tmp_path: Path) -> None:
    plugin = Adjuster()
    async with debugged(job(tmp_path, plugin), CREATE) as driver:
        await driver.stop()
        debugger = driver.debugger
        name = debugger.answering_plugin()
        assert name == NAME
        template = debugger.answer_template(name)
        # The example in its comments is a valid reply.
        example = [line.removeprefix("# ") for line in template.splitlines()[2:]]
        await driver.after(lambda: debugger.answer(name, "\n".join(example)))
        assert plugin.created == []
        assert {change.change.path for change in last(driver).changes} == {
            "/process/env/DEBUG",
            "/annotations/example.com~1by",
        }
        with pytest.raises(UsageError, match="no plugin subscribes to PostCreateContainer"):
            debugger.answering_plugin()


@pytest.mark.parametrize("event", ["CreateContainer", "StopContainer"])
async def test_an_unedited_template_is_an_empty_reply(tmp_path: Path, event: str) -> None:
    async with debugged(job(tmp_path, Adjuster()), f"event:{event}") as driver:
        await driver.stop()
        debugger = driver.debugger
        await driver.after(lambda: debugger.answer(NAME, debugger.answer_template(NAME)))
        (reply,) = last(driver).replies
        assert reply.message is not None
        assert is_empty_reply(reply.message)


async def test_commands_at_the_end_say_so(tmp_path: Path) -> None:
    async with debugged(job(tmp_path, Adjuster())) as driver:
        await driver.stop()
        debugger = driver.debugger
        await driver.after(debugger.go_on)
        for command in (debugger.step, debugger.go_on, debugger.skip, debugger.request_text):
            with pytest.raises(UsageError, match="at its end"):
                command()
        assert await driver.after(debugger.again) == ""


async def test_an_invalid_breakpoint_is_an_error(tmp_path: Path) -> None:
    debugger = Debugger(job(tmp_path, Adjuster()))
    with pytest.raises(FilterError):
        debugger.break_on("evnt:CreateContainer")
    assert debugger.breakpoints.filters == []
    for text in (CREATE, CREATE, "time:<1h", "container:sidecar"):
        debugger.break_on(text)
    assert debugger.breakpoints.words() == f"1 {CREATE}  2 time:<1h  3 container:sidecar"
    assert debugger.breakpoints.clear() == 3


async def test_a_restart_tells_what_differs_up_to_the_same_point(tmp_path: Path) -> None:
    plugin = Adjuster("one")
    async with debugged(job(tmp_path, plugin), until=10) as driver:
        at = await driver.stop()
        debugger = driver.debugger
        assert await debugger.differences() is None
        assert await driver.after(debugger.restart) == at
        assert await debugger.differences() == []
        plugin.value = "two"
        assert await driver.after(debugger.restart) == at
        assert await debugger.differences() == [
            "10-plugin shop/web/app CreateContainer",
            "  ~ /adjust/env/CALL one → two",
        ]
        assert await debugger.differences() is None
        # An earlier point has fewer replies, which is no difference.
        await driver.after(lambda: debugger.back(5))
        assert await debugger.differences() == []


async def test_the_next_events_are_read_ahead(tmp_path: Path) -> None:
    one = job(tmp_path, Adjuster())
    async with debugged(one, until=9) as driver:
        await driver.stop()
        debugger = driver.debugger
        await debugger.read_upcoming()
        shown = [(each.event_id, each.event, each.subject) for each in debugger.upcoming]
        assert shown[0] == (10, "CreateContainer", "shop/web/sidecar")
        assert [number for number, *_ in shown] == list(range(10, 16))
        assert not debugger.has_more_upcoming


async def test_a_plugin_that_fails_to_start_can_be_started_again(tmp_path: Path) -> None:
    one = replace(job(tmp_path, Adjuster()), profile="containerd-0.0")
    async with debugged(one) as driver:
        assert await driver.stop() == ""
        debugger = driver.debugger
        assert "containerd-0.0" in debugger.failure
        with pytest.raises(UsageError, match="restart the plugin"):
            debugger.step()
        await driver.after(debugger.restart)
        assert debugger.failure


@pytest.mark.parametrize(("breaks", "until"), [(["event:StopContainer"], 0), ([], 8)])
async def test_a_plugin_started_again_runs_to_the_first_breakpoint(
    tmp_path: Path, breaks: list[str], until: int
) -> None:
    working = job(tmp_path, Adjuster())
    async with debugged(replace(working, profile="containerd-0.0"), *breaks, until=until) as driver:
        debugger = driver.debugger
        await driver.stop()
        assert debugger.failure
        at = await driver.after(lambda: debugger.session.restart(working))
        assert at == "StopContainer shop/web/app"
        assert not await debugger.differences()
        assert await driver.after(debugger.restart) == at
        assert await debugger.differences() == [
            "10-plugin shop/web/app CreateContainer",
            "  ~ /adjust/env/CALL '1' → '2'",
        ]
