# SPDX-License-Identifier: Apache-2.0
"""Replay to a plugin of NRI 0.1: invoke it with recorded requests, or with requests made from NRI.

Requests made from NRI follow upstream's v010-adapter (containerd/nri, plugins/v010-adapter):
RunPodSandbox and StartContainer become ``create``, StopPodSandbox and StopContainer ``delete``.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import IO, Any

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.events import Event, Role, Session
from nri_scope.nri import invocation
from nri_scope.nri.plain import Plain, plain_json
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci.resources import resources
from nri_scope.recording.reader import Recording
from nri_scope.recording.regular_files import read_regular, write_private
from nri_scope.recording.session_choice import concerns, find_session, subject_of

from .script import ReplaySelection

TIMEOUT_S = 30.0
"""Maximum seconds of one invocation. The runtime's client has no limit of its own."""
OUTPUT_MAX = 1 << 20
"""Maximum bytes of a result, and of an invocation's standard error."""
GOLDEN_MAX = 64 << 20

ADAPTED = {
    "RunPodSandbox": "create",
    "StartContainer": "create",
    "StopPodSandbox": "delete",
    "StopContainer": "delete",
}
"""States of the requests that the adapter makes, by NRI's events."""


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A request to the plugin."""

    event: int
    """Number of the recorded event."""
    state: str
    subject: str
    request: bytes


@dataclass(frozen=True, slots=True)
class PluginResult:
    """What the plugin did with a request."""

    call: PluginCall
    result: bytes
    errors: bytes
    exit_status: int
    """Negative for a signal, as in `subprocess`."""
    took_ns: int
    problem: str
    """Why a runtime would end the chain; "" if it would not."""

    def entry(self) -> dict[str, Plain]:
        """Return what a golden contains: everything that is the same in each replay."""
        result = plain_json(self.result) if self.result.strip() else None
        return {
            "event": self.call.event,
            "call": f"{self.call.state} {self.call.subject}",
            "exit_status": self.exit_status,
            "result": self.result.decode(errors="replace") if result is None else result,
        }


def requests(
    recording: Recording, selection: ReplaySelection, conf: bytes | None
) -> Iterator[PluginCall]:
    """Yield the requests of a session, with ``conf`` (JSON) as the plugin's configuration.

    Raises UsageError if the session or the selected part has none.
    """
    session = find_session(recording, selection.session, (Role.V01,))
    # In order of recording, which filters out other sessions.
    is_started, count = selection.begin is None, 0
    for event, request, _ in recording.exchanges():
        if event.session != session.id:
            continue
        is_started = is_started or (selection.begin is not None and selection.begin.reached(event))
        if selection.end is not None and selection.end.reached(event):
            break
        if not is_started or (selection.where and not selection.where.matches(event)):
            continue
        if selection.only and not concerns(selection.only, event):
            continue
        made = _request(session, event, request, conf)
        if made is not None:
            count += 1
            yield made
    if not count:
        raise UsageError(
            f"{recording.path}: session {session.id} has no selected event that calls a plugin of "
            "NRI 0.1",
            "`log` shows its events",
        )


def _request(
    session: Session, event: Event, content: bytes, conf: bytes | None
) -> PluginCall | None:
    if session.role == Role.V01:
        recorded = plain_json(content) if invocation.parse_request(content) is not None else None
        if recorded is None:
            return None
        state = str(recorded["state"])
        if conf is None:
            return PluginCall(event.id, state, subject_of(event), content)
        recorded.pop("conf", None)
        request: dict[str, Any] = {"conf": json.loads(conf), **recorded}
    else:
        made = adapted(event.event, event.method, content)
        if made is None:
            return None
        state = str(made["state"])
        request = made if conf is None else {"conf": json.loads(conf), **made}
    text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
    try:
        content = text.encode()
    except UnicodeEncodeError:
        # A half of a surrogate pair can only be written escaped, as it was recorded.
        content = json.dumps(request, separators=(",", ":")).encode()
    return PluginCall(event.id, state, subject_of(event), content)


def adapted(name: str, method: str, content: bytes) -> dict[str, Any] | None:
    """Return the request that upstream's adapter makes from an event; None if it makes none."""
    state = ADAPTED.get(name)
    if state is None:
        return None
    decoded = decode_request(method, content)
    pod, container = decoded.pod or api.PodSandbox(), decoded.container
    if decoded.message is None:
        return None
    of_container = container is not None and name.endswith("Container")
    about: api.Container | api.PodSandbox = container if container and of_container else pod
    request: dict[str, Any] = {"version": invocation.VERSION, "state": state, "id": about.id}
    if pod.id:
        request["sandboxID"] = pod.id
    if about.pid:
        request["pid"] = about.pid
    linux = about.linux
    spec: dict[str, Any] = {"resources": None}
    if linux.HasField("resources"):
        # The adapter always sends these two, and never resolves a class of block I/O.
        found = {"cpu": {}, "memory": {}, **resources(linux.resources)}
        found.pop("blockIO", None)
        if linux.resources.HasField("pids") and linux.resources.pids.limit < 0:
            found["pids"] = {}
        spec["resources"] = found
    namespaces = {each.type: each.path for each in linux.namespaces}
    if namespaces:
        spec["namespaces"] = dict(sorted(namespaces.items()))
    if linux.cgroups_path:
        spec["cgroupsPath"] = linux.cgroups_path
    if about.annotations:
        spec["annotations"] = dict(sorted(about.annotations.items()))
    request["spec"] = spec
    if pod.labels:
        request["labels"] = dict(sorted(pod.labels.items()))
    return request


