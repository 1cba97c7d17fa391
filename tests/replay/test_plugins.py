# SPDX-License-Identifier: Apache-2.0
"""Plugins as processes: they crash, hang, print, leave children behind, or fail to start."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, PodSandbox
from nri_scope.errors import UsageError
from nri_scope.nri.runtime_setup import FailurePolicy, configure_reply
from nri_scope.replay.playback import SEND, PendingEvent, PlaybackOptions, StepDecision
from nri_scope.replay.plugin_command import PluginCommand
from nri_scope.replay.plugins import PluginSet, ReplayPlugins
from nri_scope.replay.replies import Verdict
from nri_scope.replay.result import PlayedEvent, Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.runtime import EmulatedRuntime
from nri_scope.runtime.profile import PROFILES
from nri_scope.transport.loop import run
from tests.runtime_emulation.scripts import children, descriptors, plugin, python
from tests.runtime_emulation.small_plugin import SmallPlugin

from .plays import job_of, junit_failures, played, played_to_peers
from .recordings import container, life, of_capture, recording, run_pod

ROOT = Path(__file__).parents[2]


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    return _life(tmp_path, timeout_ms=5_000)


@pytest.fixture
def short_deadline(tmp_path: Path) -> Path:
    return _life(tmp_path, timeout_ms=600)


def _life(folder: Path, timeout_ms: int) -> Path:
    events = [run_pod(), *life(container())]
    # Without validation: the loss of a validator fails the creation.
    return recording(
        folder / "life.nriscope.db", events, timeout_ms=timeout_ms, nri_version="0.8.0"
    )


def launched(path: Path, *commands: Sequence[str], **environment: str) -> Replayed:
    """Replay to commands, with indices 10, 11, …"""
    cast = tuple(
        PluginCommand(f"{number}", "plugin", tuple(one)) for number, one in enumerate(commands, 10)
    )
    return run(replay(Job(path, PluginSet(cast, environment=environment))))


def plugin_that_runs(statement: str, event: str = "CreateContainer") -> list[str]:
    """Return the command of a plugin that runs a statement at ``event``, before it answers."""
    return plugin(
        registered=f"plugin.on[{event!r}] = lambda request: [exec({statement!r}), b''][1]"
    )


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import os; os._exit(3)", "exit status 3"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ],
)
def test_a_crash_is_reported_with_its_last_output_at_its_event(
    one_life: Path, statement: str, words: str
) -> None:
    printing = f"import sys; print('I am ill', file=sys.stderr, flush=True); {statement}"
    replayed = launched(one_life, plugin_that_runs(printing))
    (crash,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert (crash.event, crash.verdict) == ("CreateContainer", Verdict.CRASH)
    assert crash.problem.endswith(f"the plugin ended, {words}; its last output: I am ill")
    (result,) = replayed.plugins
    assert (result.exit, result.gone_after, result.deserted) == (words, 4, "")
    (event,) = [event for event in replayed.events if event.output]
    assert event.event == "CreateContainer"
    assert [(line.stream, line.text) for line in event.output] == [("stderr", "I am ill")]


def test_the_chain_continues_without_a_crashed_plugin(one_life: Path) -> None:
    replayed = launched(one_life, plugin_that_runs("import os; os._exit(1)"), plugin())
    by_plugin = [(one.plugin, one.verdict) for one in replayed.replies()]
    assert ("10-plugin", Verdict.CRASH) in by_plugin
    assert by_plugin[-1] == ("11-plugin", Verdict.OK)
    assert replayed.containers["shop/web/app"].created
    assert [one.deserted for one in replayed.plugins] == ["", ""]


def test_a_plugin_that_hangs_is_late(short_deadline: Path) -> None:
    replayed = launched(short_deadline, plugin_that_runs("import time; time.sleep(1000)"))
    (late,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert (late.verdict, late.problem) == (Verdict.LATE, "no reply within 0.6 s")
    assert not replayed.ok


@pytest.mark.exhaustive
def test_without_a_deadline_no_reply_is_late(one_life: Path, short_deadline: Path) -> None:
    # The plugin prints the deadlines that it gets, and misses the recorded one.
    sleeping = "import time; print(request.timeout_ns, flush=True); time.sleep(0.8)"
    command = PluginCommand("10", "plugin", tuple(plugin_that_runs(sleeping)))
    for path, timeout_s, sent in [(short_deadline, math.inf, 0), (one_life, 0.5, 500_000_000)]:
        job = Job(path, PluginSet((command,)), playback=PlaybackOptions(timeout_s=timeout_s))
        replayed = run(replay(job))
        (reply,) = [one for one in replayed.replies() if one.event == "CreateContainer"]
        (line,) = [line for event in replayed.events for line in event.output]
        assert (reply.deadline_ns, line.text) == (sent, str(sent))
        assert reply.verdict is (Verdict.LATE if sent else Verdict.OK)
        assert not reply.slow


@pytest.mark.parametrize("name", ["containerd-1.7.24", "isulad"])
def test_launched_plugins_get_synchronize_only_where_the_runtime_sends_it(
    name: str, tmp_path: Path
) -> None:
    path = of_capture(name, tmp_path / "captured.nriscope.db")
    cast = PluginSet((PluginCommand("10", "plugin", tuple(plugin())),))
    output = tmp_path / "replayed.nriscope.db"
    job = Job(path, cast, output=output)
    first = run(replay(job)).events[1]
    # A recording of a plugin that got no Synchronize can be replayed, too.
    again = run(replay(Job(output, cast)))
    assert again.ok
    job = replace(job, output=None)
    assert (first.event, [*first.replies]) == ("Synchronize", [])
    assert first.skipped.endswith(
        "sends launched plugins no Synchronize; --profile NAME+sync sends it"
    )
    ideal = run(replay(replace(job, ideal=True))).events[1]
    assert (ideal.event, len(ideal.replies), ideal.skipped) == ("Synchronize", 1, "")
    peer = SmallPlugin("20-peer")
    replayed = played_to_peers(job, peer)
    assert [one.plugin for one in replayed.replies() if one.event == "Synchronize"] == ["20-peer"]


def test_a_failure_policy_that_the_runtime_ignores_is_reported(one_life: Path) -> None:
    small = SmallPlugin("10-small")
    reply = configure_reply(0, FailurePolicy(fail_request=True))
    small.on["Configure"] = lambda request: reply
    replayed = played_to_peers(job_of(one_life, {}, profile="containerd-2.4"), small)
    (dropped,) = [one for event in replayed.events for one in event.dropped]
    assert (dropped.path, dropped.value) == ("/failure_policy", "fail_request")
    assert dropped.reason == "containerd 2.4.2 (NRI 0.12.3) ignores it: it needs NRI 0.12.4"


CRASHING = """
import os
from nri_scope.plugin import run

