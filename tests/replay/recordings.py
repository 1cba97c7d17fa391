# SPDX-License-Identifier: Apache-2.0
"""Recordings for replays: the bundled ones, captures, and ones with given events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import RUNTIME_SERVICE
from nri_scope.nri.request_subject import decode_request
from nri_scope.nri.runtime_setup import nri_version_of
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.runtime_emulation.captures import exchanges

ROOT = Path(__file__).parents[2]
BUNDLED = {
    name: ROOT / "recordings" / f"{name}.nriscope.db"
    for name in ("containerd-1.7", "containerd-2.1")
}
RECORDING = BUNDLED["containerd-2.1"]

START_NS = 1_700_000_000 * 10**9
PASSWORD = "correct-Horse7-battery"
"""Secret that plugins of `of_taps` print."""
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop", uid="pod-uid")


def container(name: str = "app", **fields: object) -> api.Container:
    """A container of `POD`."""
    message = api.Container(id=f"{name}-id", name=name, pod_sandbox_id=POD.id)
    message.MergeFrom(api.Container(**fields))  # type: ignore[arg-type]
    return message


def life(one: api.Container, *, updated: bool = False) -> list[tuple[str, Message]]:
    """Events of a container, from its creation to its removal."""
    both = {"pod": POD, "container": one}
    events: list[tuple[str, Message]] = [
        ("CreateContainer", api.CreateContainerRequest(**both)),  # type: ignore[arg-type]
        ("PostCreateContainer", api.PostCreateContainerRequest(**both)),  # type: ignore[arg-type]
        ("StartContainer", api.StartContainerRequest(**both)),  # type: ignore[arg-type]
        ("PostStartContainer", api.PostStartContainerRequest(**both)),  # type: ignore[arg-type]
    ]
    if updated:
        update = api.UpdateContainerRequest(pod=POD, container=one)
        update.linux_resources.cpu.shares.value = 200
        events += [
            ("UpdateContainer", update),
            ("PostUpdateContainer", api.PostUpdateContainerRequest(**both)),  # type: ignore[arg-type]
        ]
    return [
        *events,
        ("StopContainer", api.StopContainerRequest(**both)),  # type: ignore[arg-type]
        ("RemoveContainer", api.RemoveContainerRequest(**both)),  # type: ignore[arg-type]
    ]


def run_pod(pod: api.PodSandbox = POD) -> tuple[str, Message]:
    """Event that starts a pod."""
    return "RunPodSandbox", api.RunPodSandboxRequest(pod=pod)


def recording(
    path: Path,
    events: Iterable[tuple[str, Message | bytes]],
    *,
    state: api.SynchronizeRequest | None = None,
    plugin: str = "00-probe",
    nri_version: str = "0.12.0",
    synchronized: bool = True,
    timeout_ms: int = 60_000,
) -> Path:
    """Write a recording of one session, with a Synchronize only if ``synchronized``."""
    recorder = Recorder.open(path)
    write_session(
        recorder,
        events,
        state=state,
        plugin=plugin,
        nri_version=nri_version,
        synchronized=synchronized,
        timeout_ms=timeout_ms,
    )
    recorder.close()
    return path


def write_session(
    recorder: Recorder,
    events: Iterable[tuple[str, Message | bytes]],
    *,
    state: api.SynchronizeRequest | None = None,
    plugin: str = "00-probe",
    nri_version: str = "0.12.0",
    synchronized: bool = True,
    timeout_ms: int = 60_000,
) -> None:
    """Write a session of containerd 2.3 with one event per second."""
    session = recorder.begin_session(_start(plugin, "containerd", "2.3.0", nri_version, START_NS))
    setup: list[tuple[str, Message | bytes]] = [("Configure", api.ConfigureRequest())]
    if synchronized:
        setup.append(("Synchronize", state or api.SynchronizeRequest()))
    for number, (method, request) in enumerate([*setup, *events]):
        at_ns = START_NS + number * 10**9
        data = request if isinstance(request, bytes) else request.SerializeToString()
        recorder.capture(
            session, CapturedCall(at_ns, at_ns, method, data, b"", 0, "", 1000, timeout_ms * 10**6)
        )
    recorder.end_session(session, "closed", START_NS + 3600 * 10**9)


def of_capture(
    name: str,
    path: Path,
    *,
    first_attempt: Mapping[str, bytes] | None = None,
    ended: Mapping[str, tuple[int, str]] | None = None,
) -> Path:
    """Write a capture as a recording with one session for each of its plugins.

    With ``first_attempt``, its first creation has an earlier attempt with these replies of plugins.
    ``ended``: by plugin, how many ns after the last event its session ended, and the reason.
    """
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    captured = list(exchanges(name))
    if first_attempt is not None:
        at = next(n for n, one in enumerate(captured) if one.stored.method == "CreateContainer")
        creation = takewhile(lambda one: one.stored.method == "CreateContainer", captured[at:])
        captured[at:at] = [
            one._replace(reply=first_attempt.get(one.stored.plugin, one.reply)) for one in creation
        ]
    for stored, reply in captured:
        if stored.method == "Configure":
            configure = api.ConfigureRequest.FromString(stored.request)
            version, _ = nri_version_of(configure)
            start = _start(
                stored.plugin,
                configure.runtime_name,
                configure.runtime_version,
                str(version or ""),
                stored.at_ns,
            )
            sessions[stored.plugin] = recorder.begin_session(
                replace(
                    start,
                    role=Role.PROBE if "-probe-" in stored.plugin else Role.TAP,
                    mask=api.ConfigureResponse.FromString(reply).events,
                )
            )
        recorder.capture(
            sessions[stored.plugin],
            CapturedCall(
                stored.at_ns, stored.at_ns, stored.method, stored.request, reply, 0, "", 50_000,
                60 * 10**9,
            ),
        )  # fmt: skip
    for plugin, (after_ns, reason) in (ended or {}).items():
        recorder.end_session(sessions[plugin], reason, captured[-1].stored.at_ns + after_ns)
    recorder.close()
    return path


def as_tapped(
    source: Path,
    path: Path,
    *unsolicited: api.UpdateContainersRequest,
    note: str = "",
    change: Callable[[CapturedCall], CapturedCall] = lambda item: item,
) -> Path:
    """Write the recording of a replay as a tap would record it.

    Each session begins with RegisterPlugin, and has the ``unsolicited`` updates after its first
    event.
    """
    recorder = Recorder.open(path)
    with Recording.open(source) as recording:
        sessions: dict[int, int] = {}
        starts = {one.id: one for one in recording.sessions()}
        for event, request, reply in recording.exchanges():
            start = starts[event.session]
            item = CapturedCall(
                event.at_ns, event.mono_ns, event.method, request, reply, event.status_code,
                event.status_message, event.took_ns, event.timeout_ns,
            )  # fmt: skip
            if event.session not in sessions:
                begun = replace(
                    _start(start.plugin, start.runtime_name, start.runtime_version,
                           start.nri_version, start.started_ns),
                    role=Role.TAP, mask=start.mask, nri_version_inferred=start.nri_version_inferred,
                )  # fmt: skip
                sessions[event.session] = recorder.begin_session(begun)
                registered = api.RegisterPluginRequest(
                    plugin_name=start.plugin_name, plugin_idx=start.plugin_index
                )
                recorder.capture(sessions[event.session], _own(item, "RegisterPlugin", registered))
                if note:
                    recorder.note(sessions[event.session], event.at_ns, note)
            recorder.capture(sessions[event.session], change(item))
            if event.seq == 3:
                for update in unsolicited:
                    recorder.capture(
                        sessions[event.session], _own(item, "UpdateContainers", update)
                    )
        for number, session in sessions.items():
            recorder.end_session(session, "the plugin closed", starts[number].ended_ns or 0)
    recorder.close()
    return path


def of_taps(name: str, path: Path) -> Path:
    """Write the plugins of a capture as taps would record them, each with its RegisterPlugin.

    60-cpu-policy sends one unsolicited update, of the CPU shares of the first container that starts
    and of an unknown one. Each plugin prints a line at its start, and two at each creation.
    """
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    is_update_sent = False
    newest = 0
    for stored, reply in exchanges(name):
        newest = stored.at_ns
        if "-probe-" in stored.plugin:
            continue
        item = CapturedCall(
            stored.at_ns, stored.at_ns, stored.method, stored.request, reply, 0, "", 50_000,
            2 * 10**9, held_ns=31_000, metadata=(("trace", stored.method),),
        )  # fmt: skip
        if stored.method == "Configure":
            configure = api.ConfigureRequest.FromString(stored.request)
            version, _ = nri_version_of(configure)
            start = _start(
                stored.plugin,
                configure.runtime_name,
                configure.runtime_version,
                str(version or ""),
                stored.at_ns,
            )
            mask = api.ConfigureResponse.FromString(reply).events
            session = recorder.begin_session(replace(start, role=Role.TAP, mask=mask))
            sessions[stored.plugin] = session
            index, _, plugin = stored.plugin.partition("-")
            registered = api.RegisterPluginRequest(plugin_name=plugin, plugin_idx=index)
            recorder.printed(session, stored.at_ns - 1, "stderr", f"{stored.plugin} starts")
            recorder.capture(session, _own(item, "RegisterPlugin", registered))
        recorder.capture(sessions[stored.plugin], item)
        container = decode_request(stored.method, stored.request).container
        if stored.method == "CreateContainer" and container is not None:
            for text in (f"creating {container.name}", f"DB_PASSWORD={PASSWORD}"):
                recorder.printed(sessions[stored.plugin], stored.at_ns + 1, "stdout", text)
        if "cpu-policy" in stored.plugin and "Start" in _event(stored.method, stored.request):
            if not is_update_sent and container is not None:
                update = api.UpdateContainersRequest()
                for container_id in (container.id, "stranger"):
                    one = update.update.add(container_id=container_id)
                    one.linux.resources.cpu.shares.value = 777
                failed = api.UpdateContainersResponse(failed=update.update[1:])
                own = _own(item, "UpdateContainers", update)
                own = own._replace(reply=failed.SerializeToString(), took_ns=5 * 10**9)
                recorder.capture(sessions[stored.plugin], own)
            is_update_sent = True
    for session in sessions.values():
        recorder.end_session(session, "the plugin closed", newest + 10**9)
    recorder.close()
    return path


def _event(method: str, request: bytes) -> str:
    return decode_request(method, request).event


def _own(other: CapturedCall, method: str, request: Message) -> CapturedCall:
    """Return a call by the plugin, with the times of another call."""
    return other._replace(
        method=method,
        request=request.SerializeToString(),
        reply=b"",
        service=RUNTIME_SERVICE,
        timeout_ns=0,
    )


def _start(plugin: str, runtime: str, version: str, nri_version: str, at_ns: int) -> SessionStart:
    index, name = plugin.split("-", 1)
    return SessionStart(
        role=Role.LOGGER,
        plugin_name=name,
        plugin_index=index,
        runtime_name=runtime,
        runtime_version=version,
        nri_version=nri_version,
        nri_version_inferred=False,
        mask=0,
        registration_timeout_ms=60_000,
        request_timeout_ms=60_000,
        started_ns=at_ns,
    )
