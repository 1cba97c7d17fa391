# SPDX-License-Identifier: Apache-2.0
"""Replays to plugins that connect to a private socket by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.cli.main import run as run_command
from nri_scope.errors import UsageError
from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.replay.faults import parse_faults
from nri_scope.replay.playback import PlaybackOptions, ReplayListener
from nri_scope.replay.plugin_command import PluginCommand, command, parse_plugin
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.replies import Verdict
from nri_scope.replay.report.documents import document
from nri_scope.replay.report.text import ResultFormatter
from nri_scope.replay.result import Replayed
from nri_scope.replay.run import Job, replay
from nri_scope.transport.loop import run
from tests.runtime_emulation.scripts import children, external, plugin, registering

from .recordings import as_tapped, container, life, recording, run_pod

ADJUSTS = (
    "from nri_scope._gen.nri import api_pb2 as api; reply = api.CreateContainerResponse();"
    " reply.adjust.annotations['by'] = plugin.name;"
    " plugin.on['CreateContainer'] = lambda request: reply"
)
FAILS = "plugin.on['StopContainer'] = lambda request: [print('x', flush=True), os._exit(3)]"

AGAIN = """for _ in range(1000):
        try:
            plugin = SmallPlugin('42-own')
            await plugin.connect('{socket}')
            break
        except Exception:
            await asyncio.sleep(0.01)
    await plugin.register()
    await plugin.connected.wait_closed()"""


class Notices(ReplayListener):
    """Listener that keeps messages for the user."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    events = [run_pod(), *life(container())]
    # The recorded runtime sends launched plugins no Synchronize.
    return recording(tmp_path / "life.nriscope.db", events, nri_version="0.6.1", timeout_ms=10_000)


def job_of(path: Path, *commands: PluginCommand, faults: Sequence[str] = ()) -> Job:
    playback = PlaybackOptions(faults=parse_faults(faults))
    return Job(path, PluginSet(commands, grace_s=60), playback=playback)


def of(argv: Sequence[str], index: str = "10", *, is_external: bool = False) -> PluginCommand:
    return PluginCommand(index, "plugin", tuple(argv), is_external)


def synchronized(replayed: Replayed) -> list[str]:
    return [reply.plugin for reply in replayed.replies() if reply.event == "Synchronize"]


def test_a_socket_in_the_arguments_makes_a_plugin_external() -> None:
    plain, named = command(("true",)), command(("true", "-s={socket}"))
    assert [one.external for one in (plain, named)] == [False, True]
    assert parse_plugin("10=true", external=True).external
    assert (plain.title, named.title) == ("10-true", "external true")


@pytest.mark.parametrize("is_external", [True, False])
def test_a_plugin_with_its_own_index_is_started_as_an_external_one(
    is_external: bool, one_life: Path
) -> None:
    listener = Notices()
    own = of(external("42-own", registered=ADJUSTS), is_external=is_external)
    replayed = run(replay(job_of(one_life, own), listener))
    (result,) = replayed.plugins
    assert (result.plugin, result.external) == ("42-own", True)
    assert (result.exit, result.gone) == ("", "")
    assert result.ending.startswith("ended by itself")
    assert replayed.ok
    assert synchronized(replayed) == ["42-own"]
    assert replayed.containers["shop/web/app"].owner("/annotations/by") == "42-own"
    notices = [
        "10-plugin sets its own index, so it is started again as an external plugin",
        "10-plugin registered as 42-own",
    ]
    assert listener.notices == ([] if is_external else notices)
    assert not children()


def test_all_registrations_of_one_command_get_the_first_event(one_life: Path) -> None:
    """Upstream's differ registers at several indices, to compare what each of them receives."""
    listener = Notices()
    replayed = run(
        replay(job_of(one_life, of(registering("42-own", "99-last", "05-first"))), listener)
    )
    names = ["05-first", "42-own", "99-last"]
    assert [result.plugin for result in replayed.plugins] == names
    assert all(result.ending.startswith("ended by itself") for result in replayed.plugins)
    assert listener.notices[-1] == f"10-plugin registered as {', '.join(names)}"
    events = [event for event in replayed.events if event.subject]
    assert [[reply.plugin for reply in event.replies] for event in events] == [names] * len(events)
    rows = list(ResultFormatter().event(events[0]))
    assert all(name in row for name, row in zip(names, rows, strict=True))
    assert not children()


def test_launched_and_external_plugins_form_one_chain(one_life: Path) -> None:
    listener = Notices()
    replayed = run(
        replay(
            job_of(
                one_life,
                of(external("42-second")),
                of(plugin(), "20"),
                of(external("05-first"), "30", is_external=True),
            ),
            listener,
        )
    )
    asked = [reply.plugin for reply in replayed.replies() if reply.event == "CreateContainer"]
    assert asked == ["05-first", "20-plugin", "42-second"]
    assert synchronized(replayed) == ["42-second", "05-first"]
    assert listener.notices[1:] == ["10-plugin registered as 42-second"]


