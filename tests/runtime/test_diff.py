# SPDX-License-Identifier: Apache-2.0
"""``diff --live`` and ``blame`` with a real containerd, compared with the plugins' own notes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from nri_scope.differ import recording_differ as reading
from nri_scope.differ.blame.document import document as blame_of
from nri_scope.events import Role
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs import value_at
from tests.runtime.testbed.connections import cut_oldest
from tests.runtime.testbed.containerd import Containerd
from tests.runtime.testbed.crew import Crew, crew
from tests.runtime.testbed.crowd import Crowd
from tests.runtime.testbed.diffing import PROBES, Diff, diffing
from tests.runtime.testbed.driver import Container, Driver
from tests.runtime.testbed.record import PATIENCE, command, rows
from tests.runtime.testbed.truth import Truth
from tests.runtime.testbed.verdict import SHARES, JsonObject, Verdict

pytestmark = pytest.mark.runtime

PODS, AT_A_TIME = 50, 8


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "diff.nriscope.db"


async def test_no_change_has_a_wrong_owner(
    containerd: Containerd, file: Path, tmp_path: Path
) -> None:
    crowd = Crowd(containerd)
    async with crew(containerd, tmp_path) as plugins:
        await plugins.join_go("20")
        await plugins.join("40")
        await plugins.join("60")
        older = await crowd.start(PODS)
        async with diffing(file, containerd) as diff:

            async def cut() -> None:
                cut_oldest(diff.pid, containerd.nri_socket)

            async def wait_for_status(container: Container) -> None:
                # Without its status, it is unknown which of its changes were applied.
                question = ("ContainerStatus", container.id)
                await diff.wait_for(
                    f"answer about {container.id}", lambda: question in diff.reported
                )

            async def kill() -> None:
                await plugins.members["40"].kill()

            async def join() -> None:
                # With the index of a probe: either of them may be called first.
                await plugins.join("50")

            crowd.at = {8: kill, 14: join, 20: cut, 25: cut, 30: cut, 36: cut}
            crowd.meanwhile = wait_for_status
            await crowd.live(PODS, at_a_time=AT_A_TIME)
            await update_out_of_turn(containerd, plugins, older)
            await crowd.end(older)
            assert await diff.end() == 1, diff.words
        assert not crowd.at

    document: JsonObject = json.loads(await printed("diff", "--all", file))
    with Recording.open(file) as recording:
        crew_answers = [member.answers for member in plugins.members.values()]
        truth = Truth.of(recording, crew_answers, killed=["40-meddler"])
        verdict = Verdict(truth, crowd.lives)
        assert_reported_correctly(
            verdict, diff.rounds, [one for each in diff.rounds for one in requests_of(each)]
        )
        assert_reported_correctly(verdict, document["events"], requests_of(document))
        histories = reading.histories(recording)
        assert verdict.of_histories(histories) == []
        for history in histories.values():
            assert verdict.of_blame(blame_of(history)) == []
        assert_reconnections_reported(recording, diff)
    assert verdict.of_blame(json.loads(await printed("blame", file, older.id))) == []
    assert_varied(requests_of(document), truth)
    assert_false_claims_are_found(verdict, requests_of(document))
    assert await containerd.cri.ready()


async def test_a_creation_in_which_a_probe_is_disconnected_is_reported_once(
    containerd: Containerd, file: Path, tmp_path: Path
) -> None:
    crowd = Crowd(containerd)
    async with crew(containerd, tmp_path) as plugins, diffing(file, containerd) as diff:
        waiting = await plugins.join("20")
        await plugins.join("60")
        waiting.process.send_signal(signal.SIGSTOP)
        starting = asyncio.create_task(crowd.start(0))
        await recorded(file, "SELECT 1 FROM log WHERE event = 'CreateContainer'")
        # Between two probes: only the first has received the event.
        cut_oldest(diff.pid, containerd.nri_socket)
        await recorded(file, "SELECT 1 FROM session WHERE ended_ns IS NOT NULL")
        assert len(rows(file, "SELECT 1 FROM log WHERE event = 'CreateContainer'")) == 1
        waiting.process.send_signal(signal.SIGCONT)
        await crowd.end(await starting)
        assert await diff.end() == 1, diff.words
        crew_answers = [member.answers for member in plugins.members.values()]

    document: JsonObject = json.loads(await printed("diff", "--all", file))
    (container,) = crowd.lives
    with Recording.open(file) as recording:
        # On a busy machine its deadline passes, and the runtime continues without it.
        truth = Truth.of(recording, crew_answers, killed=["20-meddler"])
        verdict = Verdict(truth, crowd.lives)
        changes = [one for each in diff.rounds for one in requests_of(each)]
        assert_reported_correctly(verdict, diff.rounds, changes)
        assert_reported_correctly(verdict, document["events"], requests_of(document))
        assert verdict.of_histories(reading.histories(recording)) == []
    assert verdict.of_blame(json.loads(await printed("blame", file, container))) == []
    (created,) = (one for one in diff.rounds if one["event"] == "CreateContainer")
    assert created["seen_by"] == [f"{index}-nri-scope" for index in PROBES]
    assert not created["failure"]


async def test_a_creation_with_missed_deadlines_is_reported_once(
    containerd: Containerd, driver: Driver, file: Path, tmp_path: Path
) -> None:
    async with crew(containerd, tmp_path) as plugins:
        await plugins.join("20")
        # Two slow plugins between two probes, so that two deadlines pass between the probes.
        for index in ("35", "40"):
            await plugins.join_slow(index)
        async with diffing(file, containerd) as diff:
            pod = await driver.run_pod("shop", "web")
            container = await driver.create(pod, "app")
            # The creation is reported before anything else happens.
            await diff.wait_for(
                "end of the creation", lambda: named(diff, "PostCreateContainer") == 1
            )
            await driver.remove(container)
            await driver.remove_pod(pod)
            assert await diff.end() == 1, diff.words
    assert named(diff, "CreateContainer") == 1
    assert not any(one["failure"] or one["missed_by"] for one in diff.rounds)
    (created,) = (one for one in diff.rounds if one["event"] == "CreateContainer")
    assert created["seen_by"] == [f"{index}-nri-scope" for index in PROBES]
    (late,) = (one for one in created["spans"] if one["over_deadline"])
    assert (late["after"], late["before"]) == ("30-nri-scope", "50-nri-scope")
    # Two deadlines, of which a part may pass before the first probe's reply is sent.
    assert late["took_us"] > 1.9 * 1000 * late["deadline_ms"]
    document: JsonObject = json.loads(await printed("diff", "--all", file))
    for event in ("CreateContainer", "PostCreateContainer", "RemoveContainer"):
        live, afterwards = (
            [(one["id"], one["seen_by"], one["failure"]) for one in rounds if one["event"] == event]
            for rounds in (diff.rounds, document["events"])
        )
        assert live == afterwards


async def recorded(file: Path, query: str) -> None:
    """Wait until a query of a recording returns rows."""
    async with asyncio.timeout(PATIENCE):
        while not rows(file, query):
            await asyncio.sleep(0.01)


def named(diff: Diff, event: str) -> int:
    """Number of reported rounds of an event."""
    return sum(one["event"] == event for one in diff.rounds)


async def update_out_of_turn(containerd: Containerd, plugins: Crew, container: Container) -> None:
    """Let a plugin request an unsolicited update, and wait until the runtime has applied it."""
    plugin = plugins.members["60"]
    plugin.process.send_signal(signal.SIGUSR1)
    async with asyncio.timeout(PATIENCE):
        while True:
            requested = [
                deed.value
                for deed in plugin.answers.deeds()
                if (deed.event, deed.container) == ("UpdateContainers", container.id)
            ]
            details = await containerd.cri.container_status(container.id)
            if requested and value_at(dict(details.runtime_spec or {}), SHARES) == requested[-1]:
                return
            await asyncio.sleep(0.01)


async def printed(*arguments: str | Path) -> str:
    """Return the JSON of ``diff``, which exits with 1 as there are changes, or of ``blame``."""
    process = await asyncio.create_subprocess_exec(
        *(command(), *arguments, "--format", "json"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == (1 if arguments[0] == "diff" else 0)
    return output.decode()


def requests_of(document: JsonObject) -> list[JsonObject]:
    """Return what plugins requested, whatever became of it."""
    return [*document["changes"], *document["requests"]]


def assert_reported_correctly(
    verdict: Verdict, rounds: list[JsonObject], changes: list[JsonObject]
) -> None:
    assert verdict.of_rounds(rounds) == []
    # The outcome of a change is reported as the same change again.
    assert verdict.of_changes([change for change in changes if not change["again"]]) == []
    assert verdict.of_applied(changes) == []


def assert_reconnections_reported(recording: Recording, diff: Diff) -> None:
    """Check that each probe was disconnected once, reconnected, and reported it."""
    sessions = Counter(one.plugin_index for one in recording.sessions() if one.role != Role.CRI)
    assert sessions == dict.fromkeys(PROBES, 2)
    gaps = [gap for gap in recording.gaps() if "not connected" in gap.reason]
    assert len({gap.session for gap in gaps}) == len(gaps) == len(PROBES)
    for index in PROBES:
        assert any(f"probe {index}: session ended" in words for words in diff.words), diff.words


def assert_false_claims_are_found(verdict: Verdict, changes: list[JsonObject]) -> None:
    """Check that the verdict detects wrong claims."""
    number, right = next(
        (number, one)
        for number, one in enumerate(changes)
        if one["index"] == "31–49" and one["evidence"] == ["probes"] and one["op"] == "add"
    )
    others = next(change["owner_detail"] for change in changes if change["index"] == "51–98")
    before, after = changes[:number], changes[number + 1 :]
    for wrong in (
        [right | {"owner_detail": others}],
        [right | {"evidence": ["events"], "owner_detail": others}],
        [right | {"after": "something else"}],
        [right, right | {"path": "/process/env/INVENTED"}],
        [],
    ):
        assert verdict.of_changes([*before, *wrong, *after]), wrong
    applied = next(
        change
        for change in changes
        if change["outcome"]["kind"] == "in effect" and change["path"].startswith("/annotations/")
    )
    assert verdict.of_applied([applied | {"after": "something else"}]), applied


def assert_varied(changes: list[JsonObject], truth: Truth) -> None:
    """Check that enough events of every kind were compared."""
    created = Counter(
        plugin
        for plugin, _ in {
            (deed.plugin, deed.container)
            for deed in truth.deeds
            if deed.event == "CreateContainer" and deed.container == deed.about
        }
    )
    assert len(created) == 4
    assert created["60-meddler"] == PODS + 1
    assert 0 < created["40-meddler"] < PODS / 2, created
    assert 0 < created["50-meddler"] < PODS - 10, created
    counts = Counter((change["index"], change["evidence"][0]) for change in changes)
    assert min(counts[index, "probes"] for index in ("01–29", "31–49", "51–98")) > PODS, counts
    assert counts["", "request"] > PODS / 4
    assert {"add", "replace", "remove"} <= {change["op"] for change in changes}
    outcomes = Counter(change["outcome"]["kind"] for change in changes)
    assert outcomes["in effect"] > 10 * PODS, outcomes


@pytest.mark.parametrize("pause", [0.0, 0.5])
async def test_a_failed_start_is_reported_with_its_error(
    containerd: Containerd, driver: Driver, file: Path, tmp_path: Path, pause: float
) -> None:
    """containerd sends plugins no event for a start whose process could not be prepared."""
    async with crew(containerd, tmp_path) as plugins, diffing(file, containerd) as diff:
        await plugins.join("40")
        pod = await driver.run_pod("shop", "web")
        broken = await driver.create(pod, "broken", command=["/no/such/program"])
        await asyncio.sleep(pause)
        error = await driver.fail_to_start(broken)

        def failed() -> list[JsonObject]:
            return [
                one for one in diff.rounds if one["event"] == "ContainerStatus" and one["failure"]
            ]

        await diff.wait_for("failure", lambda: bool(failed()))
        assert await diff.end() == 1, diff.words
    (one, *_) = failed()
    assert one["failure"].startswith(
        "the container failed to start and never ran (StartError, exit code 128): "
    )
    assert "/no/such/program" in one["failure"] and "/no/such/program" in str(error)
    head = json.loads(await printed("blame", file, broken.id))
    assert any(
        remark.startswith("this spec was created, but never ran") for remark in head["remarks"]
    )
