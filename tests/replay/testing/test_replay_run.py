# SPDX-License-Identifier: Apache-2.0
"""Replays in tests that are coroutines, and exceptions of handlers."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.errors import UsageError
from nri_scope.replay.run import Job
from nri_scope.replay.testing import perform, plugin_set_of
from tests.plugin_builders import adjust
from tests.sample_names import API, CHECKOUT_API, CHECKOUT_PROXY

RECORDING = Path(__file__).parents[3] / "recordings" / "containerd-2.1.nriscope.db"
CALLER = ContextVar("CALLER", default="nobody")


def job(plugin: object) -> Job:
    return Job(RECORDING, plugin_set_of(plugin))


class ContextReader:
    """Adds the value of a context variable, as its handler sees it."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        return adjust(env={"CALLER": CALLER.get()})


class Raising:
    async def create_container(self, pod: PodSandbox, container: Container) -> None:
        await asyncio.sleep(0)
        raise LookupError(container.name)


class Interrupting:
    """Sends SIGINT from a handler that never returns."""

    def __init__(self) -> None:
        self.cancelled = False

    async def create_container(self, pod: PodSandbox, container: Container) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def added_values(plugin: object) -> list[object]:
    replayed, _ = perform(job(plugin))
    return [change.after for change in replayed.containers[CHECKOUT_API].changes]


def test_handlers_see_the_context_of_the_test() -> None:
    CALLER.set("plain")
    assert added_values(ContextReader()) == ["plain"]


async def test_handlers_see_the_context_of_a_coroutine() -> None:
    CALLER.set("coroutine")
    assert added_values(ContextReader()) == ["coroutine"]


async def test_error_is_raised_out_of_the_thread() -> None:
    with pytest.raises(UsageError, match="there is no profile 'none'"):
        perform(Job(RECORDING, plugin_set_of(ContextReader()), profile="none"))


@pytest.mark.parametrize("in_coroutine", [False, True], ids=["plain", "coroutine"])
def test_interrupt_ends_the_replay(in_coroutine: bool) -> None:
    plugin = Interrupting()

    async def coroutine() -> None:
        perform(job(plugin))

    def play() -> None:
        if in_coroutine:
            with asyncio.Runner() as runner:
                runner.get_loop().run_until_complete(coroutine())
        else:
            perform(job(plugin))

    with pytest.raises(KeyboardInterrupt):
        play()
    assert plugin.cancelled
    assert "nri_replay" not in {thread.name for thread in threading.enumerate()}


def test_exceptions_of_handlers_are_collected(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("nri_scope.plugin")
    before = log.level, list(log.filters)
    _, errors = perform(job(Raising()))
    assert [error.where for error in errors[:2]] == [
        f"create_container {CHECKOUT_API}",
        f"create_container {CHECKOUT_PROXY}",
    ]
    lines = list(errors[0].lines())
    assert lines[-1] == f"LookupError: {API}"
    assert "in create_container" in lines[1]
    # The same is logged as without collecting.
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert (log.level, log.filters) == before
