# SPDX-License-Identifier: Apache-2.0
"""A replay of a recording of iSulad sends what iSulad sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container
from nri_scope.differ.recording_differ import rounds
from nri_scope.differ.render import wording
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging.isulad import (
    SYNCHRONIZE_IGNORED,
    UNSOLICITED_CRASH,
    UPDATE_EVENT_CRASH,
)
from nri_scope.plugin import RuntimeHandle
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs import ABSENT, value_at
from tests.plugin_builders import evict
from tests.replay.plays import job_of, played, played_to_peers
from tests.replay.recordings import POD, container, life, recording, run_pod
from tests.runtime_emulation.small_plugin import SmallPlugin

from .cases import FOLDER


class Repeating:
    """A plugin that gives the recorded replies to CreateContainer."""

    def __init__(self, replies: dict[str, bytes]) -> None:
        self.replies = replies

    def create_container(self, _: api.PodSandbox, container: api.Container) -> object:
        return api.CreateContainerResponse.FromString(self.replies[container.name]).adjust

    def synchronize(self, *_: object) -> None: ...
    def run_pod_sandbox(self, *_: object) -> None: ...
    def stop_pod_sandbox(self, *_: object) -> None: ...
    def remove_pod_sandbox(self, *_: object) -> None: ...
    def post_create_container(self, *_: object) -> None: ...
    def start_container(self, *_: object) -> None: ...
    def post_start_container(self, *_: object) -> None: ...
    def stop_container(self, *_: object) -> None: ...
    def remove_container(self, *_: object) -> None: ...


def requests(path: Path) -> list[tuple[str, str, bytes]]:
    """Return the events of a recording with their requests, in one form."""
    kinds: dict[str, type[Message]] = {
        "StateChange": api.StateChangeEvent,
        "Synchronize": api.SynchronizeRequest,
        "CreateContainer": api.CreateContainerRequest,
        "StopContainer": api.StopContainerRequest,
    }
    found = []
    with Recording.open(path) as opened:
        for event, request, _ in opened.exchanges():
            if event.method in kinds:
                message = kinds[event.method].FromString(request)
                content = message.SerializeToString(deterministic=True)
                found.append((event.event, event.container, content))
    return found


@pytest.mark.parametrize("name", ["tap1", "base", "passive-device"])
def test_without_a_profile_a_replay_sends_what_was_recorded(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}.nriscope.zip"
    with Recording.open(path) as opened:
        replies = {
            event.container: reply
            for event, _, reply in opened.exchanges()
            if event.event == "CreateContainer"
        }
    if name == "passive-device":
        # A launched plugin, which was not recorded, added it.
        reply = api.CreateContainerResponse()
        mode = api.OptionalFileMode(value=0o666)
        reply.adjust.linux.devices.add(
            path="/dev/nri-fuse", type="c", major=10, minor=229, file_mode=mode
        )
        replies = dict.fromkeys(replies, reply.SerializeToString())
    output = tmp_path / "again.nriscope.db"
    result = played(path, {"10-same": Repeating(replies)}, output=output)
    sent, recorded = requests(output), requests(path)
    assert [one[:2] for one in sent] == [one[:2] for one in recorded]
    assert sent == recorded
    if name != "tap1":
        assert result.ok
        return
    # As recorded, two creations fail, and one container does not start.
    assert {one.name: (one.created, bool(one.start_failure))
            for one in result.containers.values()} == {
        "shop/web/side": (True, False), "shop/web/app": (True, False),
        "shop/web/envfail": (False, False), "shop/web/rl": (True, True),
        "shop/web/cpufail": (False, False),
    }  # fmt: skip


def test_the_resulting_spec_is_that_of_the_real_container() -> None:
    path = FOLDER / "tap1.nriscope.zip"
    with Recording.open(path) as opened:
        replies = {
            event.container: reply
            for event, _, reply in opened.exchanges()
            if event.event == "CreateContainer"
        }
    ours = played(path, {"10-same": Repeating(replies)}).containers["shop/web/app"].spec
    real = json.loads((FOLDER / "tap1-app-spec.json").read_text(encoding="utf-8"))
    for place in ("/process/rlimits", "/linux/devices", "/linux/resources/memory",
                  "/linux/resources/cpu", "/annotations/note", "/annotations/added",
                  "/mounts/~1mnt~1a"):  # fmt: skip
        assert value_at(ours, place) == value_at(real, place) is not ABSENT
    assert real["mounts"][-1] == ours["mounts"][-1]  # type: ignore[index]


def test_without_the_plugin_that_added_a_device_later_events_lack_it(tmp_path: Path) -> None:
    path = FOLDER / "passive-device.nriscope.zip"
    output = tmp_path / "without.nriscope.db"
    played(path, {"10-none": Repeating({"c0": b""})}, output=output)
    with_device = [request for request in requests(path) if b"/dev/nri-fuse" in request[2]]
    assert with_device and not [one for one in requests(output) if b"/dev/nri-fuse" in one[2]]


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    events = [run_pod(), *life(container(), updated=True)]
    state = api.SynchronizeRequest(pods=[POD], containers=[container("old")])
    return recording(tmp_path / "life.nriscope.db", events, state=state)


class Asking(Repeating):
    """A plugin that evicts a container after its creation."""

    runtime: RuntimeHandle

    def configure(self, _: str, runtime: RuntimeHandle) -> None:
        self.runtime = runtime

    def post_create_container(self, _: object, container: object) -> None:  # type: ignore[override]
        assert isinstance(container, Container)
        self.runtime.update_containers([], [evict(container.id, "too big")])


def test_an_unsolicited_eviction_would_kill_isulad(one_life: Path) -> None:
    result = played(one_life, {"10-a": Asking({"app": b""})}, profile="isulad")
    (update,) = [event for event in result.events if event.event == "UpdateContainers"]
    assert update.failure == UNSOLICITED_CRASH and not update.dropped
    assert not result.ok


def test_an_update_of_the_cri_kills_isulad_without_any_plugin(one_life: Path) -> None:
    result = played(one_life, {"10-a": Repeating({"app": b""})}, profile="isulad")
    events = {event.event: event for event in result.events}
    assert events["UpdateContainer"].failure == UPDATE_EVENT_CRASH
    assert not events["UpdateContainer"].replies
    assert events["PostUpdateContainer"].skipped
    # It is no failure of the plugin.
    assert result.ok


def test_updates_in_a_reply_to_synchronize_are_ignored(one_life: Path) -> None:
    peer = SmallPlugin("10-peer", EventKind.StopContainer.bit)
    update = api.ContainerUpdate(container_id="old-id")
    peer.on["Synchronize"] = lambda request: api.SynchronizeResponse(update=[update])
    result = played_to_peers(job_of(one_life, {}, profile="isulad"), peer)
    (event,) = [event for event in result.events if event.event == "Synchronize"]
    assert [one.reason for one in event.dropped] == [SYNCHRONIZE_IGNORED]
    assert result.ok and not event.failure


class Failing:
    def create_container(self, _: object, container: object) -> None:
        raise RuntimeError("not today")


def test_a_recorded_replay_says_that_a_failing_plugin_was_disconnected(
    one_life: Path, tmp_path: Path
) -> None:
    output = tmp_path / "failed.nriscope.db"
    result = played(one_life, {"10-f": Failing()}, profile="isulad", output=output)
    assert result.containers["shop/web/app"].created
    with Recording.open(output) as opened:
        (session,) = opened.sessions()
        (create,) = (one for one in rounds(opened) if one.name == "CreateContainer")
    assert "closes the connection on any error" in session.end_reason
    (remark,) = create.remarks
    assert remark.endswith("not today; the runtime disconnected it, and continued")
    assert not create.failure and not wording.calm(create)
