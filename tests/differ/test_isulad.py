# SPDX-License-Identifier: Apache-2.0
"""Recordings of a real iSulad: containers without id at first, plugins in random order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import OutcomeKind
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.latency import latency
from nri_scope.differ.render import wording
from nri_scope.entries import OperationFate
from nri_scope.events import Container, Pod
from nri_scope.recording.query import lookup
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.reading.reader import Recording
from tests.replay.recordings import of_capture

APP = "shop/web/app"
APPLIED = {
    "/annotations/example.com~1injected-by": "30-annotator",
    "/mounts/~1mnt~1tmp": "30-annotator",
    "/linux/resources/memory/limit": "60-cpu-policy",
    "/linux/resources/cpu/shares": "60-cpu-policy",
    "/linux/resources/cpu/cpus": "60-cpu-policy",
    "/linux/resources/cpu/mems": "60-cpu-policy",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_capture("isulad", tmp_path_factory.mktemp("isulad") / "isulad.nriscope.db")


@pytest.fixture
def recording(path: Path) -> Iterator[Recording]:
    with Recording.open(path) as opened:
        yield opened


def found(recording: Recording, name: str = APP) -> Container:
    container = lookup.find(recording, name)
    assert isinstance(container, Container)
    return container


def test_a_container_is_one_before_and_after_its_creation(recording: Recording) -> None:
    names = Counter(lookup.container_name(container) for container in recording.containers())
    assert names == Counter(
        ["earlier/old/oldc", APP, "shop/web/sidecar", "jobs/batch/job", "jobs/batch/broken",
         "shop/last/app"]
    )  # fmt: skip
    assert isinstance(lookup.find(recording, "shop/web"), Pod)
    app = found(recording)
    assert len(app.id) == 64
    events = [one.event for one in lookup.history(recording, app)]
    assert Counter(events)["CreateContainer"] == 5 and events[-1] == "RemoveContainer"
    assert all(event.container_id for event in recording.events() if event.container)


def test_each_round_is_complete_and_its_owners_are_exact(recording: Recording) -> None:
    whole = list(recording_differ.rounds(recording))
    # The recorded connections saw each event once, in any order of indices.
    assert len([one for one in whole if one.name != "Synchronize"]) == 35
    assert not any(one.missed_by or one.doubt for one in whole)
    assert [(one.name, one.failure) for one in whole if one.failure] == [
        ("StartContainer", "StopPodSandbox followed instead of PostStartContainer (event 93)")
    ]
    for one in whole:
        if one.name == "CreateContainer":
            owners = {step.change.path: str(step.owner) for step in one.steps}
            assert owners == APPLIED
            assert any("random order" in remark for remark in one.remarks)
        else:
            owners = {step.change.path: str(step.owner) for step in one.steps}
            assert owners in ({}, {"/linux/resources/cpu/shares": "CRI request"})


def test_no_range_of_indices_is_claimed(recording: Recording) -> None:
    whole = list(recording_differ.rounds(recording))
    owners = {step.owner for one in whole for step in one.steps}
    owners |= {span.owner for one in whole for span in one.spans}
    assert not any(owner.first or owner.last or owner.ties for owner in owners)
    text = " ".join(wording.times(one.spans) for one in whole)
    assert "between connections" in text and "outside plugins" not in text
    spans = latency(recording)
    assert all(span.owner.is_unrecorded for span in spans if span.after)
    assert any(span.owner.who is OwnerKind.PLUGIN for span in spans)


def test_blame_has_the_same_owners_and_says_why_there_may_be_more(recording: Recording) -> None:
    for name in (APP, "shop/web/sidecar", "jobs/batch/job", "jobs/batch/broken"):
        history = recording_differ.history_of(recording, found(recording, name))
        assert {step.change.path: str(step.owner) for step in history.steps} == APPLIED
        assert history.created and not history.failure
        assert any("random order" in remark for remark in history.remarks)
        # iSulad reports the original memory limit.
        assert any("contain only devices" in remark for remark in history.remarks)
        is_broken = name == "jobs/batch/broken"
        assert {step.outcome.kind for step in history.steps} == {
            OutcomeKind.REFUSED if is_broken else OutcomeKind.REQUESTED
        }
        assert bool(history.never_ran) is is_broken


def test_later_events_prove_that_the_containers_were_created(recording: Recording) -> None:
    creations = Creations(recording)
    fates = {
        creations.outcome(one).fate for one in recording.events() if one.event == "CreateContainer"
    }
    assert fates == {OperationFate.CREATED}


@pytest.mark.parametrize("read_early", [5, 3])
def test_events_that_were_read_before_the_id_was_known_give_the_same_histories(
    recording: Recording, read_early: int
) -> None:
    complete, early = (
        Differ(recording.sessions(), around=recording_differ.LaterOutcomes(recording))
        for _ in range(2)
    )
    first: dict[str, int] = {}
    for event, request, reply in recording.exchanges():
        complete.feed(event, request, reply)
        if event.event == "CreateContainer":
            number = first.setdefault(event.container_id, event.id)
            # The others were read later.
            if event.id < number + read_early:
                event = replace(event, container_id=f"no-id-{number}")
        early.feed(event, request, reply)
    complete.flush()
    early.flush()
    assert early.histories.keys() == complete.histories.keys()
    for key, history in complete.histories.items():
        assert early.histories[key].steps == history.steps


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[Recording]:
    """The capture with a failed first attempt of a container: a plugin sets a variable."""
    path = tmp_path / "failed.nriscope.db"
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="A", value="1")
    of_capture("isulad", path, first_attempt={"30-annotator": reply.SerializeToString()})
    with Recording.open(path) as opened:
        yield opened


def test_a_failed_creation_is_another_container(failed: Recording) -> None:
    attempts = [one for one in failed.containers() if lookup.container_name(one) == APP]
    assert attempts[0].id == "no-id-17" and len(attempts[1].id) == 64
    notes: list[str] = []
    assert lookup.find(failed, APP, notes.append) == attempts[1]
    assert len(notes) == 1 and "before it: shop/web/no-id-17" in notes[0]
    history, next_one = (recording_differ.history_of(failed, attempt) for attempt in attempts)
    assert history.name == APP
    assert history.failure.startswith("30-annotator: iSulad fails a creation")
    assert "followed instead of PostCreateContainer" in history.failure
    refused = {one.change.path: str(one.owner) for one in history.without_effect}
    assert refused["/process/env/A"] == "30-annotator"
    assert {step.outcome.kind for step in history.steps} == {OutcomeKind.REFUSED}
    assert not next_one.failure
    assert {step.change.path: str(step.owner) for step in next_one.steps} == APPLIED
    first, second = (
        one
        for one in recording_differ.rounds(failed)
        if one.name == "CreateContainer" and one.event in (17, 22)
    )
    assert (first.container, second.container) == ("no-id-17", attempts[1].id)
    assert first.failure and not second.failure


@pytest.mark.parametrize("name", ["CreateContainer", "StopContainer", "PostStartContainer"])
def test_an_error_of_a_plugin_ends_no_chain(recording: Recording, name: str) -> None:
    differ = Differ(recording.sessions(), around=recording_differ.LaterOutcomes(recording))
    whole = []
    for event, request, reply in recording.exchanges():
        if event.event == name and event.plugin == "60-cpu-policy":
            event, reply = replace(event, status_code=2, status_message="no"), b""
        whole += differ.feed(event, request, reply)
    whole += differ.flush()
    failing = [one for one in whole if one.name == name]
    assert failing and not any(one.failure for one in failing)
    for one in failing:
        remark = "60-cpu-policy returned an error: no; the runtime disconnected it, and continued"
        assert remark in one.remarks or "60-cpu-policy" not in one.seen_by


CASES = Path(__file__).parents[1] / "data" / "cases" / "isulad"


def test_swapped_limits_are_printed_as_the_plugin_asked_for_them() -> None:
    with Recording.open(CASES / "tap1.nriscope.zip") as opened:
        history = recording_differ.history_of(opened, found(opened, "shop/web/rl"))
    (step,) = (step for step in history.steps if step.change.path.startswith("/process/rlimits"))
    assert step.change.after == {"type": "RLIMIT_NOFILE", "hard": 500, "soft": 100}
    assert step.outcome.kind is OutcomeKind.REFUSED
    assert "swaps the soft and the hard limit" in step.outcome.reason


def test_an_eviction_that_ended_isulad_was_refused() -> None:
    with Recording.open(CASES / "kill-evict.nriscope.zip") as opened:
        (step,) = (step for diff in recording_differ.rounds(opened) for step in diff.steps)
    assert (step.change.path, step.outcome.kind) == ("/evict", OutcomeKind.REFUSED)
    assert step.outcome.reason == "not answered: the runtime closed the connection"
