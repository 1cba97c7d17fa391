# SPDX-License-Identifier: Apache-2.0
"""Injected faults, each of which a real runtime has caused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerUpdate, PodSandbox
from nri_scope.errors import RpcError, UsageError
from nri_scope.nri.events import PASSIVE_EVENTS, EventKind
from nri_scope.plugin.serving import EVENT_HANDLERS
from nri_scope.replay.faults import (
    FORMS,
    INJECTED,
    OF_EVENTS,
    EventFault,
    Faults,
    parse_faults,
)
from nri_scope.replay.replies import Verdict
from nri_scope.replay.report.documents import document
from nri_scope.replay.report.text import ResultFormatter
from nri_scope.replay.result import Replayed
from nri_scope.runtime import RECORDED
from nri_scope.runtime.profile import PROFILES
from nri_scope.scenario.compile import compile_scenario
from nri_scope.scenario.document import parse_scenario
from nri_scope.transport.link import Link
from nri_scope.wire import Code, RequestReceived
from tests.plugin_builders import update
from tests.runtime_emulation.small_plugin import Reply, SmallPlugin

from .plays import decode_events, job_of, played, played_to_peers
from .recordings import POD, RECORDING, container, life, recording, run_pod


def played_with_faults(path: Path, *faults: str) -> tuple[SmallPlugin, Replayed]:
    peer = SmallPlugin("10-peer")
    return peer, played_to_peers(job_of(path, {}, faults=faults), peer)


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    return recording(tmp_path / "life.nriscope.db", [run_pod(), *life(container())])


def names(peer: SmallPlugin) -> list[str]:
    return [
        event
        for event, _ in decode_events(peer.events)
        if event != EventKind.ValidateContainerAdjustment.name
    ]


def test_every_documented_form_is_parsed() -> None:
    written = [
        form.replace("EVENT", "StopContainer").replace("DURATION", "3s").replace("N", "4")
        for form in FORMS.values()
    ]
    stop = EventKind.StopContainer
    assert parse_faults(written) == Faults(
        slow=(EventFault("slow:StopContainer:3s", stop, 3.0),),
        error=(EventFault("error:StopContainer", stop),),
        drop_after=frozenset({4}),
        restart_after=frozenset({4}),
        split_sync=True,
        duplicate=(EventFault("duplicate:StopContainer", stop),),
        skip=(EventFault("skip:StopContainer", stop),),
        reorder=True,
        unknown_event=True,
    )


def test_every_documented_modifier_is_parsed() -> None:
    faults = parse_faults(
        [
            "slow:StopContainer:3s:once:only=shop/web/app",
            *(
                f"{name}:StopPodSandbox:once:only=shop/web"
                for name in ("error", "duplicate", "skip")
            ),
        ]
    )
    (slow,) = faults.slow
    assert (slow.seconds, slow.once, slow.subject) == (3.0, True, "shop/web/app")
    for (one,) in (faults.error, faults.duplicate, faults.skip):
        assert (one.once, one.subject) == (True, "shop/web")
    assert all(getattr(faults, name) for name in OF_EVENTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unknown fault ''"),
        ("slo:CreateContainer:3s", "did you mean slow:EVENT:DURATION?"),
        (
            "slow:CreateContainer",
            "has the wrong number of arguments; write it as slow:EVENT:DURATION",
        ),
        ("split-sync:3", "has the wrong number of arguments"),
        ("slow:CreatContainer:3s", "did you mean CreateContainer?"),
        ("slow:CreateContainer:soon", "'soon' is not a duration"),
        ("slow:CreateContainer:0s", "'0s' is not a duration"),
        ("drop-connection:5", "after=N is missing"),
        ("drop-connection:after=0", "'0' is not a number from 1 to"),
        ("restart-runtime:after=x", "'x' is not a number"),
        ("restart-runtime:after=9999999999", "is not a number from 1 to 2147483648"),
        ("restart-runtime:after=٣", "is not a number"),
        ("skip:Configure", "unknown event 'Configure'"),
        (
            "skip:StopContainer:twice",
            "'twice' is not a modifier, or given twice; "
            "skip accepts once, only=NS/POD, only=NS/POD/CTR",
        ),
        ("skip:StopContainer:once=1", "'once=1' is not a modifier"),
        ("skip:StopContainer:", "'' is not a modifier"),
        ("slow:StopContainer:once", "'once' is not a duration; write 3s or 500ms"),
        ("slow:StopContainer:3s:once:once", "given twice"),
        ("skip:StopContainer:only=a/b:only=a/b/c", "'only=a/b/c' is not a modifier, or given"),
        ("skip:StopContainer:only=", "'only=' is not a modifier"),
        ("drop-connection:after=5:once", "has the wrong number of arguments"),
    ],
)
def test_an_invalid_fault_is_rejected_with_a_hint(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_faults([text])
    assert words in str(raised.value)


def test_slow_replies_are_flagged_or_late(tmp_path: Path) -> None:
    events = [run_pod(), *life(container())]
    path = recording(tmp_path / "short.nriscope.db", events, timeout_ms=600, nri_version="0.8.0")
    peer, replayed = played_with_faults(path, "slow:CreateContainer:350ms")
    (create,) = [one for one in replayed.replies() if one.event == "CreateContainer"]
    assert create.slow
    assert create.verdict is Verdict.OK
    (event,) = [one for one in replayed.events if create in one.replies]
    line = list(ResultFormatter().event(event, output=False))[-1]
    assert re.search(r"ok  (5[89]|[6-9]\d) % of the deadline of 600ms$", line)
    assert replayed.tally.slow == 1
    assert replayed.ok
    peer, replayed = played_with_faults(path, "slow:CreateContainer:1m")
    (late,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert (late.verdict, late.problem) == (Verdict.LATE, "no reply within 0.6 s")
    assert names(peer)[-1] == "CreateContainer"
    assert not replayed.ok


def test_a_reply_that_is_read_after_its_deadline_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Link.call

    async def delayed(self: Link, service: str, method: str, *rest: Any, **options: Any) -> bytes:
        """Block the event loop after the reply, so that the timer cannot fire."""
        data = await call(self, service, method, *rest, **options)
        if method == "CreateContainer":
            time.sleep(0.7)
        return data

    monkeypatch.setattr(Link, "call", delayed)
    events = [run_pod(), *life(container())]
    path = recording(tmp_path / "short.nriscope.db", events, timeout_ms=600)
    _, replayed = played_with_faults(path)
    (reply,) = [one for one in replayed.replies() if one.event == "CreateContainer"]
    assert reply.verdict is Verdict.LATE


def test_an_injected_error_undoes_the_event_and_is_no_failure(one_life: Path) -> None:
    peer, replayed = played_with_faults(one_life, "error:CreateContainer")
    assert names(peer) == ["RunPodSandbox", "CreateContainer", "StopContainer", "RemoveContainer"]
    assert replayed.ok
    assert "injected by --fault error" in replayed.containers["shop/web/app"].failure


class Quiet:
    def create_container(self, pod: object, container: object) -> None:
        pass


class Watching:
    """Stores its events and, when a container stops, reduces the shares of another one."""

    def __init__(self) -> None:
        self.received: list[object] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> None:
        state = [(one.name, one.state, one.linux.resources.cpu.shares.value) for one in containers]
        self.received.append(([one.name for one in pods], state))

    def stop_container(self, pod: PodSandbox, container: Container) -> list[ContainerUpdate]:
        self.received.append("stop_container")
        return [update("other-id", cpu={"shares": 7})]


class Passive(Watching):
    """Stores its events and requests nothing."""

    def stop_container(self, pod: PodSandbox, container: Container) -> list[ContainerUpdate]:
        self.received.append("stop_container")
        return []


def storing(name: str) -> Callable[..., None]:
    return lambda self, *arguments: self.received.append(name)


# A validator is called before an injected error, but not after a real one.
for passive in PASSIVE_EVENTS - {EventKind.StopContainer}:
    setattr(Watching, EVENT_HANDLERS[passive], storing(EVENT_HANDLERS[passive]))


@pytest.fixture(scope="module")
def all_events(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A recording of every event once, with another container, and the events' names."""
    update = api.UpdatePodSandboxRequest(pod=POD)
    update.linux_resources.cpu.shares.value = 200
    events: list[tuple[str, Message]] = [
        run_pod(),
        ("UpdatePodSandbox", update),
        ("PostUpdatePodSandbox", api.PostUpdatePodSandboxRequest(pod=POD)),
        *life(container(), updated=True),
        ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD)),
        ("RemovePodSandbox", api.RemovePodSandboxRequest(pod=POD)),
    ]
    state = api.SynchronizeRequest(containers=[container("other", pod_sandbox_id="other-pod")])
    path = tmp_path_factory.mktemp("all_events") / "life.nriscope.db"
    return recording(path, events, state=state), [name for name, _ in events]


