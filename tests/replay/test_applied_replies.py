# SPDX-License-Identifier: Apache-2.0
"""Effects of replies on later events, on Synchronize and on the containers' specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, ContainerUpdate, PodSandbox
from nri_scope.oci import VOIDED
from nri_scope.plugin import RuntimeHandle
from nri_scope.replay.replies import Verdict
from nri_scope.replay.result import Replayed
from nri_scope.replay.script import ReplaySelection
from nri_scope.specs.path_labels import value_at
from tests.plugin_builders import adjust, evict, update
from tests.sample_names import CHECKOUT_API

from .plays import played
from .recordings import POD, RECORDING, container, life, recording, run_pod


class Adding:
    """Adds an environment variable and an annotation."""

    def __init__(self, name: str, value: str = "1") -> None:
        self.name, self.value = name, value

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        return adjust(env={self.name: self.value}, annotations={f"{self.name}/a": "b"})


class Watching:
    """Stores the containers of its requests."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, list[str]]] = []
        self.states: list[dict[str, list[str]]] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> None:
        self.states.append({one.name: sorted(one.env) for one in containers})

    def _store(self, event: str, container: Container) -> None:
        self.received.append((event, container.name, sorted(container.env)))

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        self._store("create", container)

    def post_start_container(self, pod: PodSandbox, container: Container) -> None:
        self._store("started", container)

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        self._store("stop", container)

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        self._store("remove", container)


class Failing:
    def create_container(self, pod: PodSandbox, container: Container) -> None:
        raise RuntimeError("not today")


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    """A pod with one container that has an environment variable, updated once."""
    events = [run_pod(), *life(container(env=["HOME=/"]), updated=True)]
    return recording(tmp_path / "life.nriscope.db", events)


def sent_events(replayed: Replayed) -> list[str]:
    return [event.event for event in replayed.events if not event.skipped]


def test_later_plugins_and_later_events_see_the_adjustments(one_life: Path) -> None:
    watching = Watching()
    replayed = played(one_life, {"10-a": Adding("A"), "20-b": Adding("B"), "90-w": watching})
    assert replayed.ok
    env = ["A=1", "B=1", "HOME=/"]
    assert watching.received == [
        (event, "app", env) for event in ("create", "started", "stop", "remove")
    ]
    app = replayed.containers["shop/web/app"]
    assert {change.path: app.owner(change.path) for change in app.changes} == {
        "/process/env/A": "10-a",
        "/process/env/B": "20-b",
        "/annotations/A~1a": "10-a",
        "/annotations/B~1a": "20-b",
    }


def test_the_next_synchronize_contains_the_adjustments(one_life: Path) -> None:
    watching = Watching()
    faults = ["restart-runtime:after=5"]
    played(one_life, {"10-a": Adding("A"), "90-w": watching}, faults=faults)
    assert watching.states == [{}, {"app": ["A=1", "HOME=/"]}]


def test_without_effects_later_events_are_unchanged(one_life: Path) -> None:
    watching = Watching()
    played(one_life, {"10-a": Adding("A"), "90-w": watching}, effects=False)
    assert {tuple(env) for _, _, env in watching.received} == {("HOME=/",)}


def test_changes_of_a_plugin_outside_the_chain_are_missing_in_later_events(one_life: Path) -> None:
    watching = Watching()
    played(one_life, {"20-b": Adding("B"), "90-w": watching})
    assert {tuple(env) for _, _, env in watching.received} == {("B=1", "HOME=/")}


def test_a_failed_creation_is_undone_and_its_later_events_are_skipped(
    one_life: Path,
) -> None:
    watching = Watching()
    replayed = played(one_life, {"10-w": watching, "20-failing": Failing()})
    assert [event for event, *_ in watching.received] == ["create", "stop", "remove"]
    assert sent_events(replayed)[-3:] == ["CreateContainer", "StopContainer", "RemoveContainer"]
    own = [event for event in replayed.events if event.event == "StopContainer" and event.replies]
    assert [event.event_id for event in own] == [0]
    app = replayed.containers["shop/web/app"]
    assert not app.created
    assert "not today" in app.failure
    assert replayed.tally.skipped == 7
    assert not replayed.ok


