# SPDX-License-Identifier: Apache-2.0
"""Statements of every surface about recordings of real runtimes, compared with the real outcome.

The truth is in tests/data/cases/README.md; it was read from config.json and from cgroups.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest

from nri_scope.cli.main import main
from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    OutcomeKind,
    RoundDiff,
)
from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame.owned_lines import FinalOwners, lines
from nri_scope.differ.recording_differ import (
    excerpt_of_container,
    excerpt_of_events,
    history_of,
    rounds,
)
from nri_scope.events import Container, Event
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.finding import Finding, FindingKind
from nri_scope.specs import label

CASES = Path(__file__).parents[1] / "data" / "cases"
LIMIT = "/linux/resources/pids/limit"
RESERVATION = "/linux/resources/memory/reservation"


@pytest.fixture
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    with Recording.open(CASES / f"{request.param}.nriscope.zip") as opened:
        yield opened


def case(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recording", [name], indirect=True)


def container(recording: Recording, name: str) -> Container:
    found = lookup.find(recording, name)
    assert isinstance(found, Container)
    return found


def printed(recording: Recording, name: str) -> str:
    """Return the joined output of blame and diff about a container."""
    path = str(recording.path)
    commands = (["blame", path, name], ["blame", path, name, "--full"], ["diff", path, name])
    output = StringIO()
    for command in commands:
        with redirect_stdout(output), suppress(SystemExit):
            main(command)
    # As one line: line breaks depend on the width.
    return " ".join(output.getvalue().split())


def findings(recording: Recording) -> list[Finding]:
    return list(collect(recording).findings)


def requests(history: History) -> set[tuple[str, object, OutcomeKind]]:
    """Return the requests that no evidence shows as changes."""
    steps = (step for step in history.steps if not step.is_change)
    return {(step.change.path, step.change.after, step.outcome.kind) for step in steps}


def round_at(recording: Recording, event: int) -> RoundDiff:
    return next(one for one in rounds(recording) if event in one.events)


@case("c24-tap-removal-of-earlier-plugins-value")
class TestRemovalOfAnotherPluginsValue:
    GONE = ("/process/env/INJECTED", "/linux/devices/~1dev~1held1")

    def test_belongs_to_the_remover_on_every_surface(self, recording: Recording) -> None:
        one = container(recording, "shop/cf/x")
        history = history_of(recording, one)
        for path in self.GONE:
            assert [(str(step.owner), step.change.kind) for step in history.steps_at(path)] == [
                ("60-remover", "removed")
            ]
        assert not history.without_effect
        seen = excerpt_of_container(recording, one, lambda: None).history(one.id)
        assert seen is not None
        assert seen.steps == history.steps
        (changed,) = collect(recording).changed
        assert [(row.path, row.kind, row.by) for row in changed.rows] == [
            (label(path), "removed", "60-remover, seen in event 5") for path in self.GONE
        ]

    def test_causes_no_finding(self, recording: Recording) -> None:
        assert findings(recording) == []
        assert "not applied" not in printed(recording, "shop/cf/x")


@case("crio-tap-update-pids-and-reservation")
class TestUpdatesOfOthersOnCriO:
    def test_take_effect(self, recording: Recording) -> None:
        a, b = (history_of(recording, container(recording, f"shop/up/{one}")) for one in "ab")
        assert FinalOwners(a).by_events(RESERVATION)[0].plugins == ("30-g30",)
        assert [step.change.after for step in b.steps_at(LIMIT)] == [66]
        assert [step.change.after for step in b.steps_at(RESERVATION)] == [25165824]
        # CRI-O's later events do not show the soft limit and pids.
        assert {step.outcome.kind for step in b.steps} == {OutcomeKind.REQUESTED}

    def test_pids_in_a_reply_are_dropped_by_nri(self, recording: Recording) -> None:
        a = history_of(recording, container(recording, "shop/up/a"))
        assert [one.change.after for one in a.without_effect] == [88]
        assert (LIMIT, 88, OutcomeKind.DROPPED) in requests(a)
        assert [finding.title for finding in findings(recording)] == [
            f"{label(LIMIT)}, requested by 30-g30, was dropped"
        ]


@case("c24-conflict-minimal-probes")
class TestConflictOnContainerd:
    def test_is_a_failed_creation_on_every_surface(self, recording: Recording) -> None:
        one = container(recording, "shop/cf/cx")
        history = history_of(recording, one)
        assert "99-nri-scope did not receive the event" in history.failure
        assert "StopContainer" in history.failure
        assert "created by" not in printed(recording, "shop/cf/cx")
        seen = excerpt_of_container(recording, one, lambda: None).history(one.id)
        assert seen is not None
        assert seen.failure == history.failure
        facts = collect(recording)
        (changed,) = (each for each in facts.changed if each.failure)
        assert changed.name == "shop/cf/cx"
        assert not changed.created_event
        assert [finding.kind for finding in facts.findings] == [FindingKind.FAILED]

    def test_undoing_it_causes_no_changes(self, recording: Recording) -> None:
        stop = round_at(recording, 24)
        assert stop.name == "StopContainer"
        assert not stop.steps


@case("crio-runc-create-failed")
class TestCreationThatFailedInTheOciRuntime:
    def test_is_detected_by_the_missing_post_create(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/cf/bad"))
        expected = "StopPodSandbox followed instead of PostCreateContainer (event 14)"
        assert history.failure == expected
        assert round_at(recording, 10).failure == expected

    def test_is_diagnosed_with_the_requested_changes(self, recording: Recording) -> None:
        (finding,) = findings(recording)
        assert finding.kind is FindingKind.FAILED
        assert finding.containers == ("shop/cf/bad",)
        assert "10-ten asked for mounts[/x] = " in finding.detail


@case("crio-failed-update-of-other")
class TestCreationAtTheEndOfARecording:
    def test_is_not_said_to_have_succeeded(self, recording: Recording) -> None:
        one = container(recording, "shop/up/b")
        history = history_of(recording, one)
        assert not history.created
        assert "PostCreateContainer had not come" in history.doubt
        assert "created by" not in printed(recording, "shop/up/b")
        (finding,) = findings(recording)
        assert finding.containers == ("shop/up/b",)

    def test_nor_the_updates_that_it_came_with(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/up/a"))
        assert requests(history) == {
            ("/linux/resources/memory/limit", 73400320, OutcomeKind.REQUESTED),
            ("/linux/resources/cpu/shares", 222, OutcomeKind.REQUESTED),
        }
        values = {line.path: line.value for line in lines(history) if line.exists}
        assert values["/linux/resources/memory/limit"] == 67108864
        assert values["/linux/resources/cpu/shares"] == 512


@case("c24-mount-replaced-moved")
class TestReplacedMount:
    def test_is_no_move(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/cf/x"))
        assert {step.change.path for step in history.steps} == {
            "/mounts/~1etc~1hosts/source",
            "/mounts/~1etc~1hosts/options",
        }
        assert "moved from" not in printed(recording, "shop/cf/x")


@case("c24-odd-fields-probes-validate-cri")
class TestOddFields:
    MEMORY = ("reservation", "swappiness", "disableOOMKiller", "useHierarchy")

    def test_a_cdi_device_is_resolved_and_its_result_shown(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/cf/m8"))
        (device,) = history.steps_at("/cdiDevices/held.com~1dev=x")
        assert device.outcome.kind is OutcomeKind.REQUESTED
        text = printed(recording, "shop/cf/m8")
        assert "not in the runtime" not in text
        assert "not applied" not in text
        assert "may be part of the CDI device held.com/dev=x" in text

    def test_five_memory_settings_are_not_applied(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/cf/m1"))
        paths = {f"/linux/resources/memory/{name}" for name in self.MEMORY}
        dropped = {path: kind for path, _, kind in requests(history)}
        assert dict.fromkeys(paths, OutcomeKind.DROPPED).items() <= dropped.items()
        assert not any(step.change.kind == "removed" for step in history.steps)
        titles = {finding.title.partition(",")[0] for finding in findings(recording)}
        assert {*map(label, paths), "memory.swap"} <= titles

    def test_the_removal_of_an_annotation_took_effect(self, recording: Recording) -> None:
        history = history_of(recording, container(recording, "shop/cf/m6"))
        (step,) = history.steps_at("/annotations/ctrann")
        assert (str(step.owner), step.change.kind) == ("30-g30", "removed")


@case("c24-tap-updates-evict")
class TestRequestsForNothing:
    def test_an_update_of_no_container_is_no_change(self, recording: Recording) -> None:
        found = round_at(recording, 8)
        (asked,) = (step for step in found.steps if step.container.startswith("deadbeef"))
        assert asked.outcome.kind is OutcomeKind.DROPPED
        assert "does not exist" in asked.outcome.reason
        assert "deadbeef" not in {step.container[:8] for step in found.changes}

    def test_an_eviction_is_on_every_surface(self, recording: Recording) -> None:
        one = container(recording, "shop/up/c")
        (asked,) = history_of(recording, one).without_effect
        assert (asked.change.path, asked.change.after) == (EVICTION, "held says so")
        assert asked.outcome.kind is OutcomeKind.DROPPED
        event = recording.event(13)
        assert isinstance(event, Event)
        of_event = excerpt_of_events(recording, [event]).round_of(13)
        assert of_event is not None
        assert of_event.steps == (asked,)
        sentence = '30-g30 asked to evict the container ("held says so")'
        assert f"! {sentence}: dropped" in printed(recording, "shop/up/c")
        facts = collect(recording)
        rows = [row for each in facts.changed for row in each.rows]
        assert [row.sign for row in rows if row.path == label(EVICTION)] == ["!"]
        assert any("asked to evict" in finding.detail for finding in facts.findings)


@case("c24-slow-plugin")
def test_a_missed_deadline_fails_no_creation(recording: Recording) -> None:
    found = [one for one in rounds(recording) if one.name == "CreateContainer"]
    names = [recording.event(one.event) for one in found]
    assert [each.container for each in names if each is not None] == ["one", "two"]
    assert not any(one.failure or one.doubt for one in found)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.zip")), ids=lambda path: path.stem)
def test_a_containers_steps_equal_those_in_the_whole_recording(path: Path) -> None:
    with Recording.open(path) as recording:
        whole = [step for one in rounds(recording) for step in one.steps]
        for one in recording.containers():
            mine = excerpt_of_container(recording, one, lambda: None)
            alone = [
                step for each in mine.rounds for step in each.steps if step.container == one.id
            ]
            assert alone == [step for step in whole if step.container == one.id]