def errors(replayed: Replayed, field: str) -> list[tuple[str, str]]:
    """Return each event's ``failure`` or ``logged``, without the prefix of errors in Go."""
    in_go = "rpc error: code = Unknown desc = "
    events = [one for one in replayed.events if one.event != "Synchronize"]
    return [(one.event, getattr(one, field).replace(in_go, "")) for one in events]


@pytest.mark.parametrize(
    ("profile", "event"),
    [
        pytest.param(name, event, id=f"{name}-{event.name}")
        for name in ("recorded", "containerd-1.7", "cri-o", "isulad")
        for event in sorted(PASSIVE_EVENTS)
        if name == RECORDED or not PROFILES[name].skip_reason(event)
    ],
)
def test_an_injected_error_has_the_effects_of_a_plugins_error(
    all_events: tuple[Path, list[str]], event: EventKind, profile: str
) -> None:
    path, names = all_events
    restart = f"restart-runtime:after={names.index(event.name) + 1}"

    def fail(*_: object) -> None:
        raise RpcError(Code.UNKNOWN, INJECTED)

    # iSulad crashes on any update.
    theirs, ours = (Passive(), Passive()) if profile == "isulad" else (Watching(), Watching())
    failing = type(
        "Failing", (), {EVENT_HANDLERS[event]: lambda self, *arguments: fail(*arguments)}
    )()
    real = played(path, {"10-w": theirs, "20-f": failing}, faults=[restart], profile=profile)
    faults = [restart, f"error:{event.name}"]
    injected = played(path, {"10-w": ours}, faults=faults, profile=profile)
    assert ours.received == theirs.received
    assert errors(injected, "failure") == errors(real, "failure")
    if profile != "isulad":
        # iSulad logs a plugin's error as that of the connection it closes.
        assert errors(injected, "logged") == errors(real, "logged")
    assert injected.ok