class Plugin:
    failure_policy = "fail_request"

    def create_container(self, pod, container):
        os._exit(3)

run(Plugin(), name="crashing")
"""


@pytest.mark.parametrize(
    ("profile", "created", "warned"), [("nri-0.12.5", False, False), ("containerd-2.4", True, True)]
)
def test_the_failure_policy_of_a_python_plugin_applies_where_it_is_known(
    one_life: Path, profile: str, created: bool, warned: bool
) -> None:
    command = PluginCommand("10", "crashing", (sys.executable, "-c", CRASHING))
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    plugin_set = PluginSet((command,), environment=environment)
    replayed = run(replay(Job(one_life, plugin_set, profile=profile)))
    assert replayed.containers["shop/web/app"].created is created
    (crash,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert crash.verdict is Verdict.CRASH
    lines = [line.text for event in replayed.events for line in event.output]
    assert any("does not know the failure policy fail_request" in one for one in lines) is warned
    # It is not sent, so there is nothing that the runtime ignores.
    assert not any(event.dropped for event in replayed.events)


class Late:
    """Fails requests that it does not answer, and stays connected."""

    failure_policy = "fail_request,keep_connected"

    def __init__(self) -> None:
        self.events: list[str] = []

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        self.events.append(f"create {container.name}")

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        self.events.append(f"run {pod.name}")


@pytest.mark.exhaustive
def test_the_failure_policy_is_an_attribute_in_this_process_too(tmp_path: Path) -> None:
    other = api.PodSandbox(id="other", name="other", namespace="shop")
    path = recording(tmp_path / "late.nriscope.db", [run_pod(), *life(container()), run_pod(other)])
    late = Late()
    replayed = played(
        path, {"10-late": late}, profile="nri-0.12.5", faults=["slow:CreateContainer:9s"]
    )
    assert late.events == ["run web", "create app", "run other"]
    assert not replayed.containers["shop/web/app"].created
    assert [one.verdict for one in replayed.replies() if one.event == "CreateContainer"] == [
        Verdict.LATE
    ]


def test_a_plugin_that_exits_between_events_is_reported(one_life: Path) -> None:
    leaving = "import asyncio, os; asyncio.get_running_loop().call_later(0.2, os._exit, 0)"
    command = plugin_that_runs(leaving, "StateChange")
    job = Job(one_life, PluginSet((PluginCommand("10", "plugin", tuple(command)),)))

    class WaitForExit:
        async def before(self, pending: PendingEvent | None) -> StepDecision:
            if pending is not None and pending.event == "CreateContainer":
                while children():
                    await asyncio.sleep(0.01)
            return SEND

        def after(self, pending: PendingEvent, played: PlayedEvent) -> None:
            pass

    replayed = run(replay(replace(job, playback=PlaybackOptions(control=WaitForExit()))))
    assert {one.verdict for one in replayed.replies()} == {Verdict.OK}
    assert "exit status 0" in replayed.plugins[0].deserted
    assert junit_failures(replayed) == list(replayed.failures())
    assert not replayed.ok


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("ended", "grace_s", "ending"),
    [
        ("pass", 60, "ended by itself when its connection was closed, exit status 0"),
        ("import time; time.sleep(1000)", 0.2, "ended by SIGTERM"),
        ("pass", 0, "was killed"),
    ],
)
def test_the_end_of_a_plugin_after_the_replay_is_no_failure(
    one_life: Path, ended: str, grace_s: float, ending: str
) -> None:
    program = PluginCommand(
        "10", "plugin", tuple(plugin(ended=f"print('bye', flush=True); {ended}"))
    )
    job = Job(one_life, PluginSet((program,), grace_s=grace_s))
    replayed = run(replay(job))
    (result,) = replayed.plugins
    assert (result.ending, result.exit, result.gone) == (ending, "", "")
    assert replayed.ok
    printed = [line.text for event in replayed.events for line in event.output]
    assert printed == (["bye"] if grace_s else [])


def test_children_are_reported_and_killed(one_life: Path) -> None:
    child = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    replayed = launched(one_life, plugin_that_runs(child), PATH=os.environ["PATH"])
    assert replayed.plugins[0].left_behind == ("sleep 1000",)
    assert {one.verdict for one in replayed.replies()} == {Verdict.OK}
    assert not replayed.ok
    assert not children()


def test_output_is_stored_with_its_event(one_life: Path) -> None:
    printing = plugin(
        registered="for event in ('CreateContainer', 'StopContainer'): "
        "plugin.on[event] = lambda request: [print(request.method, flush=True), b''][1]"
    )
    for _ in range(3):
        replayed = launched(one_life, printing)
        printed = {event.event: [line.text for line in event.output] for event in replayed.events}
        assert {event: lines for event, lines in printed.items() if lines} == {
            event: [event] for event in ("CreateContainer", "StopContainer")
        }


def test_stored_output_of_an_event_is_bounded(
    one_life: Path,
) -> None:
    replayed = launched(one_life, plugin_that_runs("print('line\\n' * 50_000, flush=True)"))
    (event,) = [event for event in replayed.events if event.output]
    assert len(event.output) == 1000
    assert event.output_left_out > 1000
    assert replayed.ok


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (python("import sys; sys.exit('no configuration')"), "exit status 1; its last output: no"),
        (["/nowhere/plugin"], "/nowhere/plugin: cannot be launched: no such file"),
        (["/etc/passwd"], "permission denied; make it executable"),
    ],
)
def test_a_plugin_that_fails_to_start_ends_the_replay(
    one_life: Path, command: list[str], words: str
) -> None:
    with pytest.raises(UsageError) as raised:
        launched(one_life, command)
    assert words in str(raised.value)
    assert not children()


def test_a_replay_leaves_no_processes_or_descriptors(one_life: Path) -> None:
    before = descriptors()
    launched(one_life, plugin(), plugin())
    assert not children()
    assert descriptors() == before


@pytest.mark.parametrize("profile", ["recorded", "containerd-1.7"])
def test_an_undecodable_reply_fails_the_creation(one_life: Path, profile: str) -> None:
    peer = SmallPlugin("10-peer")
    peer.on["CreateContainer"] = lambda request: b"\xff\xff\xff"
    replayed = played_to_peers(job_of(one_life, {}, profile=profile), peer)
    (malformed,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert malformed.verdict is Verdict.MALFORMED
    assert not replayed.containers["shop/web/app"].created


def test_an_undecodable_reply_to_synchronize_is_reported(one_life: Path) -> None:
    peer = SmallPlugin("10-peer")
    peer.on["Synchronize"] = lambda request: b"\xff\xff\xff"
    replayed = played_to_peers(job_of(one_life, {}), peer)
    assert [(one.event, one.verdict) for one in replayed.replies()] == [
        ("Synchronize", Verdict.MALFORMED)
    ]
    assert replayed.plugins[0].gone_after == 0


@pytest.mark.parametrize(
    ("plugin_id", "mask", "words"),
    [
        ("1-peer", 0, "1-peer connected to"),
        ("x1-peer", 0, "'x1' is not a plugin index"),
        ("10-", 0, "a plugin needs a name"),
        ("10-peer", 1 << 25, "subscribed to events 0x2000000"),
    ],
)
def test_a_rejected_external_plugin_ends_the_replay(
    one_life: Path, plugin_id: str, mask: int, words: str
) -> None:
    class Stubborn(SmallPlugin):
        async def register(self) -> None:
            from contextlib import suppress

            from nri_scope.errors import NriScopeError

            with suppress(NriScopeError):
                await super().register()

    with pytest.raises(UsageError) as raised:
        played_to_peers(job_of(one_life, {}), Stubborn(plugin_id, mask))
    assert words in str(raised.value)


async def test_a_rejection_is_reported_after_older_ones_were_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.runtime.server.FORMER_KEPT", 1)

    async def try_to_join(path: Path) -> None:
        peer = SmallPlugin("10-peer", mask=1 << 25)
        await peer.connect(path)
        await peer.register()

    before, after = tmp_path / "before.sock", tmp_path / "after.sock"
    async with EmulatedRuntime(PROFILES["containerd-2.3"]) as runtime:
        await runtime.listen(before)
        for number in (1, 2):
            await try_to_join(before)
            await runtime.wait_for(lambda number=number: runtime.rejected == number)  # type: ignore[misc]
        assert len(runtime.rejections) == 1
        cast = ReplayPlugins(PluginSet(listen=after, expect=1), lambda line: None, lambda: 0)
        entering = asyncio.create_task(cast.enter(runtime))
        while not after.exists():
            await asyncio.sleep(0)
        await try_to_join(after)
        with pytest.raises(
            UsageError, match=r"10-peer connected to .* and was rejected: subscribed to events"
        ):
            await entering
