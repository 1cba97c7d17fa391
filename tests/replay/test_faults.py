# SPDX-License-Identifier: Apache-2.0
"""Each fault does to a plugin what real runtimes have done to plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError, UsageError
from nri_scope.nri.events import PASSIVE_EVENTS, Event
from nri_scope.plugin import Container, PodSandbox, Update
from nri_scope.plugin.handlers import EVENT_HANDLERS
from nri_scope.replay.faults import FORMS, INJECTED, Faults, parse_faults
from nri_scope.replay.replies import Verdict
from nri_scope.replay.report.document import document
from nri_scope.replay.report.text import Report
from nri_scope.replay.result import Replayed
from nri_scope.runtime import RECORDED
from nri_scope.runtime.profiles import PROFILES
from nri_scope.wire import Code, RequestReceived
from tests.runtime_emulation.small_plugin import Reply, SmallPlugin

from .plays import job_of, played, played_to_peers, told
from .recordings import POD, RECORDING, container, life, recording, run_pod


def faulty(path: Path, *faults: str) -> tuple[SmallPlugin, Replayed]:
    peer = SmallPlugin("10-peer")
    return peer, played_to_peers(job_of(path, {}, faults=faults), peer)


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    return recording(tmp_path / "life.nriscope.db", [run_pod(), *life(container())])


def names(peer: SmallPlugin) -> list[str]:
    return [
        event for event, _ in told(peer.events) if event != Event.ValidateContainerAdjustment.name
    ]


def test_every_written_form_is_understood() -> None:
    written = [
        form.replace("EVENT", "StopContainer").replace("DURATION", "3s").replace("N", "4")
        for form in FORMS.values()
    ]
    stop = Event.StopContainer
    assert parse_faults(written) == Faults(
        slow={stop: 3.0},
        error=frozenset({stop}),
        drop_after=frozenset({4}),
        restart_after=frozenset({4}),
        split_sync=True,
        duplicate=frozenset({stop}),
        skip=frozenset({stop}),
        reorder=True,
        unknown_event=True,
        huge_sync=4,
    )


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
        ("huge-sync:100001", "is not a number from 1 to 100000"),
        ("huge-sync:٣", "is not a number"),
        ("skip:Configure", "unknown event 'Configure'"),
    ],
)
def test_what_is_no_fault_is_named_with_the_way_out(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_faults([text])
    assert words in str(raised.value)


def test_slow_replies_are_flagged_or_late(tmp_path: Path) -> None:
    events = [run_pod(), *life(container())]
    path = recording(tmp_path / "short.nriscope.db", events, timeout_ms=600, nri_version="0.8.0")
    peer, replayed = faulty(path, "slow:CreateContainer:350ms")
    (create,) = [one for one in replayed.replies() if one.event == "CreateContainer"]
    assert create.slow
    assert create.verdict is Verdict.OK
    assert replayed.tally.slow == 1
    assert replayed.ok
    peer, replayed = faulty(path, "slow:CreateContainer:1m")
    (late,) = [one for one in replayed.replies() if one.verdict is not Verdict.OK]
    assert (late.verdict, late.problem) == (Verdict.LATE, "no reply within 0.6 s")
    assert names(peer)[-1] == "CreateContainer"
    assert not replayed.ok


def test_an_event_that_fails_is_undone_and_nobodys_fault(one_life: Path) -> None:
    peer, replayed = faulty(one_life, "error:CreateContainer")
    assert names(peer) == ["RunPodSandbox", "CreateContainer", "StopContainer", "RemoveContainer"]
    assert replayed.ok
    assert "injected by --fault error" in replayed.container("shop/web/app").failure


class Quiet:
    def create_container(self, pod: object, container: object) -> None:
        pass


class Watching:
    """Keeps what it is told and, as a container stops, gives another one less."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> None:
        state = [(one.name, one.state, one.linux.resources.cpu.shares.value) for one in containers]
        self.seen.append(([one.name for one in pods], state))

    def stop_container(self, pod: PodSandbox, container: Container) -> list[Update]:
        self.seen.append("stop_container")
        return [Update("other-id").set_cpu(shares=7)]


def keeping(name: str) -> Callable[..., None]:
    return lambda self, *told: self.seen.append(name)


