# SPDX-License-Identifier: Apache-2.0
"""Recordings in which something is wrong, made by real parts: plugins in a real replay.

What happens to a plugin's connection, which replies conflict, what is merged and what is dropped,
all that the emulated runtime does by itself, and the replay's own recorder writes it down.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role
from nri_scope.plugin import Adjustment, Container, PodSandbox
from nri_scope.recorder.writer import Recorder
from nri_scope.replay.run import replay
from nri_scope.transport.loop import run
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
    """Sets one variable."""

    def __init__(self, value: str) -> None:
        self.value = value

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        return Adjustment().add_env("MODE", self.value)


class Everything:
    """Subscribes to a container's whole life."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment | None:
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
    """Sets what only cgroup v2 has."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment()
        adjustment.message.linux.resources.unified["memory.high"] = "1000000"
        return adjustment


class Reserving:
    """Asks for what no runtime takes notice of."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        adjustment = Adjustment()
        adjustment.message.linux.resources.memory.reservation.value = 1 << 20
        return adjustment


class Failing:
    """Answers with an error."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        raise RuntimeError("not today")


class Watching:
    """Listens."""

    def create_container(self, pod: PodSandbox, container: Container) -> None:
        return None


def healthy(folder: Path) -> Path:
    """Two plugins, in peace."""
    return _replayed(folder, {"10-setting": Setting("a"), "20-watching": Watching()})


def near(folder: Path) -> Path:
    """A plugin takes three quarters of its time."""
    return _replayed(
        folder, {"10-slow": Setting("a")}, faults=(f"slow:CreateContainer:{TIMEOUT_MS * 3 // 4}ms",)
    )


def late(folder: Path) -> Path:
    """A plugin is not done in time with the first container; another one is there."""
    source = _source(folder)
    output = folder / "late.nriscope.db"
    stuck, other = SmallPlugin("10-stuck"), SmallPlugin("20-other")
    stuck.on["CreateContainer"] = lambda _: None
    played_to_peers(job_of(source, {}, output=output), stuck, other)
    return output


def twins(folder: Path) -> Path:
    """Two plugins of one name."""
    output, socket = folder / "twins.nriscope.db", folder / "nri.sock"
    # A replay counts names: the last one to come is the second name, and both twins are there then.
    peers = [SmallPlugin(name) for name in ("10-twin", "10-twin", "90-last")]
    job = job_of(_source(folder), {}, output=output)
    job = replace(job, casting=replace(job.casting, listen=socket, expect=2))

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
    """Two plugins set one variable."""
    return _replayed(folder, {"10-one": Setting("a"), "20-two": Setting("b")})


def failed(folder: Path) -> Path:
    """A plugin answers with an error."""
    return _replayed(folder, {"10-failing": Failing(), "20-watching": Watching()})


def dropped(folder: Path) -> Path:
    """A plugin asks for what no runtime does."""
    return _replayed(folder, {"10-reserving": Reserving()})


def unified(folder: Path) -> Path:
    """Settings for cgroup v2, with a recording of a node that has v1; one container never ran."""
    output = folder / "unified.nriscope.db"
    played(RECORDING, {"10-unifying": Unifying()}, output=output)
    return output


def missed(folder: Path) -> Path:
    """A plugin hears of containers that it was never told of."""
    return _replayed(folder, {"10-watching": Everything()}, faults=("skip:CreateContainer",))


def pod_first(folder: Path) -> Path:
    """The pod stops before its containers."""
    events = [*_BOTH, ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD))]
    return _replayed(folder, {"10-watching": Everything()}, events, faults=("reorder",))


def repeated(folder: Path) -> Path:
    """One event comes twice."""
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
    """Two plugins at one index, which a validator is told of."""
    output = folder / "index.nriscope.db"
    peers = SmallPlugin("10-one"), SmallPlugin("10-two")
    played_to_peers(job_of(_source(folder), {}, output=output), *peers)
    return output


def unified_on_v2(folder: Path) -> Path:
    """As `unified`, of a container with a cgroup namespace that never ran."""
    one = container("first")
    one.linux.namespaces.add(type="cgroup")
    both = {"pod": POD, "container": one}
    events: list[tuple[str, Message]] = [
        run_pod(),
        ("CreateContainer", api.CreateContainerRequest(**both)),  # type: ignore[arg-type]
        ("StopContainer", api.StopContainerRequest(**both)),  # type: ignore[arg-type]
        ("RemoveContainer", api.RemoveContainerRequest(**both)),  # type: ignore[arg-type]
    ]
    return _replayed(folder, {"10-unifying": Unifying()}, events)


def with_hole(folder: Path) -> Path:
    """A recording that lost the creations of its containers."""
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
    """All connections end in the middle, and all come back."""
    return _replayed(
        folder,
        {"10-setting": Setting("a"), "20-watching": Watching()},
        faults=("restart-runtime:after=4",),
    )


def left_the_chain(folder: Path) -> Path:
    """A real containerd's chain, of which one plugin is not told any more from some event on.

    The plugin itself was not recorded: all that is known of it is what validators were told.
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
                # What it did is nobody's then, and not there.
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
    """A plugin answers each creation with other words."""

    class Complaining:
        def create_container(self, pod: PodSandbox, container: Container) -> None:
            raise RuntimeError(f"no {container.name}")

    events = [run_pod(), *(event for n in range(60) for event in life(container(f"c{n}"))[:1])]
    return _replayed(folder, {"10-complaining": Complaining()}, events)


def named(folder: Path, name: str) -> Path:
    """Pod, container, plugin's answers and errors with this text in them."""
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


def with_gap(folder: Path) -> Path:
    """A recording that lost something in the middle."""
    path = folder / "gap.nriscope.db"
    recorder = Recorder.open(path)
    write_session(recorder, _BOTH)
    recorder.note_gap(None, START_NS + 4 * 10**9, START_NS + 6 * 10**9, "the disk was full", 7)
    recorder.close()
    return path


def empty(folder: Path) -> Path:
    """A recording of nothing."""
    path = folder / "empty.nriscope.db"
    Recorder.open(path).close()
    return path


def many_changes(folder: Path) -> Path:
    """More containers with more changes than any document holds."""

    class Adding:
        def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
            adjustment = Adjustment()
            for number in range(40):
                adjustment.add_env(f"VARIABLE_{number}", "value " * 10)
            return adjustment

    events = [run_pod(), *(event for n in range(70) for event in life(container(f"c{n}"))[:1])]
    return _replayed(folder, {"10-adding": Adding()}, events)


def secret(folder: Path) -> Path:
    """A plugin adds a variable that nobody else should see."""

    class Telling:
        def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
            return Adjustment().add_env("API_TOKEN", SECRET)

    return _replayed(folder, {"10-telling": Telling()})


def backwards(folder: Path) -> Path:
    """A container ends before it was told to have been started, as a real containerd shows it."""
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
    """Two probes, and between their creations of one container a share of the deadline."""
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
