# SPDX-License-Identifier: Apache-2.0
"""Checks of docs/writing-plugins.md: its table is complete, and its code works."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import cli
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.plugin.serving import EVENT_HANDLERS, HANDLERS, handler_arguments, handlers_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import Plugin
from tests.plugin_builders import adjust
from tests.runtime_emulation.runtime import Runtime

from .attached import NEW, attached

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "writing-plugins.md").read_text()
UTC, VALUES, WARM, TESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RECORDING = ROOT / "recordings" / "containerd-1.7.nriscope.db"


def run_code(code: str) -> dict[str, object]:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, "writing-plugins.md", "exec"), names)
    return names


def make_plugin(code: str, name: str) -> object:
    kind = run_code(code)[name]
    assert isinstance(kind, type)
    return kind()


def test_table_has_each_handler_with_as_many_arguments_as_it_gets() -> None:
    calls = re.findall(r"^\| `(\w+)\(([^)]*)\)`", PAGE, re.MULTILINE)
    assert {name for name, _ in calls} == set(HANDLERS)
    arguments = {name: len(names.split(", ")) for name, names in calls}
    for event, name in EVENT_HANDLERS.items():
        assert len(handler_arguments(event, METHODS[event.name].request())) == arguments[name]


async def test_whole_plugin_adjusts_a_container() -> None:
    async with Runtime(NEW) as runtime, attached(runtime, make_plugin(UTC, "Utc")):
        (answer,) = await runtime.dispatch(EventKind.CreateContainer, api.CreateContainerRequest())
    assert answer.reply == api.CreateContainerResponse(adjust=adjust(env={"TZ": "UTC"}))


def test_values_are_accepted() -> None:
    reply = run_code(VALUES)["reply"]
    assert isinstance(reply, api.CreateContainerResponse)
    assert reply.adjust.linux.resources.cpu.shares.value == 512 and reply.update[0].ignore_failure


def test_handlers_are_tested_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recording.open(RECORDING) as recording:
        event = next(event for event in recording.events() if event.event == "CreateContainer")
    shown = CliRunner().invoke(cli, ["show", str(RECORDING), str(event.id), "--format", "json"])
    (tmp_path / "request.json").write_text(shown.output)
    monkeypatch.chdir(tmp_path)
    names = run_code(UTC + TESTS)
    for name in ("test_keywords", "test_recorded_request"):
        test = names[name]
        assert callable(test)
        test()


async def test_updates_outside_of_events_are_sent() -> None:
    requests: asyncio.Queue[api.UpdateContainersRequest] = asyncio.Queue()

    def update(
        plugin: Plugin, request: api.UpdateContainersRequest
    ) -> api.UpdateContainersResponse:
        requests.put_nowait(request)
        return api.UpdateContainersResponse()

    warm = make_plugin(WARM, "Warm")
    assert set(handlers_of(warm)) == {"configure", "post_start_container"}
    started = api.PostStartContainerRequest(container=api.Container(id="c1"))
    async with Runtime(NEW, on_update=update) as runtime, attached(runtime, warm):
        await runtime.dispatch(EventKind.PostStartContainer, started)
        assert (await requests.get()).update[0].linux.resources.cpu.shares.value == 4096
