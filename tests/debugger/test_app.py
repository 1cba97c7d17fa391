# SPDX-License-Identifier: Apache-2.0
"""The debugger's screen: keys, edited texts, restarts, snapshots and hostile recordings."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from textual import events
from textual.widgets import TextArea

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.debugger import event_rows
from nri_scope.debugger.app import DebuggerApp
from nri_scope.debugger.debugger import Debugger
from nri_scope.debugger.panes import KEYS, key_words
from nri_scope.filter import parse
from nri_scope.replay.plugin_command import command
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.report import text as report_text
from nri_scope.replay.run import Job
from tests.replay.plays import job_of
from tests.replay.recordings import container, life, recording, run_pod
from tests.tui.hostile import CANARY, NAMES, assert_harmless
from tests.tui.screen import Screen
from tests.tui.snapshot import assert_snapshot
from tests.tui.terminal import needs_tmux, terminal

from .plugins import NAME, Adjuster, job, two_lives

CREATE = "event:CreateContainer"
SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = [pytest.param(size, id="{}x{}".format(*size)) for size in ((80, 24), (120, 40))]


@pytest.fixture(autouse=True)
def _without_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)


@asynccontextmanager
async def debugging(
    one: Job, *breaks: str, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[Screen[DebuggerApp]]:
    debugger = Debugger(one, [parse(text) for text in breaks])
    app = DebuggerApp(debugger, title=one.recording.name)
    async with app.run_test(size=size) as pilot:
        shown = Screen(app, pilot)
        await shown.shows("next: ")
        yield shown


async def test_stop_at_the_second_creation_and_change_its_request(tmp_path: Path) -> None:
    # One command, with --break, and two keys to the editor.
    plugin = Adjuster()
    async with debugging(job(tmp_path, plugin), CREATE) as shown:
        await shown.shows("next: 4  CreateContainer shop/web/app")
        await shown.press("c")
        await shown.shows("next: 10  CreateContainer shop/web/sidecar")
        await shown.press("e")
        await shown.shows("request of CreateContainer shop/web/sidecar")
        area = shown.app.screen.query_one(TextArea)
        area.text = area.text.replace("name: sidecar", "name: sidecar\n  args: [edited]")
        await shown.press("ctrl+s")
        await shown.shows("next: 11  PostCreateContainer", "the request was edited")
    assert [each.args for each in plugin.created] == [[], ["edited"]]


async def test_quickly_typed_keys_edit_in_their_order(tmp_path: Path) -> None:
    async with debugging(job(tmp_path, Adjuster()), CREATE) as shown:
        await shown.press("e")
        await shown.shows("^S or F2 sends")
        area = shown.app.screen.query_one(TextArea)
        area.text = "one\nfive"
        for key, text in [("down", None), ("end", None), ("backspace", None), ("9", "9")]:
            # As from a terminal, without a pause after each.
            shown.app.post_message(events.Key(key, text))
        await shown.shows("fiv9")
        assert area.text == "one\nfiv9"


async def test_a_restart_stops_before_the_event_at_which_a_plugin_hangs(tmp_path: Path) -> None:
    class Hanging(Adjuster):
        hanging = "sidecar"

        async def create_container(
            self, pod: PodSandbox, container: Container
        ) -> ContainerAdjustment:
            adjustment = await super().create_container(pod, container)
            if container.name == self.hanging:
                await asyncio.Event().wait()
            return adjustment

    plugin, sent = Hanging("1"), [0, 0, *range(3, 10)]
    one = job(tmp_path, plugin)
    one = replace(one, playback=replace(one.playback, timeout_s=inf))
    async with debugging(one, size=(140, 30)) as shown:
        await shown.press("c")
        await shown.shows("waiting for the plugin")
        await shown.press("R")
        await shown.shows("next: 10  CreateContainer shop/web/sidecar")
        assert [each.played.event_id for each in shown.app._debugger.sent] == sent
        plugin.hanging = "app"
        await shown.press("R")
        await shown.shows("waiting for the reply to 4 CreateContainer shop/web/app; p goes back")
    assert [each.name for each in plugin.created] == ["app", "sidecar", "app", "app"]


async def test_without_options_a_breakpoint_is_typed(tmp_path: Path) -> None:
    async with debugging(job(tmp_path, Adjuster())) as shown:
        # All keys at once, as if typed faster than the screen is drawn.
        await shown.press("b", *CREATE, "enter", "c", "c")
        await shown.shows("next: 10  CreateContainer", f"breaks: 1 {CREATE}")
        await shown.press("b", *"evnt:x", "enter")
        await shown.shows("unknown field")
        await shown.press("B", "c")
        await shown.shows("the end")
        await shown.press("n")
        await shown.shows("the replay is at its end")


async def test_a_reply_is_shown_as_changes_and_output_is_beside_it(tmp_path: Path) -> None:
    async with debugging(job(tmp_path, Adjuster()), CREATE) as shown:
        await shown.press("n")
        await shown.shows("changes env CALL", '+ env CALL = "1"', "1 change")
        await shown.press("a")
        await shown.shows("sent again", '+ env CALL = "2"')
        await shown.press("s", "r", *"9", "enter")
        await shown.shows("skipped", "next: 9  RemoveContainer")
        # An earlier event, with its request.
        await shown.press(*["up"] * 5)
        await shown.shows("reply of 10-plugin:")


async def test_a_refused_text_can_be_edited_further(tmp_path: Path) -> None:
    async with debugging(job(tmp_path, Adjuster()), CREATE) as shown:
        await shown.press("e")
        await shown.shows("^S or F2 sends")
        area = shown.app.screen.query_one(TextArea)
        area.text = "container: [broken"
        await shown.press("f2")
        await shown.shows("not YAML", "e continues with the edited text")
        await shown.shows("next: 4  CreateContainer")
        await shown.press("e")
        await shown.shows("container: [broken")
        await shown.press("escape")
        await shown.hides("^S or F2 sends")
        await shown.press("e")
        await shown.shows("^S or F2 sends", "name: app")
        await shown.press("f2")
        await shown.shows("the text was not changed; nothing was sent")
        await shown.press("n")
        await shown.shows("next: 5  PostCreateContainer")


async def test_a_reply_is_written_on_the_screen(tmp_path: Path) -> None:
    plugin = Adjuster()
    async with debugging(job(tmp_path, plugin), CREATE) as shown:
        await shown.press("w")
        await shown.shows("in place of 10-plugin")
        shown.app.screen.query_one(TextArea).text = "adjust: {env: {BY: hand}}"
        await shown.press("ctrl+s")
        await shown.shows('+ env BY = "hand"')
    assert not plugin.created


async def test_with_several_plugins_the_one_to_replace_is_asked(tmp_path: Path) -> None:
    one = job_of(two_lives(tmp_path), {NAME: Adjuster(), "20-other": Adjuster()})
    async with debugging(one, CREATE) as shown:
        await shown.press("w")
        await shown.shows("reply in place of 10-plugin")
        await shown.press(*["backspace"] * len(NAME), *"20-othre", "enter")
        await shown.shows("20-othre is not asked; it is 10-plugin, 20-other")


async def test_going_back_replays_quietly_to_the_event_before(tmp_path: Path) -> None:
    plugin = Adjuster()
    async with debugging(job(tmp_path, plugin), CREATE) as shown:
        await shown.press("n")
        await shown.shows("next: 5  ")
        await shown.press("p")
        await shown.shows("next: 4  CreateContainer")
        await shown.press("n")
        await shown.shows("next: 5  ")
        await shown.press("p", "p")
        await shown.shows("next: 3  RunPodSandbox")
    assert len(plugin.created) == 2


class Hanging(Adjuster):
    """Plugin whose first reply comes when it is told to."""

    def __init__(self) -> None:
        super().__init__("same")
        self.may_reply = asyncio.Event()

    async def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        await self.may_reply.wait()
        return await super().create_container(pod, container)


async def test_the_screen_stays_usable_while_the_plugin_does_not_reply(tmp_path: Path) -> None:
    plugin = Hanging()
    async with debugging(job(tmp_path, plugin), CREATE) as shown:
        await shown.press("n")
        await shown.shows("waiting for the plugin")
        await shown.press("question_mark")
        await shown.shows("Keys of the debugger")
        await shown.press("escape", "n")
        await shown.hides("Keys of the debugger")
        plugin.may_reply.set()
        # The key that was pressed meanwhile sends the next event.
        await shown.shows("next: 6  StartContainer")
        plugin.may_reply.clear()
        shown.app._debugger.breakpoints.clear()
        await shown.press("c")
        await shown.shows("sending events …", "waiting for the plugin")
        await shown.hides("not sent")
        plugin.may_reply.set()
        await shown.shows("the end")
        await shown.press(*"pppppp")
        await shown.shows("next: 10  CreateContainer")
        plugin.may_reply.clear()
        await shown.press("n")
        await shown.shows("waiting for the plugin")
        await shown.press("p")
        plugin.may_reply.set()
        await shown.hides("waiting for the plugin")
        await shown.shows("next: 10  CreateContainer", "not sent")


async def test_a_restart_replays_to_the_same_point_and_shows_what_differs(tmp_path: Path) -> None:
    plugin = Adjuster("one")
    async with debugging(job(tmp_path, plugin), CREATE) as shown:
        await shown.press("c")
        await shown.shows("next: 10  CreateContainer")
        plugin.value = "two"
        await shown.press("R")
        await shown.shows("1 reply differs", "~ /adjust/env/CALL one → two")
        await shown.press("n")
        await shown.shows("next: 11  PostCreateContainer")
        await shown.press("R")
        await shown.shows("all replies equal those of the run before")


@pytest.mark.exhaustive
async def test_a_plugin_that_no_longer_starts_is_told_with_the_reason(tmp_path: Path) -> None:
    program = tmp_path / "plugin.py"
    works = (
        f"#!{sys.executable}\n"
        "from nri_scope.plugin import run\n"
        "class P:\n"
        "    async def create_container(self, pod, container):\n"
        "        pass\n"
        "run(P(), name='p')\n"
    )
    program.write_text(works)
    program.chmod(0o755)
    one = replace(job(tmp_path, None), plugin_set=PluginSet((command((str(program),), name="p"),)))
    async with debugging(one) as shown:
        await shown.shows("10-p pid ")
        program.write_text(f"#!{sys.executable}\ndef broken(\n")
        await shown.press("R")
        await shown.shows(
            "the plugin did not start: R starts it again",
            "10-p failed to start: ",
            "exit status 1: SyntaxError: '('",
        )
        # Neither the process of before nor an event is shown.
        await shown.hides("pid ")
        await shown.hides("subscribes")
        await shown.press("up")
        await shown.hides("subscribes")
        program.write_text(works)
        await shown.press("R")
        await shown.shows("next: 3  RunPodSandbox", "10-p pid ")


async def test_a_plugin_that_ends_while_nothing_is_sent_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_text(
        f"#!{sys.executable}\n"
        "from nri_scope.plugin import run\n"
        "class P:\n"
        "    def create_container(self, pod, container):\n"
        "        pass\n"
        "run(P(), name='p')\n"
    )
    program.chmod(0o755)
    one = replace(job(tmp_path, None), plugin_set=PluginSet((command((str(program),), name="p"),)))
    async with debugging(one) as shown:
        await shown.shows("10-p pid ")
        ((_, pid),) = shown.app._debugger.processes
        os.kill(pid, signal.SIGKILL)
        await shown.shows("10-p disconnected: closed by the peer: the plugin ended")


async def test_a_plugin_that_does_not_start_is_a_message(tmp_path: Path) -> None:
    one = replace(job(tmp_path, Adjuster()), profile="containerd-0.0")
    app = DebuggerApp(Debugger(one))
    async with app.run_test() as pilot:
        shown = Screen(app, pilot)
        await shown.shows("the plugin did not start", "containerd-0.0")
        await shown.press("n")
        await shown.shows("restart the plugin")


@pytest.mark.parametrize("size", SIZES)
async def test_snapshots(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Times vary.
    monkeypatch.setattr(event_rows, "duration", lambda ns: "1.5ms")
    monkeypatch.setattr(report_text, "duration", lambda ns: "1.5ms")
    async with debugging(job(tmp_path, Adjuster()), CREATE, size=size) as shown:
        await assert_snapshot(shown, "stopped", SNAPSHOTS)
        await shown.press("n", "n", "s")
        await shown.shows("next: 7  ")
        await assert_snapshot(shown, "sent", SNAPSHOTS)
        await shown.press("question_mark")
        await assert_snapshot(shown, "help", SNAPSHOTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
async def test_a_hostile_recording_is_harmless(tmp_path: Path, name: str) -> None:
    text = NAMES[name]
    pod = api.PodSandbox(id="pod-id", name=text, namespace="shop", annotations={"a": text})
    evil = container("evil", annotations={text: text}, env=[text])
    evil.name = text
    events = [
        (method, type(request)(**_of(request, pod, evil)))
        for method, request in [run_pod(pod), *life(evil)]
    ]
    path = recording(tmp_path / "evil.nriscope.db", events)
    async with debugging(job_of(path, {NAME: Adjuster(text)})) as shown:
        for key in ("n", "n", "e", "escape", "n"):
            await shown.press(key)
            assert_harmless(shown.text())
            assert CANARY not in (shown.app.title or "")


def _of(request: object, pod: api.PodSandbox, one: api.Container) -> dict[str, object]:
    fields: dict[str, object] = {"pod": pod}
    return {**fields, "container": one} if hasattr(request, "container") else fields


def test_the_documentation_lists_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "debugging.md").read_text()
    for one in KEYS:
        assert f"| `{'` `'.join(key_words(one).split(' '))}` | {one.help} |" in text


@needs_tmux
@pytest.mark.exhaustive
async def test_an_editor_gets_the_terminal_and_returns_it(tmp_path: Path) -> None:
    path = two_lives(tmp_path)
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        f"#!{os.sys.executable}\n"  # type: ignore[attr-defined]
        "from nri_scope.plugin import run\n"
        "class P:\n"
        "    async def create_container(self, pod, container):\n"
        "        print('args', container.args, flush=True)\n"
        "run(P(), name='p')\n"
    )
    plugin.chmod(0o755)
    editor = tmp_path / "editor.sh"
    editor.write_text(
        'if mkdir "$0.begun"; then exit 3; fi\n'
        'sed -i "s/name: app/name: app\\n  args: [edited]/" "$1"\n'
    )
    variables = {"EDITOR": f"sh {editor}"}
    command = f"debug {path} --break {CREATE} -- ./plugin.py"
    async with terminal(tmp_path, command, variables=variables) as window:
        await window.shows("next: 4  CreateContainer", "pid ")
        await window.press("e")
        await window.shows("next: 4  CreateContainer", "sh ended with exit status 3; nothing was")
        await window.press("e")
        await window.shows("next: 5  PostCreateContainer", "the request was edited", "'edited'")
        await window.press("q")
        await window.shows("ended with 0")
