# SPDX-License-Identifier: Apache-2.0
"""Recordings with problems, written by real replays with real plugins.

The emulated runtime handles the connections, conflicts and merging by itself, and the replay's
recorder writes the result.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import RUNTIME_SERVICE
from nri_scope.nri.runtime_setup import FailurePolicy, configure_reply
from nri_scope.recorder.writer import Recorder
from nri_scope.replay.run import replay
from nri_scope.transport.loop import run
from nri_scope.wire import Code
from tests.plugin_builders import adjust
from tests.recording.recordings import a_start
from tests.replay.plays import job_of, played, played_to_peers
from tests.replay.recordings import (
    POD,
    RECORDING,
    START_NS,
    container,
    life,
    recording,
    run_pod,
    write_session,
)
from tests.runtime_emulation.captures import exchanges
from tests.runtime_emulation.small_plugin import SmallPlugin

TIMEOUT_MS = 500
SECRET = "hunter2-hunter2"
FIRST, SECOND = container("first"), container("second")
_BOTH: list[tuple[str, Message]] = [run_pod(), *life(FIRST), *life(SECOND)]


class Setting:
    """Plugin that sets one variable."""

    def __init__(self, value: str) -> None:
        self.value = value

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        return adjust(env={"MODE": self.value})


class Everything:
    """Plugin that subscribes to all events of a container's life."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment | None:
        return None

    def post_create_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def start_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def stop_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def remove_container(self, pod: PodSandbox, container: Container) -> None:
        return None

    def stop_pod_sandbox(self, pod: PodSandbox) -> None:
        return None


class Unifying(Everything):
    """Plugin that sets a value of cgroup v2 only."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        adjustment = ContainerAdjustment()
        adjustment.linux.resources.unified["memory.high"] = "1000000"
        return adjustment


class Reserving:
    """Plugin that requests a value that all runtimes ignore."""

    def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
        return adjust(memory={"reservation": 1 << 20})


class Failing:
    """Plugin that returns an error."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        raise RuntimeError("not today")