def test_a_message_says_early_that_a_plugin_has_not_connected(
    one_life: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.replay.plugins.REMIND_S", 0.01)
    noticed = tmp_path / "noticed"

    class Marking(Notices):
        def notice(self, text: str) -> None:
            super().notice(text)
            noticed.touch()

    listener = Marking()
    # It connects to no socket, and ends after the message.
    waits = of(["sh", "-c", f"until test -e {noticed}; do sleep 0.01; done"], is_external=True)
    with pytest.raises(UsageError, match="failed to start: it did not connect"):
        run(replay(job_of(one_life, waits), listener))
    assert listener.notices == [
        "external plugin has not connected to its socket yet, the replay waits; write {socket} "
        "in its arguments where they name its socket, unless that is /var/run/nri/nri.sock"
    ]


@pytest.mark.parametrize("fault", ["restart-runtime:after=3", "drop-connection:after=3"])
def test_an_external_plugin_is_started_again_after_a_disconnect(fault: str, one_life: Path) -> None:
    printing = external(registered="print(os.getpid(), flush=True)")
    replayed = run(replay(job_of(one_life, of(printing, is_external=True), faults=[fault])))
    assert replayed.ok
    lines = [line.text for event in replayed.events for line in event.output]
    assert len({*lines}) == len(lines) == 2
    assert len(synchronized(replayed)) == 2
    assert replayed.plugins[0].started_again == 1
    assert any(
        "replay started it again (1×)" in line for line in ResultFormatter().summary(replayed)
    )


@pytest.mark.parametrize("fault", ["restart-runtime:after=3", "drop-connection:after=3"])
def test_an_external_plugin_that_ends_can_be_a_failure(fault: str, one_life: Path) -> None:
    job = job_of(one_life, of(external(), is_external=True), faults=[fault])
    job = replace(job, plugin_set=replace(job.plugin_set, must_reconnect=True))
    replayed = run(replay(job))
    assert list(replayed.failures()) == [
        "42-own: ended with its connection instead of connecting again"
    ]
    assert document(replayed)["ok"] is False


@pytest.mark.exhaustive
def test_an_external_plugin_that_connects_again_was_not_started_again(one_life: Path) -> None:
    job = job_of(
        one_life, of(external(ended=AGAIN), is_external=True), faults=["restart-runtime:after=3"]
    )
    job = replace(job, plugin_set=replace(job.plugin_set, must_reconnect=True))
    replayed = run(replay(job))
    assert not list(replayed.failures())
    assert replayed.plugins[0].started_again == 0


def test_a_crash_of_an_external_plugin_is_reported_at_its_event(one_life: Path) -> None:
    replayed = run(replay(job_of(one_life, of(external(registered=FAILS), is_external=True))))
    (failed,) = [reply for reply in replayed.replies() if reply.problem]
    assert (failed.event, failed.verdict) == ("StopContainer", "crash")
    assert failed.problem.endswith("the plugin ended, exit status 3")
    (result,) = replayed.plugins
    assert (result.exit, result.ending, result.deserted) == ("exit status 3", "", "")


@pytest.mark.exhaustive
def test_children_of_an_external_plugin_are_reported_and_killed(one_life: Path) -> None:
    child = "subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    replayed = run(replay(job_of(one_life, of(external(registered=child), is_external=True))))
    assert replayed.plugins[0].left_behind == ("sleep 1000",)
    assert not children()


def test_two_external_plugins_of_one_name_are_refused(one_life: Path) -> None:
    both = (of(external(), index, is_external=True) for index in ("10", "20"))
    with pytest.raises(UsageError, match="two plugins register as 42-own"):
        run(replay(job_of(one_life, *both)))
    assert not children()


def test_a_plugin_that_never_registers_is_reported_with_a_hint(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.nriscope.db", [run_pod()], nri_version="0.12.0")
    stays = of(["sleep", "1000"])
    with pytest.raises(UsageError, match=r"did not register within .*; .* add --external"):
        run(replay(_impatient(path, stays)))


def _impatient(path: Path, plugin: PluginCommand) -> Job:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE session SET registration_timeout_ms = 100")
        connection.commit()
    return job_of(path, plugin)


@pytest.mark.exhaustive
def test_later_replays_start_the_plugin_as_an_external_one_at_once(one_life: Path) -> None:
    attempts: list[str] = []

    job, notices = job_of(one_life, of(external(registered=FAILS))), Notices()
    for _ in range(3):
        replayed = run(replay(job, notices))
        (failed,) = (reply for reply in replayed.replies() if reply.verdict is Verdict.CRASH)
        assert failed.plugin == "42-own"
        lines = (line.text for event in replayed.events for line in event.output)
        attempts.append(" ".join(line for line in lines if "already set" in line))
    assert len(notices.notices) == 2
    assert attempts == ['plugin ID already set ("10")', "", ""]


def test_recorded_replies_are_those_of_a_plugin_that_sets_its_own_index(
    one_life: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without {socket} in its arguments, it is launched first.
    plain = external("42-own", socket=DEFAULT_SOCKET)
    changing = external("42-own", socket=DEFAULT_SOCKET, registered=ADJUSTS)
    replies = tmp_path / "own.nriscope.db"
    status = run_command(["replay", str(one_life), "-o", str(replies), "--", *changing])
    if "operation not permitted" in capsys.readouterr().err:
        pytest.skip("namespaces are not permitted here")
    assert status == 0
    tapped = str(as_tapped(replies, tmp_path / "tap.nriscope.db"))
    assert run_command(["replay", tapped, "--golden", tapped, "--", *changing]) == 0
    assert run_command(["replay", tapped, "--golden", tapped, "--", *plain]) == 1