def invoke(
    command: Sequence[str],
    environment: Mapping[str, str],
    call: PluginCall,
    timeout_s: float = TIMEOUT_S,
) -> PluginResult:
    """Execute ``command`` with the argument ``invoke``, as the runtime's client does.

    Its processes are killed after ``timeout_s`` or `OUTPUT_MAX`. Raises UsageError if the command
    cannot be run.
    """
    began = monotonic_ns()
    with tempfile.TemporaryFile() as stdin:
        stdin.write(call.request)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                [*command, "invoke"],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise UsageError(
                f"{command[0]}: cannot be run: {words}", "a plugin is an executable file"
            ) from error
    assert process.stdout is not None
    assert process.stderr is not None
    stopped = ""
    try:
        with process.stdout, process.stderr:
            outputs, stopped = _read(process.stdout, process.stderr, monotonic() + timeout_s)
            if stopped:
                _kill(process)
            try:
                process.wait(max(0.0, timeout_s - (monotonic_ns() - began) / 1e9))
            except subprocess.TimeoutExpired:
                stopped = stopped or _too_long(timeout_s)
    finally:
        _kill(process)
        process.wait()
    took_ns = monotonic_ns() - began
    result, errors = bytes(outputs[0]), bytes(outputs[1])
    problem = stopped or invocation.result_problem(result)
    return PluginResult(call, result, errors, process.returncode, took_ns, problem)


def _read(
    stdout: IO[bytes], stderr: IO[bytes], until: float
) -> tuple[tuple[bytearray, bytearray], str]:
    """Read both outputs to their end; return them, and why reading was stopped."""
    outputs = bytearray(), bytearray()
    start = monotonic()
    with selectors.DefaultSelector() as waiting:
        for stream, output in zip((stdout, stderr), outputs, strict=True):
            waiting.register(stream, selectors.EVENT_READ, output)
        while waiting.get_map():
            ready = waiting.select(max(0.0, until - monotonic()))
            if not ready:
                return outputs, _too_long(until - start)
            for key, _ in ready:
                piece = os.read(key.fd, 64 << 10)
                if not piece:
                    waiting.unregister(key.fileobj)
                key.data.extend(piece)
                if len(key.data) > OUTPUT_MAX:
                    del key.data[OUTPUT_MAX:]
                    return outputs, f"it wrote more than {OUTPUT_MAX >> 10} KiB, and was killed"
    return outputs, ""


def _too_long(seconds: float) -> str:
    return f"it did not end within {seconds:.0f} s, and was killed"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a plugin and what it has started, unless they have left its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


# -- goldens ----------------------------------------------------------------------------------


def load_golden(path: Path) -> list[dict[str, Plain]]:
    """Return the entries of a golden. Raises UsageError."""
    try:
        read = plain_json(read_regular(path, GOLDEN_MAX))
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: {words}", "--update-golden writes it") from error
    found = read.get("results") if read is not None and read.get("nri") == "0.1" else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UsageError(f"{path}: not a golden of NRI 0.1", "write it with --update-golden")
    return [one for one in found if isinstance(one, dict)]


def save_golden(path: Path, results: Sequence[PluginResult]) -> None:
    """Write the entries of a golden. Raises UsageError."""
    content = {"nri": "0.1", "results": [one.entry() for one in results]}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    try:
        write_private(path, text.encode(errors="replace"))
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: cannot be written: {words}", "name another --golden") from error


def differences(
    golden: Sequence[Mapping[str, Plain]], results: Sequence[PluginResult]
) -> Iterator[str]:
    """Yield one line for each call whose result is not that of the golden."""
    expected = {one.get("event"): one for one in golden}
    for result in results:
        entry = result.entry()
        wanted = expected.pop(result.call.event, None)
        where = f"event {result.call.event}, {entry['call']}"
        if wanted is None:
            yield f"{where}: not in the golden"
            continue
        for key in ("call", "exit_status", "result"):
            if entry[key] != wanted.get(key):
                yield f"{where}: {key} is {_short(entry[key])}, expected {_short(wanted.get(key))}"
    for event, wanted in expected.items():
        yield f"event {event}, {wanted.get('call')}: in the golden, but not invoked"


def _short(value: Plain) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:200]}…"
