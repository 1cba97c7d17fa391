# SPDX-License-Identifier: Apache-2.0
"""Extracts give the same attribution, rounds and replays as the whole recording."""

from __future__ import annotations

import importlib.util
import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import OutcomeKind, RoundDiff
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, Event, Gap, Role
from nri_scope.filter import parse
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import lookup
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.result import Replayed
from nri_scope.share.extract import Selection, extract
from tests.in_memory import MEMORY
from tests.plugin_builders import adjust
from tests.recording.traffic import (
    NOW,
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    lifecycle,
)
from tests.replay.plays import played
from tests.replay.recordings import BUNDLED, ROOT, of_capture
from tests.runtime_emulation.captures import NAMES
from tests.sample_names import CHECKOUT, NIGHTLY, UPLOAD

EXAMPLES = ROOT / "examples"
ANNOTATED = EXAMPLES / "recordings" / "annotated.nriscope.db"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Recordings of all captures, by name."""
    folder = tmp_path_factory.mktemp("captures")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in NAMES}


def _as_in_part(whole: RoundDiff, part: RoundDiff) -> RoundDiff:
    """Return a round of the whole recording without outcomes that only omitted events show.

    Of these the part must say that they are not known, or that a later request replaced the value.
    """
    steps = tuple(
        replace(step, outcome=shown.outcome, is_expected=shown.is_expected)
        if shown.outcome.kind in (OutcomeKind.REQUESTED, OutcomeKind.SUPERSEDED)
        else step
        for step, shown in zip(whole.steps, part.steps, strict=True)
    )
    return replace(whole, steps=steps, settled=())


def check_rounds(whole: Path, selection: Selection) -> int:
    """Check that every round of the part is one of the whole; return their number."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, Recording.open(whole) as recording:
        every = {one.event: one for one in recording_differ.rounds(recording)}
        output = Path(folder) / "part.db"
        extract(recording, output, selection)
        with Recording.open(output) as part:
            found = list(recording_differ.rounds(part))
            for one in found:
                # Equality includes owners and evidence of every change, and plugins that missed it.
                assert _as_in_part(every[one.event], one) == replace(one, settled=())
            assert {one.event for one in found} <= set(every)
    return len(found)


_SEEDS = st.tuples(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 5, 8, 20]))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(seed=_SEEDS)
@example(seed=(1, 1))
def test_rounds_of_a_part_equal_those_of_the_whole(
    name: str, captures: dict[str, Path], seed: tuple[int, int]
) -> None:
    with Recording.open(captures[name]) as recording:
        _, last = lookup.event_range(recording)
    numbers = random.Random(seed[0]).sample(range(1, last + 1), seed[1])
    check_rounds(captures[name], Selection(numbers=sorted(numbers)))


@pytest.mark.parametrize(
    "where", ["event:UpdateContainer", "container:sidecar", "session:2", "event:RunPodSandbox"]
)
def test_rounds_of_a_part_selected_by_expression_equal_those_of_the_whole(
    where: str, captures: dict[str, Path]
) -> None:
    for name in NAMES[1:3]:
        assert check_rounds(captures[name], Selection(where=parse(where))) > 2


def test_a_plugin_that_missed_an_event_is_named_without_events_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    recorder = Recorder.open(path)
    first, second = (
        recorder.begin_session(replace(a_start(plugin), mask=0))
        for plugin in ("00-first", "50-second")
    )
    for session in (first, second):
        recorder.capture(session, an_item("Synchronize", a_synchronize(0)))
        recorder.capture(session, an_item("FutureEvent", b"\xff"))
    failed = an_item("CreateContainer", a_creation(), status_code=2, status_message="no")
    recorder.capture(first, failed)
    recorder.end_session(first, "over", NOW + 10)
    recorder.end_session(second, "over", NOW + 10)
    recorder.close()
    with Recording.open(path) as whole:
        extract(whole, tmp_path / "part.db", Selection(numbers=[5]))
    with Recording.open(tmp_path / "part.db") as part:
        (created,) = [one for one in recording_differ.rounds(part) if one.name == "CreateContainer"]
    assert created.missed_by == ("50-second",)
    assert check_rounds(path, Selection(numbers=[5])) == 3


