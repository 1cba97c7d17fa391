# SPDX-License-Identifier: Apache-2.0
"""Recordings of four real runtimes with a chain of six plugins, of which five were observed.

20-device-injector was not observed, 30-env-injector and 60-cpu-policy with their replies; the
other three are passive.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import (
    ChangeStep,
    Evidence,
    OutcomeKind,
    RoundDiff,
)
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import ASKED_BEFORE_ALL, plugin
from nri_scope.differ.blame.owned_lines import FinalOwners
from nri_scope.events import Container, Event, Pod
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.runtime_emulation.captures import NAMES

INJECTOR, POLICY = "30-env-injector", "60-cpu-policy"
APP = "shop/web/app"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def recording(name: str, captures: dict[str, Path]) -> Iterator[Recording]:
    with Recording.open(captures[name]) as opened:
        yield opened


def container(recording: Recording, name: str = APP) -> Container:
    found = lookup.find(recording, name)
    assert isinstance(found, Container)
    return found


def newest(history: History) -> dict[str, ChangeStep]:
    return {step.change.path: step for step in history.steps}


class TestBlame:
    def test_names_the_owner_of_each_change(self, recording: Recording, name: str) -> None:
        history = recording_differ.history_of(recording, container(recording))
        steps = {step.change.path: step for step in reversed(history.steps)}
        injected = {path for path, step in steps.items() if step.owner.plugins == (INJECTOR,)}
        assert injected == {
            "/process/env/INJECTED",
            "/process/env/FOO",
            "/mounts/~1mnt~1tmp",
            "/annotations/example.com~1injected-by",
            "/process/rlimits/RLIMIT_NOFILE",
        }
        assert (
            steps["/process/env/FOO"].change.before,
            steps["/process/env/FOO"].change.after,
        ) == (
            "bar",
            "overridden",
        )
        policy = {path for path, step in steps.items() if step.owner.plugins == (POLICY,)}
        dropped = {
            path
            for path, step in steps.items()
            if step.outcome.kind is OutcomeKind.DROPPED and step.owner.plugins == (POLICY,)
        }
        assert policy == {
            "/linux/resources/cpu/shares",
            "/linux/resources/cpu/cpus",
            "/process/oomScoreAdj",
            "/linux/resources/pids/limit",
        }
        # NRI 0.6 lacks oomScoreAdj and pids.
        assert len(dropped) == (2 if name == "containerd-1.7.24" else 0)
        assert all(
            step.evidence[0] is Evidence.TAP for step in steps.values() if step.owner.plugins
            and step.owner.plugins[0] in (INJECTOR, POLICY)
        )  # fmt: skip

    def test_names_the_unobserved_plugin_as_exactly_as_the_runtime_allows(
        self, recording: Recording, name: str
    ) -> None:
        history = recording_differ.history_of(recording, container(recording))
        device = newest(history)["/linux/devices/~1dev~1nri-null"]
        if name in ("containerd-2.4-beta", "cri-o-1.37"):
            assert str(device.owner) == "20-device-injector"
            assert device.evidence == (Evidence.PROBES, Evidence.VALIDATOR)
        else:
            assert str(device.owner) == "one of 01–29"
            assert device.owner.index == "01–29"
            assert device.owner.ties == ("00", "30")
            assert device.evidence == (Evidence.PROBES,)
        rule = newest(history)["/linux/resources/devices/c 1:3"]
        assert rule.owner == device.owner
        assert rule.note == "the runtime's rule for the device /dev/nri-null"

    def test_has_the_whole_history_of_a_field(self, recording: Recording) -> None:
        history = recording_differ.history_of(recording, container(recording))
        shares = [
            (step.change.before, step.change.after, step.owner)
            for step in history.steps_at("/linux/resources/cpu/shares")
        ]
        assert shares == [
            (512, 2048, plugin(POLICY)),
            (2048, 256, ASKED_BEFORE_ALL),
        ]
        cpus = history.steps_at("/linux/resources/cpu/cpus")
        # On CRI-O the last request is part of a creation that failed after its updates.
        assert [step.change.after for step in cpus] == ["0", "1", "0-1", "1"]
        assert cpus[-1].outcome.kind is OutcomeKind.SEEN
        assert {step.owner for step in cpus} == {plugin(POLICY)}
        times = [step.at_ns for step in history.steps]
        assert times == sorted(times)

    def test_of_one_container_equals_that_of_all(self, recording: Recording) -> None:
        everything = recording_differ.histories(recording)
        for one in recording.containers():
            assert recording_differ.history_of(recording, one) == everything[one.id], one.name

    def test_unchanged_lines_belong_to_the_pod_spec(self, recording: Recording) -> None:
        history = recording_differ.history_of(recording, container(recording))
        assert str(history.base_owner) == "Pod spec/CRI"
        owner, evidence, step = FinalOwners(history).by_events("/process/cwd")
        assert (str(owner), evidence, step) == ("Pod spec/CRI", (), None)


class TestSideEffects:
    def test_are_part_of_the_event_that_caused_them(self, recording: Recording) -> None:
        differ = Differ(recording.sessions())
        beside = [
            (one.name, differ.name_of(one.container), differ.name_of(step.container), step)
            for one in recording_differ.rounds(recording, differ=differ)
            for step in one.side_effects
        ]
        assert [
            (event, cause, touched, step.change.after) for event, cause, touched, step in beside
        ][:4] == [
            ("CreateContainer", "shop/web/sidecar", APP, "1"),
            ("CreateContainer", "jobs/batch/job", "shop/web/sidecar", "1"),
            ("StopContainer", "jobs/batch/job", APP, "0-1"),
            ("StopContainer", "jobs/batch/job", "shop/web/sidecar", "0-1"),
        ]
        assert {step.owner for *_, step in beside} == {plugin(POLICY)}
        assert {step.change.path for *_, step in beside} == {"/linux/resources/cpu/cpus"}
        assert {step.evidence for *_, step in beside} == {(Evidence.TAP,)}

    def test_are_selected_with_their_container(self, recording: Recording) -> None:
        one = container(recording)
        found = list(recording_differ.rounds(recording, one))
        assert any(each.container != one.id for each in found)
        assert all(
            each.container == one.id or any(step.container == one.id for step in each.steps)
            for each in found
        )


class TestSelection:
    @pytest.mark.exhaustive
    def test_an_event_selects_its_round(self, recording: Recording) -> None:
        # Only a sample in CI.
        for one in list(recording_differ.rounds(recording))[:: amount(1, 8)]:
            for number in one.events:
                event = recording.event(number)
                assert event is not None
                found = list(recording_differ.rounds(recording, event))
                assert [each.events for each in found] == [one.events]

    def test_a_pod_selects_its_own_rounds(self, recording: Recording) -> None:
        pod = lookup.find(recording, "jobs/batch")
        assert isinstance(pod, Pod)
        found = list(recording_differ.rounds(recording, pod))
        assert {"RunPodSandbox", "CreateContainer", "StopContainer"} <= {one.name for one in found}
        assert all(one.pod == pod.id or any(step.container for step in one.steps) for one in found)


class TestTime:
    def test_is_spent_in_plugins_and_between_connections(self, recording: Recording) -> None:
        (creation, *_) = (
            one for one in recording_differ.rounds(recording) if one.name == "CreateContainer"
        )
        assert [str(span.owner) for span in creation.spans][:2] == [INJECTOR, POLICY]
        between = [(span.after, span.before) for span in creation.spans[2:]]
        assert between == [
            ("00-probe-a", INJECTOR),
            (INJECTOR, "50-probe-b"),
            ("50-probe-b", POLICY),
            (POLICY, "95-probe-c"),
        ]
        assert all(span.ns >= 0 and span.deadline_ns > 0 for span in creation.spans)


def events_of(recording: Recording, found: list[RoundDiff]) -> list[Event]:
    """The first event of each round that failed."""
    events = (recording.event(one.event) for one in found if one.failure)
    return [event for event in events if event is not None]


def runtime_of(recording: Recording) -> str:
    return recording.sessions()[0].runtime_name


def test_every_event_is_in_one_round_and_none_is_missed(recording: Recording) -> None:
    found: list[RoundDiff] = list(recording_differ.rounds(recording))
    assert not [one for one in found if one.missed_by]
    # The program does not exist: CRI-O does not create the container, containerd does not start it.
    failed = {event.container for event in events_of(recording, found)}
    assert failed == ({"broken"} if runtime_of(recording) == "cri-o" else set())
    numbers = [number for one in found for number in one.events]
    events: list[Event] = [each for each in recording.events() if each.method != "Configure"]
    assert sorted(numbers) == [each.id for each in events]
