# SPDX-License-Identifier: Apache-2.0
"""Checks of docs/writing-plugins.md: its table is complete, and its code works."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from nri_scope.plugin.handlers import _NAMES, Handlers

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import cli
from nri_scope.errors import ConnectionClosed
from nri_scope.nri.events import Event
from nri_scope.plugin import Adjustment, BasePlugin, Update
from nri_scope.recording.reader import Recording
from nri_scope.runtime import Plugin
from tests.runtime_emulation.runtime import Runtime

from .attached import NEW, attached

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "writing-plugins.md").read_text()
UTC, ZONE, VALUES, WARM, TESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RECORDING = ROOT / "recordings" / "containerd-1.7.nriscope.db"


def run_code(code: str) -> dict[str, object]:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, "writing-plugins.md", "exec"), names)
    return names


def make_plugin(code: str, name: str) -> object:
    kind = run_code(code)[name]
    assert isinstance(kind, type)
    return kind()


def test_table_has_each_handler_with_its_arguments() -> None:
    calls = re.findall(r"^\| `(\w+)\(([^)]*)\)`", PAGE, re.MULTILINE)
    assert {name for name, _ in calls} == _NAMES
    for name, arguments in calls:
        names = getattr(BasePlugin, name).__code__.co_varnames[1:]
        assert arguments == ", ".join(names)


async def test_whole_plugin_adjusts_a_container() -> None:
    async with Runtime(NEW) as runtime, attached(runtime, make_plugin(UTC, "Utc")):
        (answer,) = await runtime.dispatch(Event.CreateContainer, api.CreateContainerRequest())
    assert answer.reply == api.CreateContainerResponse(
        adjust=Adjustment().add_env("TZ", "UTC").message
    )


def test_values_are_accepted() -> None:
    values = run_code(VALUES)
    assert isinstance(values["adjustment"], Adjustment) and isinstance(values["update"], Update)


async def test_own_options_and_a_configuration_are_used(tmp_path: Path) -> None:
    program = tmp_path / "zone.py"
    program.write_text(ZONE)
    environment = {"PYTHONPATH": str(ROOT)}
    for options, config, zone in [
        ((), "", "UTC"),
        (("--zone", "Asia/Tokyo"), "", "Asia/Tokyo"),
        ((), "Europe/Berlin\n", "Europe/Berlin"),
    ]:
        command = [sys.executable, str(program), *options]
        async with Runtime(NEW) as runtime:
            await runtime.launch_command(command, "10", "zone", config, environment)
            (answer,) = await runtime.dispatch(Event.CreateContainer, api.CreateContainerRequest())
        assert answer.reply == api.CreateContainerResponse(
            adjust=Adjustment().add_env("TZ", zone).message
        )
    async with Runtime(NEW) as runtime:
        with pytest.raises(ConnectionClosed, match="'Berlin' is not a time zone; write Area/City"):
            await runtime.launch_command(
                [sys.executable, str(program)], "10", "zone", "Berlin", environment
            )


def test_handlers_are_tested_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recording.open(RECORDING) as recording:
        event = next(one for one in recording.events() if one.event == "CreateContainer")
    shown = CliRunner().invoke(cli, ["show", str(RECORDING), str(event.id), "--format", "json"])
    (tmp_path / "request.json").write_text(shown.output)
    monkeypatch.chdir(tmp_path)
    names = run_code(ZONE + TESTS)
    for name in ("test_keywords", "test_dictionary", "test_recorded_request"):
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
    assert set(Handlers.of(warm).by_name) == {"configure", "post_start_container"}
    started = api.PostStartContainerRequest(container=api.Container(id="c1"))
    async with Runtime(NEW, on_update=update) as runtime, attached(runtime, warm):
        await runtime.dispatch(Event.PostStartContainer, started)
        assert (await requests.get()).update[0].linux.resources.cpu.shares.value == 4096