def test_a_logged_error_discards_the_chains_updates(all_events: tuple[Path, list[str]]) -> None:
    path, names = all_events
    faults = [
        "error:StopContainer",
        f"restart-runtime:after={names.index('StopContainer') + 1}",
    ]
    watching = Watching()
    played(path, {"10-w": watching}, faults=faults, profile="containerd-2.3")
    # The stopped container is not in Synchronize.
    unknown = api.ContainerState.CONTAINER_UNKNOWN
    synchronized = [one for one in watching.received if isinstance(one, tuple)]
    assert synchronized[-1] == (["web"], [("other", unknown, 0)])


def test_an_error_is_reported_as_a_failure_or_as_logged(one_life: Path) -> None:
    faults = ["error:PostStartContainer", "error:StartContainer"]
    for fault, logged in zip(faults, (True, False), strict=True):
        _, replayed = played_with_faults(one_life, fault)
        (event,) = [one for one in replayed.events if one.failure or one.logged]
        assert (event.event, bool(event.logged)) == (fault.partition(":")[2], logged)
        lines = list(ResultFormatter().event(event))
        words = f"        logged: {INJECTED}"
        assert (words in lines) is logged
        assert (
            any(line.startswith("        fails: NRI container start") for line in lines) != logged
        )
        (entry,) = [one for one in document(replayed)["events"] if one["failure"] or one["logged"]]  # type: ignore[union-attr, index, call-overload]
        assert (entry["failure"], entry["logged"]) == (event.failure, event.logged)  # type: ignore[index, call-overload]


@pytest.mark.parametrize("fault", ["drop-connection", "restart-runtime"])
def test_a_fault_after_the_last_event_is_reported(fault: str, one_life: Path) -> None:
    replayed = played(one_life, {"10-own": Quiet()}, faults=[f"{fault}:after=99"])
    last = replayed.events[-1]
    assert last.event == fault
    assert last.fault.startswith("after=99 was not reached: only ")
    assert not replayed.plugins[0].gone