def test_a_conflict_has_the_runtimes_message_and_blames_the_second_plugin(
    one_life: Path,
) -> None:
    replayed = played(one_life, {"10-a": Adding("A"), "20-b": Adding("A", "2")})
    replies = [one for one in replayed.replies() if one.event == "CreateContainer"]
    assert [one.verdict for one in replies] == [Verdict.OK, Verdict.CONFLICT]
    words = 'plugins "20-b" and "10-a" both tried to set Annotations A/a'
    assert replayed.conflicts == [words]
    (create,) = [one for one in replayed.events if one.event == "CreateContainer"]
    assert create.failure.startswith("failed to create containerd container: ")
    assert create.failure.endswith(replayed.conflicts[0])


def test_updates_of_other_containers_appear_in_their_later_events(tmp_path: Path) -> None:
    class Reducing:
        """Reduces the shares of an existing container when another one is created."""

        def create_container(self, pod: PodSandbox, container: Container) -> list[ContainerUpdate]:
            if container.name == "app":
                return []
            return [update(one, cpu={"shares": 7}) for one in ("app-id", "nobody")]

    class StopWatching:
        def __init__(self) -> None:
            self.stopped: list[tuple[str, int]] = []

        def stop_container(self, pod: PodSandbox, container: Container) -> None:
            self.stopped.append((container.name, container.linux.resources.cpu.shares.value))

    first, second = life(container()), life(container("late"))
    events = [run_pod(), *first[:4], *second, *first[4:]]
    shares = StopWatching()
    replayed = played(
        recording(tmp_path / "two.nriscope.db", events), {"10-s": Reducing(), "90-w": shares}
    )
    assert replayed.ok
    assert shares.stopped == [("late", 0), ("app", 7)]
    app = replayed.containers["shop/web/app"]
    assert [(change.path, change.after) for change in app.changes] == [
        ("/linux/resources/cpu/shares", 7)
    ]
    assert app.owner("/linux/resources/cpu/shares") == "10-s"
    assert not replayed.containers["shop/web/late"].changes
    dropped = [one for event in replayed.events for one in event.dropped]
    assert [(one.plugin, one.container_id) for one in dropped] == [("10-s", "nobody")]


def test_updates_in_reply_to_synchronize_are_applied(tmp_path: Path) -> None:
    class Limiting:
        def synchronize(
            self, pods: Sequence[PodSandbox], containers: Sequence[Container]
        ) -> list[ContainerUpdate]:
            return [update(one.id, cpu={"shares": 3}) for one in containers]

    state = api.SynchronizeRequest(pods=[POD], containers=[container(env=["A=1"])])
    path = recording(tmp_path / "state.nriscope.db", life(container(env=["A=1"]))[4:], state=state)
    shares: list[int] = []

    class Last:
        def stop_container(self, pod: PodSandbox, container: Container) -> None:
            shares.append(container.linux.resources.cpu.shares.value)

    replayed = played(path, {"10-l": Limiting(), "20-w": Last()})
    assert replayed.ok
    assert shares == [3]
    (event,) = [one for one in replayed.events if one.changes]
    assert event.event == "Synchronize"
    assert replayed.containers["shop/web/app"].existed


def test_unsolicited_updates_are_applied_and_evictions_are_dropped(one_life: Path) -> None:
    class Asking:
        runtime: RuntimeHandle

        def configure(self, config: str, runtime: RuntimeHandle) -> None:
            self.runtime = runtime

        def post_create_container(self, pod: PodSandbox, container: Container) -> None:
            self.runtime.update_containers(
                [update(container.id, cpu={"shares": 5})], [evict(container.id, "too big")]
            )

    replayed = played(one_life, {"10-a": Asking()}, selection=ReplaySelection())
    (played_update,) = [one for one in replayed.events if one.event == "UpdateContainers"]
    assert [(one.plugin, one.change.after) for one in played_update.changes] == [("10-a", 5)]
    assert [one.path for one in played_update.dropped] == ["/evict"]


def test_a_plugin_can_change_an_update_of_the_kubelet(one_life: Path) -> None:
    class Doubling:
        def update_container(
            self, pod: PodSandbox, container: Container, resources: api.LinuxResources
        ) -> list[ContainerUpdate]:
            return [update(container.id, cpu={"shares": 2 * resources.cpu.shares.value})]

    received: list[int] = []

    class After:
        def post_update_container(self, pod: PodSandbox, container: Container) -> None:
            received.append(container.linux.resources.cpu.shares.value)

    replayed = played(one_life, {"10-d": Doubling(), "20-w": After()})
    assert replayed.ok
    assert received == [400]
    (change,) = replayed.containers["shop/web/app"].changes
    assert (change.before, change.after) == (200, 400)


