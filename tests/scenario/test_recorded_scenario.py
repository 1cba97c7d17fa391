# SPDX-License-Identifier: Apache-2.0
"""A scenario made from a recording leads to the requests of the recording."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.filter import parse
from nri_scope.nri.events import EventKind
from nri_scope.nri.plain import plain
from nri_scope.nri.request_subject import container_of, decode_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.run import Job
from nri_scope.replay.testing import perform, plugin_set_of
from nri_scope.scenario.compile import compile_scenario
from nri_scope.scenario.document import parse_scenario
from nri_scope.scenario.model import Scenario
from nri_scope.scenario.recorded_scenario import TIMES, read_recording, runtime_of
from nri_scope.scenario.text import scenario_text
from tests.replay.recordings import POD, container, life, recording, run_pod
from tests.sample_names import API, CHECKOUT, CHECKOUT_API

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))


def passive() -> object:
    """A plugin that gets every event, and changes nothing."""

    async def ignore(self: object, *args: object, **named: object) -> None:
        pass

    names = [re.sub(r"(?<!^)([A-Z])", r"_\1", event.name).lower() for event in EventKind]
    return type("Passive", (), dict.fromkeys(names, ignore))()


def requests(path: Path, work: Path) -> Iterator[tuple[str, object]]:
    """What a plugin gets when a recording is replayed, without the times of containers."""
    perform(Job(path, plugin_set_of(passive(), name="p"), output=work))
    with Recording.open(work) as replayed:
        for event, request, _ in replayed.exchanges():
            message = decode_request(event.method, request).message
            assert message is not None
            for one in _containers(event.method, message):
                for name in TIMES:
                    one.ClearField(name)  # type: ignore[arg-type]
            if isinstance(message, api.SynchronizeRequest):
                # Runtimes list them in any order.
                message.containers.sort(key=lambda one: one.id)
            yield event.event, plain(message)


def _containers(method: str, message: Message) -> list[api.Container]:
    if isinstance(message, api.SynchronizeRequest):
        return list(message.containers)
    found = container_of(method, message)
    return [] if found is None else [found]


def compiled(scenario: Scenario, path: Path) -> Path:
    compile_scenario(scenario, path)
    return path


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".nri")[0])
def test_a_plugin_gets_the_same_requests(path: Path, tmp_path: Path) -> None:
    scenario, notes = read_recording(path)
    text = scenario_text(scenario)
    assert not notes
    again = parse_scenario(text)
    assert scenario_text(again) == text
    copy = compiled(again, tmp_path / "copy.nriscope.db")
    replayed = list(requests(copy, tmp_path / "b.nriscope.db"))
    assert replayed == list(requests(path, tmp_path / "a.nriscope.db"))
    # The recording of a scenario leads to the scenario.
    second, _ = read_recording(copy)
    assert [_without_pauses(one) for one in (second, scenario)] == [_without_pauses(scenario)] * 2


def _without_pauses(scenario: Scenario) -> list[str]:
    lines = scenario_text(scenario).splitlines()
    return [line for line in lines if not re.match(r"start:|  - wait:|.*(_at|finished_at):", line)]


def test_the_steps_are_the_recorded_events() -> None:
    path = RECORDINGS[0].with_name("containerd-2.1.nriscope.db")
    scenario, _ = read_recording(path)
    steps = scenario_text(scenario).partition("\nsteps:\n")[2]
    with Recording.open(path) as recording:
        events = [event.event for event in recording.events() if event.pod_id]
    assert re.findall(r"^  - ([A-Z]\w+): ", steps, re.M) == events
    assert set(re.findall(r"^  - ([a-z]\w+): ", steps, re.M)) == {"wait"}
    assert f"  - UpdateContainer: {CHECKOUT_API}\n    linux_resources:\n      memory:\n" in steps


def test_only_a_container_and_what_it_needs(tmp_path: Path) -> None:
    path = RECORDINGS[0].with_name("containerd-2.1.nriscope.db")
    scenario, notes = read_recording(path, only=CHECKOUT_API)
    assert not notes
    (pod,) = scenario.pods.values()
    assert (pod.key, list(pod.containers), pod.exists) == (CHECKOUT, [API], False)
    copy = compiled(scenario, tmp_path / "copy.nriscope.db")
    with Recording.open(copy) as one, Recording.open(path) as other:
        events = [event.event for event in one.events()]
        checkout = {f"{CHECKOUT}/", CHECKOUT_API}
        assert events[2:] == [
            event.event
            for event in other.events()
            if f"{event.namespace}/{event.pod}/{event.container}" in checkout
        ]


def test_what_a_filter_leaves_out_exists_at_the_start(tmp_path: Path) -> None:
    path = RECORDINGS[0].with_name("containerd-2.1.nriscope.db")
    scenario, notes = read_recording(path, where=parse("event:UpdateContainer"))
    checkout = scenario.pods[CHECKOUT]
    assert checkout.exists and checkout.containers[API].exists
    assert notes == [f"{CHECKOUT_API} was not created in these events, so it is in existing"]
    copy = compiled(scenario, tmp_path / "copy.nriscope.db")
    (update,) = [event for event, _ in requests(copy, tmp_path / "x") if "Update" in event]
    assert update == "UpdateContainer"


def test_a_filter_without_events_is_an_error() -> None:
    path = RECORDINGS[0].with_name("containerd-2.1.nriscope.db")
    with pytest.raises(UsageError, match="no event is selected; widen --only or --where"):
        read_recording(path, where=parse("ns:nowhere"))
    with pytest.raises(UsageError, match="contains no session 7"):
        read_recording(path, 7)


@pytest.mark.parametrize(
    ("names", "profile", "others"),
    [
        (("containerd", "2.1.9", "0.8.0"), "containerd-2.1", ("", "")),
        (("containerd", "1.7.16", "0.6.1"), "containerd-1.7", ("1.7.16", "")),
        (("containerd", "1.7.2", "0.3.0"), "containerd-1.7", ("1.7.2", "0.3.0")),
        (("containerd", "2.4.0-beta", "0.12.2"), "containerd-2.3", ("2.4.0-beta", "0.12.2")),
        (("cri-o", "1.26.0", "0.2.0"), "cri-o-1.33", ("1.26.0", "0.2.0")),
        (("cri-o", "1.34.5", "0.10.0"), "cri-o-1.34.5", ("1.34.5", "")),
        (("cri-o", "1.36.3", "0.11.0"), "cri-o-1.36", ("", "")),
        (("cri-o", "main", "0.11.0"), "cri-o-1.36", ("main", "")),
        (("cri-o", "1.38.0", "0.12.5"), "cri-o", ("1.38.0", "0.12.5")),
        (("containerd", "1.7.27", "0.8.0"), "containerd-1.7.26", ("1.7.27", "")),
        (("containerd", "2.0.3", "0.8.0"), "containerd-2.0", ("2.0.3", "")),
        (("containerd", "v2.4.3", "0.12.5"), "containerd-2.4", ("v2.4.3", "0.12.5")),
        (("containerd", "2.2.0", "0.10.0"), "containerd-2.2", ("2.2.0", "0.10.0")),
        (("podd", "1.0", "0.8.0"), "containerd-2.1", ("1.0", "")),
        (("v2", "2.0.0-beta.2+unknown", "0.6.1"), "isulad", ("", "")),
    ],
)
def test_the_nearest_profile_is_used(
    names: tuple[str, str, str], profile: str, others: tuple[str, str], tmp_path: Path
) -> None:
    with Recording.open(_recorded(tmp_path / "x.nriscope.db")) as recorded:
        (session,) = recorded.sessions()
    from dataclasses import replace

    name, version, nri = names
    session = replace(session, runtime_name=name, runtime_version=version, nri_version=nri)
    choice = runtime_of(session)
    assert choice.profile_name == profile
    assert (choice.runtime_version, choice.nri_version) == others
    found = choice.profile()
    assert (found.runtime_name, found.runtime_version, found.nri_version) == names


def _recorded(path: Path) -> Path:
    return recording(path, [run_pod(), *life(container())], timeout_ms=2000)


def test_names_that_are_no_keys_and_repeated_names(tmp_path: Path) -> None:
    odd = api.PodSandbox(id="odd-pod", name="a/b", namespace="", uid="")
    one, two = container(), container()
    two.id = "second-id"
    strange = api.Container(id="c", pod_sandbox_id="odd-pod", name="")
    about = api.CreateContainerRequest(pod=odd, container=strange)
    path = recording(
        tmp_path / "x.nriscope.db",
        [
            run_pod(),
            *life(one),
            *life(two),
            ("RunPodSandbox", api.RunPodSandboxRequest(pod=odd)),
            ("CreateContainer", about),
        ],
    )
    scenario, _ = read_recording(path)
    assert [pod.key for pod in scenario.pods.values()] == ["shop/web", "unknown/a_b"]
    assert list(scenario.pods["shop/web"].containers) == ["app", "app@2"]
    again = parse_scenario(scenario_text(scenario))
    copy = compiled(again, tmp_path / "copy.nriscope.db")
    assert list(requests(copy, tmp_path / "b")) == list(requests(path, tmp_path / "a"))


def test_events_that_no_scenario_has_are_counted(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "x.nriscope.db",
        [run_pod(), ("Nonsense", b""), ("RunPodSandbox", b"\xff"), ("Nonsense", b"")],
    )
    scenario, notes = read_recording(path)
    assert scenario.steps is not None and len(scenario.steps) >= 1
    assert notes == [
        "left out: 2 × Nonsense (unknown)",
        "left out: 1 × RunPodSandbox (malformed)",
    ]


def test_pods_without_synchronize_cannot_be_used(tmp_path: Path) -> None:
    path = recording(tmp_path / "x.nriscope.db", [run_pod()], synchronized=False)
    with pytest.raises(UsageError, match="session 1 has no complete Synchronize"):
        read_recording(path)
    assert POD.name == "web"