def test_a_dropped_connection_ends_the_session(one_life: Path) -> None:
    class Nothing:
        def remove_container(self, pod: object, container: object) -> None:
            raise AssertionError("the connection was dropped before")

    replayed = played(one_life, {"10-own": Nothing()}, faults=["drop-connection:after=3"])
    (plugin,) = replayed.plugins
    assert plugin.gone_after == 5
    assert "drop-connection" in plugin.gone
    assert not plugin.deserted
    assert replayed.ok


def test_split_synchronize_contains_all_containers(tmp_path: Path) -> None:
    containers = [container(f"c{number}") for number in range(9)]
    path = recording(
        tmp_path / "state.nriscope.db",
        life(containers[0])[4:],
        state=api.SynchronizeRequest(containers=containers),
    )
    peer, replayed = played_with_faults(path, "split-sync")
    parts = peer.messages("Synchronize")
    assert len(parts) > 1
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]  # type: ignore[attr-defined]
    received = [one.id for part in parts for one in part.containers]  # type: ignore[attr-defined]
    assert received == [one.id for one in containers]
    assert replayed.ok


def test_a_reply_without_more_to_a_part_is_malformed(tmp_path: Path) -> None:
    containers = [container(f"c{number}") for number in range(9)]
    path = recording(
        tmp_path / "state.nriscope.db",
        life(containers[0])[4:],
        state=api.SynchronizeRequest(containers=containers),
    )
    peer = SmallPlugin("10-peer")
    peer.on["Synchronize"] = lambda request: b""
    replayed = played_to_peers(job_of(path, {}, faults=["split-sync"]), peer)
    (reply,) = replayed.replies()
    assert reply.verdict is Verdict.MALFORMED
    assert not peer.events


def test_an_event_can_be_duplicated_or_skipped(one_life: Path) -> None:
    peer, replayed = played_with_faults(one_life, "duplicate:StopContainer", "skip:StartContainer")
    assert names(peer) == [
        "RunPodSandbox", "CreateContainer", "PostCreateContainer", "PostStartContainer",
        "StopContainer", "StopContainer", "RemoveContainer",
    ]  # fmt: skip
    assert [one.occurrence for one in replayed.replies() if one.event == "StopContainer"] == [1, 2]
    (skipped,) = [event for event in replayed.events if event.skipped]
    assert (skipped.event, skipped.skipped) == ("StartContainer", "skipped by --fault skip")


@pytest.fixture
def two_lives(tmp_path: Path) -> Path:
    """A recording of the lives of shop/web/app and shop/web/db, one after the other."""
    lives = [*life(container()), *life(container("db"))]
    return recording(tmp_path / "lives.nriscope.db", [run_pod(), *lives])


@pytest.mark.parametrize(
    ("modifiers", "affected"),
    [
        ("", ["shop/web/app", "shop/web/db"]),
        (":once", ["shop/web/app"]),
        (":only=shop/web/db", ["shop/web/db"]),
        (":once:only=shop/web/db", ["shop/web/db"]),
        (":only=shop/web", ["shop/web/app", "shop/web/db"]),
        (":only=shop/web:once", ["shop/web/app"]),
        (":only=shop/we", []),
        (":only=shop/web/d", []),
    ],
)
def test_modifiers_restrict_the_affected_events(
    two_lives: Path, modifiers: str, affected: list[str]
) -> None:
    def with_fault(name: str) -> Replayed:
        return played(two_lives, {"10-own": Watching()}, faults=[f"{name}{modifiers}"])

    replayed = with_fault("skip:StartContainer")
    assert [one.subject for one in replayed.events if one.skipped] == affected
    replayed = with_fault("duplicate:StartContainer")
    assert [one.subject for one in replayed.replies() if one.occurrence == 2] == affected
    replayed = with_fault("error:StartContainer")
    assert [one.subject for one in replayed.events if one.failure] == affected
    replayed = with_fault("slow:StartContainer:20ms")
    delayed = [one for one in replayed.events if "is delayed by" in one.fault]
    assert [one.subject for one in delayed] == affected
    words = "each reply to this event is delayed by 20 ms"
    assert {one.fault for one in delayed} <= {words}
    assert all(reply.took_ns >= 10**7 for one in delayed for reply in one.replies)
    unmatched = [one.fault for one in replayed.events if one.event == "fault"]
    assert unmatched == (
        [] if affected else [f"no event matched slow:StartContainer:20ms{modifiers}"]
    )