class Watching:
    """Plugin that changes nothing."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        return None


def healthy(folder: Path) -> Path:
    """Record two plugins without a conflict."""
    return _replayed(folder, {"10-setting": Setting("a"), "20-watching": Watching()})


def near(folder: Path) -> Path:
    """Record a plugin that takes three quarters of its deadline."""
    return _replayed(
        folder, {"10-slow": Setting("a")}, faults=(f"slow:CreateContainer:{TIMEOUT_MS * 3 // 4}ms",)
    )


def late(folder: Path) -> Path:
    """Record a plugin that misses its deadline for the first container, and another plugin."""
    source = _source(folder)
    output = folder / "late.nriscope.db"
    stuck, other = SmallPlugin("10-stuck"), SmallPlugin("20-other")
    stuck.on["CreateContainer"] = lambda _: None
    played_to_peers(job_of(source, {}, output=output), stuck, other)
    return output


def late_with_policy(
    folder: Path, policy: str, *, crash: bool = False, method: str = "CreateContainer"
) -> Path:
    """Record a plugin with a failure policy that misses its deadline once, or disconnects."""
    source, output = _source(folder), folder / f"{policy or 'none'}.nriscope.db"
    stuck, other = SmallPlugin("10-stuck"), SmallPlugin("20-other")
    late = iter([None])
    stuck.on[method] = lambda _: stuck.connected.abort() if crash else next(late, b"")
    sent = configure_reply(0, FailurePolicy.parse(policy))
    stuck.on["Configure"] = lambda _: sent
    job = job_of(source, {}, output=output, profile="nri-0.12.5")
    played_to_peers(job, stuck, other)
    return output


def twins(folder: Path) -> Path:
    """Record two plugins with the same name."""
    output, socket = folder / "twins.nriscope.db", folder / "nri.sock"
    # A replay counts names: the last peer is the second name, so both twins are connected by then.
    peers = [SmallPlugin(name) for name in ("10-twin", "10-twin", "90-last")]
    job = job_of(_source(folder), {}, output=output)
    job = replace(job, plugin_set=replace(job.plugin_set, listen=socket, expect=2))

    async def main() -> None:
        playing = asyncio.create_task(replay(job))
        while not socket.exists():
            await asyncio.sleep(0)
        for peer in peers:
            await peer.connect(socket)
            await peer.register()
        await playing

    run(main())
    return output


def conflict(folder: Path) -> Path:
    """Record two plugins that set the same variable."""
    return _replayed(folder, {"10-one": Setting("a"), "20-two": Setting("b")})


def failed(folder: Path) -> Path:
    """Record a plugin that returns an error."""
    return _replayed(folder, {"10-failing": Failing(), "20-watching": Watching()})


def dropped(folder: Path) -> Path:
    """Record a plugin whose request every runtime drops."""
    return _replayed(folder, {"10-reserving": Reserving()})


def unified(folder: Path) -> Path:
    """Record cgroup v2 settings on a node with cgroup v1; one container never ran."""
    output = folder / "unified.nriscope.db"
    played(RECORDING, {"10-unifying": Unifying()}, output=output)
    return output


def missed(folder: Path) -> Path:
    """Record a plugin that misses the creations of its containers."""
    return _replayed(folder, {"10-watching": Everything()}, faults=("skip:CreateContainer",))


def pod_first(folder: Path) -> Path:
    """Record a pod that stops before its containers."""
    events = [*_BOTH, ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD))]
    return _replayed(folder, {"10-watching": Everything()}, events, faults=("reorder",))


def repeated(folder: Path) -> Path:
    """Record an event that is sent twice."""
    return _replayed(folder, {"10-watching": Everything()}, faults=("duplicate:StopContainer",))


def _source(folder: Path, events: list[tuple[str, Message]] | None = None) -> Path:
    return recording(folder / "source.nriscope.db", events or _BOTH, timeout_ms=TIMEOUT_MS)


def _replayed(
    folder: Path,
    plugins: dict[str, object],
    events: list[tuple[str, Message]] | None = None,
    *,
    faults: tuple[str, ...] = (),
) -> Path:
    output = folder / "replayed.nriscope.db"
    played(_source(folder, events), plugins, output=output, faults=faults)
    return output


def same_index(folder: Path) -> Path:
    """Record two plugins with the same index, listed for a validator."""
    output = folder / "index.nriscope.db"
    peers = SmallPlugin("10-one"), SmallPlugin("10-two")
    played_to_peers(job_of(_source(folder), {}, output=output), *peers)
    return output


def with_hole(folder: Path) -> Path:
    """Write a recording without the creations of its containers."""
    folder.mkdir()
    path = folder / "hole.nriscope.db"
    recorder = Recorder.open(path)
    write_session(recorder, _BOTH)
    recorder.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "DELETE FROM event WHERE event IN (SELECT id FROM name WHERE text = 'CreateContainer')"
        )
    return path


def restarted(folder: Path) -> Path:
    """Record a restart in which all connections end and return."""
    return _replayed(
        folder,
        {"10-setting": Setting("a"), "20-watching": Watching()},
        faults=("restart-runtime:after=4",),
    )


def unregistered(
    folder: Path, reason: str = "the runtime closed the connection", code: Code = Code.UNAVAILABLE
) -> Path:
    """Record a tapped plugin whose registration had the status ``code``, and then ended."""
    path = folder / "unregistered.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(SessionStart.unconfigured(Role.TAP, "20", "late", 1))
    call = (1, 1, "RegisterPlugin", b"", b"", int(code), "not answered", 1, 0)
    recorder.capture(session, CapturedCall(*call, service=RUNTIME_SERVICE))
    recorder.end_session(session, reason, 2)
    recorder.close()
    return path


def left_the_chain(folder: Path) -> Path:
    """Record a real containerd's chain that a plugin leaves.

    The plugin itself is not recorded; only the lists for validators contain it.
    """
    path = folder / "left.nriscope.db"
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    validations = 0
    for stored, reply in exchanges("containerd-2.4-beta"):
        if stored.plugin not in ("00-probe-a", "95-probe-c"):
            continue
        request = stored.request
        if stored.plugin not in sessions:
            start = replace(
                a_start(stored.plugin, stored.at_ns),
                role=Role.PROBE,
                runtime_version="2.4.0",
                nri_version="0.12.2",
                mask=0,
            )
            sessions[stored.plugin] = recorder.begin_session(start)
        if stored.method == "ValidateContainerAdjustment":
            validations += 1
            if validations > 2:
                message = api.ValidateContainerAdjustmentRequest.FromString(request)
                kept = [one for one in message.plugins if one.name != "device-injector"]
                del message.plugins[:]
                message.plugins.extend(kept)
                # Remove the plugin's changes and their owners too.
                message.adjust.linux.ClearField("devices")
                for owners in message.owners.owners.values():
                    for field in owners.compound.values():
                        for key in list(field.owners):
                            if field.owners[key] == "20-device-injector":
                                del field.owners[key]
                request = message.SerializeToString()
        recorder.capture(
            sessions[stored.plugin],
            CapturedCall(
                stored.at_ns, stored.at_ns, stored.method, request, reply, 0, "", 50_000, 60 * 10**9
            ),
        )  # fmt: skip
    recorder.close()
    return path


def many_errors(folder: Path) -> Path:
    """Record a plugin that returns a different error for each creation."""

    class Complaining:
        def create_container(self, pod: PodSandbox, container: Container) -> None:
            raise RuntimeError(f"no {container.name}")

    events = [run_pod(), *(event for n in range(60) for event in life(container(f"c{n}"))[:1])]
    return _replayed(folder, {"10-complaining": Complaining()}, events)


def named(folder: Path, name: str) -> Path:
    """Record a pod, a container, replies and errors that contain `name`."""
    pod = api.PodSandbox(id="pod-id", name=name, namespace=name, uid=name)
    one = api.Container(id=f"id-{name}", name=name, pod_sandbox_id=pod.id, env=[f"{name}={name}"])
    one.annotations[name] = name
    both = {"pod": pod, "container": one}
    reply = api.CreateContainerResponse()
    reply.adjust.annotations["k"] = name
    reply.adjust.env.add(key=name, value=name)
    path = folder / "named.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(
        replace(a_start("10-x", START_NS), role=Role.TAP, plugin_name=name, runtime_name=name)
    )
    requests: list[tuple[str, Message, bytes, int, str]] = [
        ("RunPodSandbox", api.RunPodSandboxRequest(pod=pod), b"", 0, ""),
        (
            "CreateContainer",
            api.CreateContainerRequest(**both),  # type: ignore[arg-type]
            reply.SerializeToString(),
            0,
            "",
        ),
        ("StartContainer", api.StartContainerRequest(**both), b"", 2, name),  # type: ignore[arg-type]
    ]
    for number, (method, request, answer, code, words) in enumerate(requests):
        at_ns = START_NS + number * 10**9
        recorder.capture(
            session,
            CapturedCall(
                at_ns, at_ns, method, request.SerializeToString(), answer, code, words, 1000, 10**9
            ),
        )
    recorder.end_session(session, name, START_NS + 9 * 10**9)
    recorder.close()
    return path


def voided(folder: Path) -> Path:
    """Write a tapped update whose reply has an update of the container without resources."""
    path = folder / "voided.nriscope.db"
    recorder = Recorder.open(path)
    start = replace(a_start("10-voiding", START_NS), role=Role.TAP, mask=0, nri_version="0.12.3")
    session = recorder.begin_session(start)
    one = container("first")
    one.linux.resources.cpu.shares.value = 512
    reply = api.UpdateContainerResponse()
    reply.update.add(container_id=one.id)
    for number, (name, request) in enumerate([run_pod(), *life(one, updated=True)]):
        at_ns = START_NS + number * 10**9
        answer = reply.SerializeToString() if name == "UpdateContainer" else b""
        data = request.SerializeToString()
        recorder.capture(
            session, CapturedCall(at_ns, at_ns, name, data, answer, 0, "", 1000, 10**9)
        )
    recorder.close()
    return path


def with_gap(folder: Path) -> Path:
    """Write a recording with a gap."""
    path = folder / "gap.nriscope.db"
    recorder = Recorder.open(path)
    write_session(recorder, _BOTH)
    recorder.note_gap(None, START_NS + 4 * 10**9, START_NS + 6 * 10**9, "the disk was full", 7)
    recorder.close()
    return path


def empty(folder: Path) -> Path:
    """Write a recording without events."""
    path = folder / "empty.nriscope.db"
    Recorder.open(path).close()
    return path


def many_changes(folder: Path) -> Path:
    """Record more containers and changes than a report includes."""

    class Adding:
        def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
            return adjust(env={f"VARIABLE_{number}": "value " * 10 for number in range(40)})

    events = [run_pod(), *(event for n in range(70) for event in life(container(f"c{n}"))[:1])]
    return _replayed(folder, {"10-adding": Adding()}, events)


def secret(folder: Path) -> Path:
    """Record a plugin that sets a secret variable."""

    class Telling:
        def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
            return adjust(env={"API_TOKEN": SECRET})

    return _replayed(folder, {"10-telling": Telling()})


def backwards(folder: Path) -> Path:
    """Write a recording whose PostStartContainer follows StopContainer, as on real containerd."""
    both = {"pod": POD, "container": FIRST}
    events = [run_pod(), *life(FIRST)]
    names = [name for name, _ in events]
    stop, started = names.index("StopContainer"), names.index("PostStartContainer")
    events[stop], events[started] = (
        ("PostStartContainer", api.PostStartContainerRequest(**both)),  # type: ignore[arg-type]
        ("StopContainer", api.StopContainerRequest(**both)),  # type: ignore[arg-type]
    )
    return recording(folder / "backwards.nriscope.db", events)


def silence(folder: Path, share: float) -> Path:
    """Record a creation at two probes, apart by this share of the deadline."""
    path = folder / "silence.nriscope.db"
    recorder = Recorder.open(path)
    sessions = [
        recorder.begin_session(replace(a_start(plugin, START_NS), role=Role.PROBE, mask=0))
        for plugin in ("00-probe", "50-probe")
    ]
    name, request = life(FIRST)[0]
    data = request.SerializeToString()
    deadline_ns = TIMEOUT_MS * 10**6
    for number, session in enumerate(sessions):
        at_ns = START_NS + 10**9 + int(number * share * deadline_ns)
        recorder.capture(
            session, CapturedCall(at_ns, at_ns, name, data, b"", 0, "", 1000, deadline_ns)
        )
    recorder.close()
    return path
