# SPDX-License-Identifier: Apache-2.0
"""Results of a replay as lines, JSON, JUnit and a recording."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.events import Role
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import to_json
from nri_scope.replay.playback import ReplayListener
from nri_scope.replay.replies import Reply, Verdict
from nri_scope.replay.report import ResultFormatter, document, junit
from nri_scope.replay.result import PlayedEvent, PluginResult, PrintedLine, Replayed, ReplyCounts
from nri_scope.replay.run import replay
from nri_scope.specs.differences import Change
from nri_scope.transport.loop import run
from tests.amount import amount
from tests.plugin_builders import adjust
from tests.sample_names import CHECKOUT_API

from .plays import job_of, played
from .recordings import RECORDING, container, life, recording, run_pod


class Adding:
    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        return adjust(env={"A": "1"}, annotations={"x/y": "z"})


class Failing:
    def create_container(self, pod: PodSandbox, container: Container) -> None:
        raise RuntimeError("not today")


def lines(replayed: Replayed) -> str:
    report = ResultFormatter(chain=len(replayed.plugins) > 1)
    printed_lines = [line for event in replayed.events for line in report.event(event)]
    return "\n".join([*printed_lines, *report.containers(replayed), *report.summary(replayed)])


def test_json_is_deterministic_except_for_times() -> None:
    texts = set()
    for _ in range(3):
        found = document(played(RECORDING, {"10-a": Adding(), "20-f": Failing()}))
        assert found.pop("times")
        texts.add(to_json(found))
    (text,) = texts
    found = json.loads(text)
    assert found["schema_version"] == 1
    assert found["ok"] is False
    assert found["containers"][CHECKOUT_API]["created"] is False
    assert "not today" in found["containers"][CHECKOUT_API]["failure"]


def test_a_narrow_terminal_wraps_reasons_in_full() -> None:
    replayed = played(RECORDING, {"10-a": Adding(), "20-f": Failing()})
    report = ResultFormatter(chain=True, plugins=["10-a", "20-f"], width=80)
    printed_lines = [line for event in replayed.events for line in report.event(event)]
    printed_lines += report.containers(replayed)
    assert max(map(len, printed_lines)) <= 80
    words = " ".join(" ".join(printed_lines).split())
    assert "error: rpc error: code 2: RuntimeError: not today" in words
    assert "fails: failed to create containerd container: failed to get NRI adjustment" in words
    reasons = [line for line in printed_lines if line.startswith(" " * 8)]
    assert reasons and not any("…" in line for line in reasons)
    # Names leave room for plugins and times.
    assert any(re.search(r"…x2x9z/checkout-api  20-f +\d+µs$", line) for line in printed_lines)


def test_lines_show_events_containers_and_the_summary() -> None:
    text = lines(played(RECORDING, {"10-a": Adding()}))
    assert f"CreateContainer      {CHECKOUT_API}" in text
    assert "changes env A, annotations[x/y]" in text
    assert f'\n{CHECKOUT_API}\n  + env A = "1"\n  + annotations[x/y] = "z"\n' in text
    assert text.splitlines()[-1].startswith("30 events, 5 replies: 5 ok in ")
    text = lines(played(RECORDING, {"10-a": Adding(), "20-f": Failing()}))
    assert "  was not created: failed to create containerd container: " in text
    assert "not sent: its container was not created here" in text


def test_differences_of_two_chains_are_the_changes_of_one() -> None:
    ours, other = played(RECORDING, {"10-a": Adding()}), played(RECORDING, {})
    text = "\n".join(ResultFormatter().differences(ours, other, "without 10-a"))
    assert f'{CHECKOUT_API} without 10-a\n  - env A (was "1")' in text
    equal = played(RECORDING, {"30-other": Adding()})
    same = "\n".join(ResultFormatter().differences(ours, equal, "with 30-other"))
    assert same == "\nboth chains result in equal containers"


def test_reply_over_the_accepted_time_is_a_failure_but_valid() -> None:
    job = job_of(RECORDING, {"10-a": Adding()})
    slow = run(replay(replace(job, playback=replace(job.playback, max_took_ns=1))))
    quick = run(replay(replace(job, playback=replace(job.playback, max_took_ns=60 * 10**9))))
    assert quick.ok
    assert not slow.ok
    assert [reply.verdict for reply in slow.replies()] == [one.verdict for one in quick.replies()]
    assert slow.tally.too_slow == len(list(slow.replies()))
    assert (
        f"CreateContainer {CHECKOUT_API}: 10-a: too slow: took more than 1ns" in slow.tally.failures
    )
    text = lines(slow)
    assert "changes env A, annotations[x/y]  too slow: took more than 1ns\n" in text
    assert "5 replies: 5 too slow in" in text
    failures = ElementTree.fromstring(junit(slow, {})).findall(".//failure")
    assert [failure.get("message") for failure in failures] == ["took more than 1ns"] * 5
    assert "too slow" not in lines(quick) + junit(quick, {})


def test_each_reply_is_counted_once() -> None:
    tally = ReplyCounts()
    for took_ns in (1, 60, 60, 90, 90):
        reply = Reply(1, "X", "10-a", "", 1, None, Verdict.OK, "", took_ns, 100, max_took_ns=70)
        tally.count(PlayedEvent(1, "X", "", 0, [reply]))
    tally.count(PlayedEvent(2, "X", "", 0, [replace(reply, verdict=Verdict.LATE)]))
    assert tally.counts == {"ok": 1, "slow": 2, "too slow": 2, "late": 1}


def test_only_requested_faults_are_called_faults() -> None:
    events = played(RECORDING, {"10-a": Adding()}).events
    by_hand = next(event for event in events if event.event_id and event.replies)
    by_hand.note = "the request was edited"
    assert next(ResultFormatter().event(by_hand)) == "        the request was edited"
    restart = PlayedEvent(0, "restart-runtime", "", 0, note="the runtime restarts")
    assert list(ResultFormatter().event(restart)) == [
        f"     +  {restart.event:<49}  the runtime restarts"
    ]


HOSTILE = st.text(st.characters(), min_size=1, max_size=20)


@settings(max_examples=amount(40, 40))
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_hostile_names_make_valid_xml_and_harmless_lines(
    plugin: str, subject: str, problem: str, printed: str
) -> None:
    reply = Reply(1, "CreateContainer", plugin, subject, 1, None, Verdict.CRASH, problem, 1, 2)
    event = PlayedEvent(1, "CreateContainer", subject, 0, [reply], failure=problem, fault=problem)
    event.output = [PrintedLine(plugin, "stdout", printed, 0)]
    replayed = Replayed("x", "", "recorded", plugins=[PluginResult(plugin, "")], events=[event])
    replayed.tally.count(event)
    for suite in ElementTree.fromstring(junit(replayed, {})):
        assert suite.get("failures") == "1"
    to_json(document(replayed))
    for line in lines(replayed).splitlines():
        assert line.isprintable()


def test_hostile_recordings_are_played_and_printed_harmlessly(tmp_path: Path) -> None:
    evil = "\x1b]0;evil\x07\n\u202e"
    pod = api.PodSandbox(id="p", name=evil, namespace=evil)
    one = container(evil, annotations={evil: evil}, env=[f"{evil}=1", "no equals", ""])
    one.pod_sandbox_id = "p"
    events = [run_pod(pod), *life(one)]
    for _, message in events:
        message.pod.CopyFrom(pod)  # type: ignore[attr-defined]
    replayed = played(recording(tmp_path / "evil.nriscope.db", events), {"10-a": Adding()})
    assert replayed.ok
    assert all(line.isprintable() for line in lines(replayed).splitlines())
    assert to_json(document(replayed)).isprintable()
    ElementTree.fromstring(junit(replayed, {}))


def test_a_run_can_be_recorded_and_replayed_again(tmp_path: Path) -> None:
    output = tmp_path / "run.nriscope.db"
    first = played(RECORDING, {"10-a": Adding(), "00-watch": Watching()}, output=output)
    with Recording.open(output) as run_recorded:
        sessions = run_recorded.sessions()
        assert [(session.role, session.plugin) for session in sessions] == [
            (Role.REPLAY, "00-watch"), (Role.REPLAY, "10-a"),
        ]  # fmt: skip
        assert sessions[0].runtime_name == "containerd"
        events = [event.event for event in run_recorded.events() if event.session == 2]
    assert events.count("CreateContainer") == 4
    again = played(output, {"10-a": Adding()})
    assert again.ok
    assert {name: (one.before, one.spec) for name, one in again.containers.items()} == {
        name: (one.before, one.spec) for name, one in first.containers.items()
    }


class Watching:
    """Subscribes to every recorded event, so that its session can be replayed."""

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        pass

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        pass

    def update_container(self, pod: PodSandbox, container: Container, resources: object) -> None:
        pass

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        pass

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        pass


def test_an_existing_output_file_is_not_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "run.nriscope.db"
    output.write_text("mine")
    with pytest.raises(Exception, match="file exists"):
        played(RECORDING, {"10-a": Adding()}, output=output)
    assert output.read_text() == "mine"


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans())
def test_the_audience_receives_every_event(keep: bool) -> None:
    class Listening(ReplayListener):
        def __init__(self) -> None:
            self.received: list[PlayedEvent] = []
            self.title = ""

        def began(self, replayed: Replayed) -> None:
            self.title = replayed.title

        def event(self, played: PlayedEvent) -> None:
            self.received.append(played)

    from dataclasses import replace

    audience = Listening()
    job = replace(job_of(RECORDING, {"10-a": Adding()}), keep=keep)
    replayed = run(replay(job, audience))
    assert audience.title == "containerd 2.1.9+unknown (NRI 0.8.0)"
    assert [event.event_id for event in audience.received if event.event_id] == list(range(3, 33))
    assert replayed.events == (audience.received if keep else [])
    assert sum(len(event.replies) for event in audience.received) == 5
    assert replayed.tally.verdicts == {Verdict.OK: 5}
    # The result has the plugin's changes whether or not events are kept.
    assert "/process/env/A" in replayed.containers[CHECKOUT_API].owners


@pytest.mark.parametrize("width", [None, 80])
def test_values_are_cut_only_on_a_terminal(width: int | None) -> None:
    change = Change("/process/env/LONG", None, "x" * 300, "added")
    shown = ResultFormatter(width=width).change(change)
    assert shown.endswith(f' = "{"x" * 300}"' if width is None else "…")
    assert width is None or len(shown) <= width