def test_the_next_cri_status_belongs_to_the_context(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    events = list(lifecycle(0))
    # Record the CRI's status after three events of the container's life.
    asked_about = a_container(a_pod(0), "app-0").id
    answer = an_item(CONTAINER_STATUS, status_request(asked_about), b"{}", service=CRI_SERVICE)
    recorder = Recorder.open(path)
    observed = recorder.begin_session(replace(a_start(), mask=0))
    cri = recorder.begin_session(replace(a_start("-cri"), role=Role.CRI))
    for number, item in enumerate(events):
        recorder.capture(observed, item)
        if number in (4, 6, 8):
            recorder.capture(cri, answer)
    recorder.close()
    with Recording.open(path) as whole:
        every = [event.event for event in whole.events()]
        assert every[5] == every[8] == CONTAINER_STATUS
        extract(whole, tmp_path / "part.db", Selection(where=parse("event:CreateContainer")))
    with Recording.open(tmp_path / "part.db") as part:
        # The status after the update belongs to the update.
        assert [event.event for event in part.events()] == every[:6]


def a_creation() -> api.CreateContainerRequest:
    pod = a_pod(0)
    return api.CreateContainerRequest(pod=pod, container=a_container(pod))


@pytest.mark.parametrize("name", NAMES)
def test_owners_in_a_part_equal_those_in_the_whole(
    name: str, captures: dict[str, Path], tmp_path: Path
) -> None:
    with Recording.open(captures[name]) as whole:
        extract(whole, tmp_path / "part.db", Selection(pod="shop/web"))
        with Recording.open(tmp_path / "part.db") as part:
            containers = [c for c in part.containers() if c.pod is not None and c.pod.name == "web"]
            assert containers
            for container in containers:
                there, here = (
                    recording_differ.history_of(whole, container),
                    recording_differ.history_of(part, container),
                )
                assert here.spec == there.spec
                assert here.steps == there.steps != []


@pytest.mark.parametrize("name", NAMES[:2])
def test_rounds_of_a_time_window_equal_those_of_the_whole(
    name: str, captures: dict[str, Path], tmp_path: Path
) -> None:
    with Recording.open(captures[name]) as whole:
        events = list(whole.events())
        middle = events[len(events) // 2].at_ns
    check_rounds(captures[name], Selection(since_ns=middle))
    check_rounds(captures[name], Selection(until_ns=middle))


# -- replay ---------------------------------------------------------------------------------


class Limits:
    """Marks every container with how many it has seen of its pod, and refuses some."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment | None:
        if container.name in ("broken", UPLOAD):
            raise ValueError("not this one")
        return adjust(env={"POD_UID": pod.uid, "SEEN_AS": container.name})


def device_injector() -> object:
    """Return the example plugin in Python."""
    file = EXAMPLES / "python-device-injector" / "device_injector.py"
    spec = importlib.util.spec_from_file_location("example_device_injector", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DeviceInjector()


def verdicts(result: Replayed) -> Mapping[int, object]:
    """Return the outcome of a replay by event of the recording."""
    return {
        one.event_id: (
            one.event,
            one.subject,
            [(reply.plugin, reply.verdict, reply.problem, reply.message) for reply in one.replies],
            [(change.container, change.change) for change in one.changes],
            one.failure,
        )
        for one in result.events
        if one.event_id
    }


@pytest.mark.parametrize(
    ("recording", "pod"),
    [
        (ANNOTATED, "media/encoder"),
        (ANNOTATED, "data/greedy"),
        (BUNDLED["containerd-1.7"], CHECKOUT),
        (BUNDLED["containerd-2.1"], NIGHTLY),
    ],
)
@pytest.mark.parametrize("plugin", [Limits, device_injector])
def test_a_replay_of_a_part_has_the_verdicts_of_the_whole(
    recording: Path, pod: str, plugin: object, tmp_path: Path
) -> None:
    assert callable(plugin)
    output = tmp_path / "part.db"
    with Recording.open(recording) as whole:
        extract(whole, output, Selection(where=parse(f"pod:{pod.partition('/')[2]}"), pod=pod))
        with Recording.open(output) as part:
            kept = [event.id for event in part.events()]
    every = verdicts(played(recording, {"10-plugin": plugin()}))
    found = verdicts(played(output, {"10-plugin": plugin()}))
    assert {number: every[number] for number in kept if number in every} == found
    assert len(found) > 3


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_of_captures_with_several_plugins_equal_those_of_the_whole(
    name: str, captures: dict[str, Path], tmp_path: Path
) -> None:
    output = tmp_path / "part.db"
    with Recording.open(captures[name]) as whole:
        extract(whole, output, Selection(where=parse("container:sidecar")))
    every = verdicts(played(captures[name], {"10-plugin": Limits()}))
    found = verdicts(played(output, {"10-plugin": Limits()}))
    assert found == {number: every[number] for number in found}
    assert len(found) > 3


# -- log ------------------------------------------------------------------------------------


def test_the_log_shows_where_events_are_left_out(tmp_path: Path) -> None:
    with Recording.open(BUNDLED["containerd-2.1"]) as whole:
        every = [event.id for event in whole.events()]
        extract(whole, tmp_path / "part.db", Selection(pod=CHECKOUT))
    with Recording.open(tmp_path / "part.db") as part:
        shown = [item for item in Log(part).read() if isinstance(item, Event | Gap)]
    number = 0
    for item in shown:
        number = item.id if isinstance(item, Event) else number + (item.lost or 0)
        if isinstance(item, Event):
            assert every[0] <= item.id <= every[-1]
    # Every event is shown or counted in a gap, in order.
    assert number == every[-1]
    places = iter(every)
    for item in shown:
        if isinstance(item, Event):
            assert next(places) == item.id
        else:
            for _ in range(item.lost or 0):
                next(places)
    assert next(places, None) is None