@pytest.mark.parametrize("profile", ["containerd-2.4", "cri-o"])
def test_an_update_without_resources_voids_the_request(one_life: Path, profile: str) -> None:
    received: list[tuple[str, int]] = []

    class Emptying:
        def update_container(
            self, pod: PodSandbox, container: Container, resources: api.LinuxResources
        ) -> ContainerUpdate:
            return ContainerUpdate(container_id=container.id)

        def post_update_container(self, pod: PodSandbox, container: Container) -> None:
            received.append(("PostUpdateContainer", container.linux.resources.cpu.shares.value))

        def stop_container(self, pod: PodSandbox, container: Container) -> None:
            received.append(("StopContainer", container.linux.resources.cpu.shares.value))

    replayed = played(one_life, {"10-e": Emptying()}, profile=profile)
    assert received == [("PostUpdateContainer", 0), ("StopContainer", 0)]
    (update,) = [event for event in replayed.events if event.dropped]
    assert [(one.plugin, one.reason) for one in update.dropped] == [("10-e", VOIDED)]
    assert not update.changes
    app = replayed.containers["shop/web/app"]
    (change,) = app.changes
    assert (change.before, change.after, app.owner(change.path)) == (200, None, "10-e")


def test_an_empty_cpu_set_in_an_update_is_dropped_but_the_request_applied(one_life: Path) -> None:
    class Clearing:
        def update_container(
            self, pod: PodSandbox, container: Container, resources: api.LinuxResources
        ) -> ContainerUpdate:
            return update(container.id, cpu={"cpus": ""})

    replayed = played(one_life, {"10-c": Clearing()})
    dropped = [one for event in replayed.events for one in event.dropped]
    assert [(one.plugin, one.path, one.value) for one in dropped] == [
        ("10-c", "/linux/resources/cpu/cpus", '""')
    ]
    assert not replayed.containers["shop/web/app"].changes
    spec = replayed.containers["shop/web/app"].spec
    assert value_at(spec, "/linux/resources/cpu/shares") == 200


def test_a_validator_receives_owners_and_can_reject(one_life: Path) -> None:
    received: list[tuple[list[str], str]] = []

    class Strict:
        def validate_container_adjustment(
            self, request: api.ValidateContainerAdjustmentRequest
        ) -> str:
            plugins = [f"{one.index}-{one.name}" for one in request.plugins]
            owners = request.owners.owners["app-id"]
            received.append((plugins, str(owners).partition("value: ")[2].split('"')[1]))
            return "no such variables here"

    replayed = played(one_life, {"10-a": Adding("A"), "90-strict": Strict()})
    assert received == [(["10-a", "90-strict"], "10-a")]
    assert not replayed.containers["shop/web/app"].created
    (reply,) = [one for one in replayed.replies() if one.event == "ValidateContainerAdjustment"]
    assert reply.verdict is Verdict.CONFLICT
    assert "no such variables here" in reply.problem


def test_a_second_container_with_the_same_name_is_numbered(tmp_path: Path) -> None:
    again = container(env=["SECOND=1"])
    again.id = "another-id"
    events = [run_pod(), *life(container()), *life(again)]
    replayed = played(recording(tmp_path / "again.nriscope.db", events), {"10-a": Adding("A")})
    assert list(replayed.containers) == ["shop/web/app", "shop/web/app#2"]
    assert replayed.containers["shop/web/app#2"].spec["process"]["env"] == [  # type: ignore[index, call-overload]
        "SECOND=1", "A=1",
    ]  # fmt: skip


@pytest.mark.parametrize("profile", ["containerd-1.7", "containerd-2.1", "cri-o"])
def test_every_profile_plays_the_bundled_recording(profile: str) -> None:
    replayed = played(RECORDING, {"10-a": Adding("A"), "20-w": Watching()}, profile=profile)
    assert replayed.ok
    assert replayed.profile == profile
    assert replayed.containers[CHECKOUT_API].owner("/process/env/A") == "10-a"