def test_reorder_ends_containers_after_their_pod(one_life: Path) -> None:
    peer, _ = played_with_faults(RECORDING)
    usual = names(peer)
    peer, replayed = played_with_faults(RECORDING, "reorder")
    assert sorted(names(peer)) == sorted(usual)
    assert names(peer) != usual
    subjects = [(one.event, one.subject) for one in replayed.replies()]
    for event, subject in subjects:
        if event in ("StopContainer", "RemoveContainer"):
            pod = subject.rpartition("/")[0]
            assert subjects.index((event, subject)) > subjects.index(("StopPodSandbox", pod))


def test_reorder_holds_back_a_bounded_number_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.replay.faults.HELD_BACK_MAX", 2)
    pods = [api.PodSandbox(id=name, name=name, namespace="shop") for name in "ab"]
    events: list[tuple[str, Message]] = [run_pod(pod) for pod in pods]
    for number, pod in enumerate([pods[0], pods[1], pods[0], pods[1]]):
        both = {"pod": pod, "container": container(f"c{number}", pod_sandbox_id=pod.id)}
        events.append(("StopContainer", api.StopContainerRequest(**both)))  # type: ignore[arg-type]
    events.append(("StopPodSandbox", api.StopPodSandboxRequest(pod=pods[1])))
    state = api.SynchronizeRequest(
        containers=[container(f"c{one}", pod_sandbox_id="abab"[one]) for one in range(4)]
    )
    path = recording(tmp_path / "long.nriscope.db", events, state=state)
    _, replayed = played_with_faults(path, "reorder")
    sent = [(one.event, one.subject) for one in replayed.replies() if "Stop" in one.event]
    assert sent == [
        ("StopContainer", "shop/a/c0"),
        ("StopContainer", "shop/a/c2"),
        ("StopPodSandbox", "shop/b"),
        ("StopContainer", "shop/b/c1"),
        ("StopContainer", "shop/b/c3"),
    ]


def test_the_unknown_event_is_sent_first(one_life: Path) -> None:
    peer = SmallPlugin("10-peer")
    first: list[str] = []

    def unknown(request: RequestReceived) -> Reply:
        first.append(request.method)
        return b""

    peer.on["CheckpointContainer"] = unknown
    replayed = played_to_peers(job_of(one_life, {}, faults=["unknown-event"]), peer)
    assert first == ["CheckpointContainer"]
    assert peer.events[0].method == "CheckpointContainer"
    assert replayed.ok


def test_a_huge_state_is_split(tmp_path: Path) -> None:
    pod = f"{{copies: 3000, containers: {{app: {{args: [{'x' * 1_500}]}}}}}}"
    path = tmp_path / "huge.nriscope.db"
    compile_scenario(parse_scenario(f"scenario: 1\nexisting: {{web: {pod}}}\nsteps: []\n"), path)
    peer, replayed = played_with_faults(path)
    parts = peer.messages("Synchronize")
    assert len(parts) > 1
    assert all(part.ByteSize() <= 4 << 20 for part in parts)
    assert len([one for part in parts for one in part.containers]) == 3000  # type: ignore[attr-defined]
    assert replayed.ok
    (sync,) = [event for event in replayed.events if event.event == "Synchronize"]
    assert sync.note == f"the state is sent in {len(parts)} parts"
    assert not sync.fault


def test_a_restarted_runtime_sends_the_current_state(one_life: Path) -> None:
    received: list[list[str]] = []

    class Listening:
        def synchronize(self, pods: object, containers: list[api.Container]) -> None:
            received.append([one.name for one in containers])

    replayed = played(one_life, {"10-t": Listening()}, faults=["restart-runtime:after=4"])
    assert received == [[], ["app"]]
    assert replayed.ok
    assert not replayed.plugins[0].gone


def test_a_plugin_that_does_not_reconnect_is_a_failure(
    one_life: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.replay.plugins.RECONNECT_TIMEOUT_S", 0.05)
    peer, replayed = played_with_faults(one_life, "restart-runtime:after=4")
    assert len(names(peer)) == 4
    assert not replayed.ok
    (failure,) = replayed.failures()
    assert failure.startswith("10-peer: did not reconnect: no plugin connected to")
    assert replayed.tally.events == 7
