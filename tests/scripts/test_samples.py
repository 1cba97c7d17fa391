# SPDX-License-Identifier: Apache-2.0
"""The bundles in ``recordings/`` are small, contain no secret and match their descriptions."""

from __future__ import annotations

import base64
import re
from collections import Counter
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.differ.attribution.history import History
from nri_scope.differ.blame.owned_lines import FinalOwners
from nri_scope.differ.recording_differ import histories
from nri_scope.events import Event, Role
from nri_scope.nri.events import CREATE
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs.path_labels import value_at
from scripts.make_samples import SIZE_MAX, samples
from tests.plugin_builders import adjust
from tests.replay.plays import played
from tests.runtime.testbed.workload import DB_HOST, SECRET
from tests.sample_names import (
    API,
    CHECKOUT_API,
    CHECKOUT_POD,
    NAMESPACE,
    NEVER_STARTED,
    REPLICA_POD,
)

FOLDER = Path(__file__).parents[2] / "recordings"
BUNDLES = sorted(FOLDER.glob("*.nriscope.zip"))
SERIES = ("1.7", "2.1")
SECONDS = 10**9

each = pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: str(path.name).split(".nri")[0])
each_series = pytest.mark.parametrize("series", SERIES)


def scene_bundle(series: str, scene: str) -> Path:
    return FOLDER / f"containerd-{series}-{scene}.nriscope.zip"


def events(path: Path) -> list[Event]:
    with Recording.open(path) as recording:
        return list(recording.events())


def events_of(path: Path, container: str) -> list[str]:
    """Names of the events of a container."""
    return [event.event for event in events(path) if event.container == container]


def history(path: Path, name: str) -> History:
    with Recording.open(path) as recording:
        return next(one for one in histories(recording).values() if one.name == name)


# -- all bundles ------------------------------------------------------------------------------


def test_each_bundle_is_made_by_the_script_and_listed_in_the_readme() -> None:
    assert sorted(sample.path for sample in samples()) == BUNDLES
    listed = re.findall(r"`([^`/*]*\.nriscope\.(?:zip|db))`", (FOLDER / "README.md").read_text())
    assert sorted(set(listed)) == sorted(path.name for path in FOLDER.glob("*.nriscope.*"))


@each
def test_a_bundle_is_small_and_valid(bundle: Path) -> None:
    assert bundle.stat().st_size < SIZE_MAX
    with Recording.open(bundle) as recording:
        assert recording.sessions()
        assert all(event.mark == "" for event in recording.events())
        assert len(recording.gaps()) == ("restart" in bundle.name)


@each
def test_no_bundle_contains_a_secret(bundle: Path, tmp_path: Path) -> None:
    secrets = [
        SECRET.encode(),
        base64.b64encode(SECRET.encode())[:8],
        DB_HOST.encode(),
    ]
    everything = [bundle.read_bytes(), unpack(bundle, tmp_path).read_bytes()]
    with Recording.open(bundle) as recording:
        for _, request, reply in recording.exchanges():
            everything += [request, reply]
    assert not [one for one in secrets if any(one in data for data in everything)]


@each
def test_a_bundle_can_be_replayed(bundle: Path) -> None:
    # iSulad would fail the creation if it were a variable, Docker if it were an annotation.
    is_docker = bundle.name.startswith("docker")
    path = "/process/env/replayed" if is_docker else "/annotations/replayed"

    class Plugin:
        def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
            if is_docker:
                return adjust(env={"replayed": "yes"})
            return adjust(annotations={"replayed": "yes"})

    result = played(bundle, {"10-mine": Plugin()})
    assert list(result.failures()) == []
    assert result.tally.events >= (1 if is_docker else 5)
    created = [one for one in result.containers.values() if one.changes]
    assert created
    assert all(value_at(one.spec, path) == "yes" for one in created)


# -- scenes -----------------------------------------------------------------------------------


@each_series
def test_normal_life_has_changes_of_two_plugins(series: str) -> None:
    app = history(scene_bundle(series, "normal-life"), CHECKOUT_API)
    assert str(FinalOwners(app).by_events("/process/env/OWNER")[0]) == "one of 01–29"
    assert str(FinalOwners(app).by_events("/process/rlimits/RLIMIT_NOFILE")[0]) == "one of 31–49"


@each_series
def test_a_conflict_ends_the_chain_twice(series: str) -> None:
    seen = Counter(
        event.plugin[:2]
        for event in events(scene_bundle(series, "conflict"))
        if (event.event, event.container) == ("CreateContainer", API)
    )
    assert seen == {"00": 2, "30": 2}