# A validator is asked before the fault comes, and not after a real error.
for passive in PASSIVE_EVENTS - {Event.StopContainer}:
    setattr(Watching, EVENT_HANDLERS[passive], keeping(EVENT_HANDLERS[passive]))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Every event once, while another container exists."""
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
    path = tmp_path_factory.mktemp("everything") / "life.nriscope.db"
    return recording(path, events, state=state), [name for name, _ in events]


def said(replayed: Replayed, where: str) -> list[tuple[str, str]]:
    """What was made of the error, wherever that came from, at each event."""
    in_go = "rpc error: code = Unknown desc = "
    events = [one for one in replayed.events if one.event != "Synchronize"]
    return [(one.event, getattr(one, where).replace(in_go, "")) for one in events]


@pytest.mark.parametrize(
    ("profile", "event"),
    [
        pytest.param(name, event, id=f"{name}-{event.name}")
        for name in ("recorded", "containerd-1.7", "cri-o", "isulad")
        for event in sorted(PASSIVE_EVENTS)
        if name == RECORDED or not PROFILES[name].skip_reason(event)
    ],
)
def test_an_event_fails_as_with_the_error_of_a_plugin(
    everything: tuple[Path, list[str]], event: Event, profile: str
) -> None:
    path, names = everything
    restart = f"restart-runtime:after={names.index(event.name) + 1}"

    def fail(*_: object) -> None:
        raise RpcError(Code.UNKNOWN, INJECTED)

    theirs, ours = Watching(), Watching()
    failing = type("Failing", (), {EVENT_HANDLERS[event]: lambda self, *told: fail(*told)})()
    real = played(path, {"10-w": theirs, "20-f": failing}, faults=[restart], profile=profile)
    faults = [restart, f"error:{event.name}"]
    injected = played(path, {"10-w": ours}, faults=faults, profile=profile)
    assert ours.seen == theirs.seen
    assert said(injected, "failure") == said(real, "failure")
    if profile != "isulad":
        # iSulad's own words for it are those of a connection that it closes.
        assert said(injected, "logged") == said(real, "logged")
    assert injected.ok


@pytest.mark.parametrize(("profile", "shares"), [("containerd-2.3", 0), ("isulad", 7)])
def test_an_error_that_is_only_logged_leaves_the_chains_updates_out(
    everything: tuple[Path, list[str]], profile: str, shares: int
) -> None:
    path, names = everything
    faults = [
        "error:StopContainer",
        f"restart-runtime:after={names.index('StopContainer') + 1}",
    ]
    watching = Watching()
    played(path, {"10-w": watching}, faults=faults, profile=profile)
    # The one that has stopped is not told of.
    unknown = api.ContainerState.CONTAINER_UNKNOWN
    synchronized = [one for one in watching.seen if isinstance(one, tuple)]
    assert synchronized[-1] == (["web"], [("other", unknown, shares)])


def test_an_error_is_shown_as_what_the_runtime_makes_of_it(one_life: Path) -> None:
    faults = ["error:PostStartContainer", "error:StartContainer"]
    for fault, logged in zip(faults, (True, False), strict=True):
        _, replayed = faulty(one_life, fault)
        (shown,) = [one for one in replayed.events if one.failure or one.logged]
        assert (shown.event, bool(shown.logged)) == (fault.partition(":")[2], logged)
        lines = list(Report().event(shown))
        words = f"        logged: {INJECTED}"
        assert (words in lines) is logged
        assert (
            any(line.startswith("        fails: NRI container start") for line in lines) != logged
        )
        (told,) = [one for one in document(replayed)["events"] if one["failure"] or one["logged"]]  # type: ignore[union-attr, index, call-overload]
        assert (told["failure"], told["logged"]) == (shown.failure, shown.logged)  # type: ignore[index, call-overload]


@pytest.mark.parametrize("fault", ["drop-connection", "restart-runtime"])
def test_a_fault_that_is_behind_the_last_event_is_told(fault: str, one_life: Path) -> None:
    replayed = played(one_life, {"10-own": Quiet()}, faults=[f"{fault}:after=99"])
    last = replayed.events[-1]
    assert last.event == fault
    assert last.fault.startswith("after=99 was not reached: only ")
    assert not replayed.plugins[0].gone


def test_a_dropped_connection_ends_the_session(one_life: Path) -> None:
    class Nothing:
        def remove_container(self, pod: object, container: object) -> None:
            raise AssertionError("it is gone by then")

    replayed = played(one_life, {"10-own": Nothing()}, faults=["drop-connection:after=3"])
    (plugin,) = replayed.plugins
    assert plugin.gone_after == 5
    assert "drop-connection" in plugin.gone
    assert not plugin.deserted
    assert replayed.ok


def test_synchronize_in_parts_has_everything(tmp_path: Path) -> None:
    there = [container(f"c{number}") for number in range(9)]
    path = recording(
        tmp_path / "state.nriscope.db",
        life(there[0])[4:],
        state=api.SynchronizeRequest(containers=there),
    )
    peer, replayed = faulty(path, "split-sync")
    parts = peer.messages("Synchronize")
    assert len(parts) > 1
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]  # type: ignore[attr-defined]
    told_of = [one.id for part in parts for one in part.containers]  # type: ignore[attr-defined]
    assert told_of == [one.id for one in there]
    assert replayed.ok


def test_a_plugin_that_takes_a_part_for_the_whole_is_found_out(tmp_path: Path) -> None:
    there = [container(f"c{number}") for number in range(9)]
    path = recording(
        tmp_path / "state.nriscope.db",
        life(there[0])[4:],
        state=api.SynchronizeRequest(containers=there),
    )
    peer = SmallPlugin("10-peer")
    peer.on["Synchronize"] = lambda request: b""
    replayed = played_to_peers(job_of(path, {}, faults=["split-sync"]), peer)
    (reply,) = replayed.replies()
    assert reply.verdict is Verdict.RUBBISH
    assert not peer.events


def test_an_event_can_come_twice_or_not_at_all(one_life: Path) -> None:
    peer, replayed = faulty(one_life, "duplicate:StopContainer", "skip:StartContainer")
    assert names(peer) == [
        "RunPodSandbox", "CreateContainer", "PostCreateContainer", "PostStartContainer",
        "StopContainer", "StopContainer", "RemoveContainer",
    ]  # fmt: skip
    assert [one.occurrence for one in replayed.replies() if one.event == "StopContainer"] == [1, 2]
    (skipped,) = [event for event in replayed.events if event.skipped]
    assert (skipped.event, skipped.skipped) == ("StartContainer", "skipped by --fault skip")


def test_reordered_ends_come_after_the_pods(one_life: Path) -> None:
    peer, _ = faulty(RECORDING)
    usual = names(peer)
    peer, replayed = faulty(RECORDING, "reorder")
    assert sorted(names(peer)) == sorted(usual)
    assert names(peer) != usual
    subjects = [(one.event, one.subject) for one in replayed.replies()]
    for event, subject in subjects:
        if event in ("StopContainer", "RemoveContainer"):
            pod = subject.rpartition("/")[0]
            assert subjects.index((event, subject)) > subjects.index(("StopPodSandbox", pod))


def test_ends_are_held_back_for_so_many_events_only(
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
    _, replayed = faulty(path, "reorder")
    told = [(one.event, one.subject) for one in replayed.replies() if "Stop" in one.event]
    assert told == [
        ("StopContainer", "shop/a/c0"),
        ("StopContainer", "shop/a/c2"),
        ("StopPodSandbox", "shop/b"),
        ("StopContainer", "shop/b/c1"),
        ("StopContainer", "shop/b/c3"),
    ]


def test_an_unknown_event_comes_first(one_life: Path) -> None:
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


def test_a_huge_state_is_split(one_life: Path) -> None:
    peer, replayed = faulty(RECORDING, "huge-sync:3000")
    parts = peer.messages("Synchronize")
    assert len(parts) > 1
    assert all(part.ByteSize() <= 4 << 20 for part in parts)
    assert len([one for part in parts for one in part.containers]) > 3000  # type: ignore[attr-defined]
    assert replayed.ok
    (sync,) = [event for event in replayed.events if event.event == "Synchronize"]
    assert sync.fault == f"the state is sent in {len(parts)} parts"


def test_a_restarted_runtime_tells_the_state_that_is_there_by_then(one_life: Path) -> None:
    seen: list[list[str]] = []

    class Told:
        def synchronize(self, pods: object, containers: list[api.Container]) -> None:
            seen.append([one.name for one in containers])

    replayed = played(one_life, {"10-t": Told()}, faults=["restart-runtime:after=4"])
    assert seen == [[], ["app"]]
    assert replayed.ok
    assert not replayed.plugins[0].gone


def test_a_plugin_that_does_not_connect_again_has_failed(
    one_life: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.replay.plugins.RECONNECT_TIMEOUT_S", 0.05)
    peer, replayed = faulty(one_life, "restart-runtime:after=4")
    assert len(names(peer)) == 4
    assert not replayed.ok
    (failure,) = replayed.failures()
    assert failure.startswith("10-peer: did not reconnect: no plugin connected to")
    assert replayed.tally.events == 7