@each_series
def test_a_slow_plugin_delays_the_chain_until_its_deadline(series: str) -> None:
    creations = [
        event
        for event in events(scene_bundle(series, "slow-plugin"))
        if (event.event, event.container) == ("CreateContainer", API)
    ]
    assert [event.plugin[:2] for event in creations] == ["00", "30", "50", "99"]
    _, before, after, _ = creations
    assert 1.9 * SECONDS < after.at_ns - before.at_ns < 2.5 * SECONDS


@each_series
def test_a_crash_loop_creates_the_container_four_times(series: str) -> None:
    counts = Counter(events_of(scene_bundle(series, "crash-loop"), API))
    assert set(counts.values()) == {4}
    assert len(counts) == 6


@each_series
def test_an_untidy_order_has_events_in_unusual_order(series: str) -> None:
    path = scene_bundle(series, "untidy-order")
    assert events_of(path, NEVER_STARTED) == [
        "CreateContainer", "PostCreateContainer", "StopContainer", "RemoveContainer",
    ]  # fmt: skip
    order = [f"{one.event} {one.pod}" for one in events(path) if one.namespace == NAMESPACE]
    assert order.index(f"RunPodSandbox {REPLICA_POD}") < order.index(
        f"RemoveContainer {CHECKOUT_POD}"
    )
    assert order.index(f"StopPodSandbox {CHECKOUT_POD}") < order.index(
        f"RemoveContainer {CHECKOUT_POD}"
    )


@each_series
def test_a_restart_makes_two_sessions_and_a_gap(series: str) -> None:
    with Recording.open(scene_bundle(series, "restart")) as recording:
        first, second = recording.sessions()
        (gap,) = recording.gaps()
        # The container that kept running is in the second Synchronize.
        assert len(recording.state(second.id).containers) == 1 + len(
            recording.state(first.id).containers
        )
    assert first.ended_ns is not None
    assert first.ended_ns <= gap.from_ns <= gap.to_ns == second.synced_ns


@pytest.mark.parametrize("name", ["containerd-2.4", "cri-o-1.37"])
def test_captures_have_plugins_with_their_replies(name: str) -> None:
    with Recording.open(FOLDER / f"{name}.nriscope.zip") as recording:
        roles = {one.plugin: one.role for one in recording.sessions()}
        assert set(roles.values()) == {Role.PROBE, Role.TAP}
    assert roles["60-cpu-policy"] == Role.TAP
    app = history(FOLDER / f"{name}.nriscope.zip", "shop/web/app")
    assert str(FinalOwners(app).by_events("/linux/resources/pids/limit")[0]) == "60-cpu-policy"
    # This plugin was not captured: the owner is known from the validator's request.
    assert (
        str(FinalOwners(app).by_events("/linux/devices/~1dev~1nri-null")[0]) == "20-device-injector"
    )


def test_dockers_replies_are_refused_dropped_or_open() -> None:
    path = FOLDER / "docker-29.2-replies.nriscope.zip"
    with Recording.open(path) as recording:
        found = {one.name: one for one in histories(recording).values() if one.created_event}
    assert len(found) == 3
    api, database, job = found.values()
    assert not api.failure
    outcomes = {step.change.path: str(step.outcome.kind) for step in api.steps}
    assert outcomes == {
        "/process/env/OWNER": "requested",
        "/process/env/FOO": "requested",
        "/mounts/~1etc~1ssl~1certs": "requested",
        "/linux/resources/pids/limit": "dropped",
    }
    assert database.failure == ("40-limits: unsupported container adjustments: linux.resources.cpu")
    assert job.failure == "20-labels: unsupported container adjustments: annotations"
    assert {str(step.outcome.kind) for step in database.steps} == {"refused"}
    assert {str(step.outcome.kind) for step in job.steps} == {"refused", "dropped"}


def test_a_reload_of_docker_is_a_gap_between_two_sessions() -> None:
    path = FOLDER / "docker-29.2-restart.nriscope.zip"
    with Recording.open(path) as recording:
        reasons = [session.end_reason for session in recording.sessions()]
        (gap,) = recording.gaps()
        created = [event.container for event in recording.events() if event.event == CREATE]
    assert reasons[0] == "the runtime's socket was made anew"
    assert gap.reason.endswith(reasons[0])
    assert len(created) == 2


def test_isulads_capture_has_joined_containers_and_exact_owners() -> None:
    app = history(FOLDER / "isulad-2.1.nriscope.zip", "shop/web/app")
    assert app.created and len(app.id) == 64
    assert str(FinalOwners(app).by_events("/linux/resources/memory/limit")[0]) == "60-cpu-policy"
    names = [event.event for event in events(FOLDER / "isulad-2.1.nriscope.zip")]
    assert names[-1] == "UpdateContainer"
