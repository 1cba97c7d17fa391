# SPDX-License-Identifier: Apache-2.0
"""The last request of a wrapped plugin that fails, at a runtime that kills it immediately."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.nri.events import EventKind
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import server
from nri_scope.wire import Code
from tests.amount import sampled
from tests.cli.tap_process import PATIENCE, plugin_file
from tests.runtime_emulation.profiles import patient
from tests.runtime_emulation.runtime import Runtime

PLUGIN = "20-thing"
REPETITIONS = 3
DEADLINE_MS = 300
EXITS = "os._exit(3)"
FAILS = "raise RuntimeError('refused')"
LATE = "time.sleep(60)"
FAILURES = [
    # The runtime; the event; what the plugin does; the status in the recording.
    ("containerd-2.1", EventKind.CreateContainer, EXITS, Code.UNAVAILABLE),
    ("containerd-2.1", EventKind.CreateContainer, LATE, Code.DEADLINE_EXCEEDED),
    ("containerd-2.1", EventKind.PostStartContainer, EXITS, Code.UNAVAILABLE),
    ("isulad", EventKind.CreateContainer, EXITS, Code.UNAVAILABLE),
    ("isulad", EventKind.CreateContainer, FAILS, Code.UNKNOWN),
    ("isulad", EventKind.CreateContainer, LATE, Code.DEADLINE_EXCEEDED),
    ("isulad", EventKind.PostStartContainer, EXITS, Code.UNAVAILABLE),
    ("isulad", EventKind.PostStartContainer, FAILS, Code.UNKNOWN),
]
METHODS = {
    EventKind.CreateContainer: "create_container",
    EventKind.PostStartContainer: "post_start_container",
}


async def dispatch(runtime: Runtime, event: EventKind) -> None:
    pod = api.PodSandbox(id="pod-1", namespace="shop", name="web")
    container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app")
    request = {
        EventKind.CreateContainer: api.CreateContainerRequest,
        EventKind.PostStartContainer: api.PostStartContainerRequest,
    }[event]
    await runtime.operate(event, request(pod=pod, container=container))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("profile", "event", "action", "code"), sampled(FAILURES))
async def test_the_request_at_which_a_wrapped_plugin_fails_is_recorded(
    profile: str,
    event: EventKind,
    action: str,
    code: Code,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Kill the launched process as soon as its connection ends, as real runtimes do.
    monkeypatch.setattr(server, "EXIT_GRACE_S", 0.0)
    file = tmp_path / "w.nriscope.db"
    body = f"    def {METHODS[event]}(self, pod, container):\n        {action}"
    plugin = plugin_file(tmp_path / PLUGIN, body, start="import time")
    assert run(["tap", "--wrap", str(plugin), "-o", str(file)]) == 0
    for _ in range(REPETITIONS):
        deadline = DEADLINE_MS if action == LATE else 60_000
        async with Runtime(patient(profile, request_timeout_ms=deadline)) as runtime:
            await runtime.launch(plugin)
            await dispatch(runtime, event)
            async with asyncio.timeout(PATIENCE):
                await runtime.wait_for(lambda: bool(runtime.former))
    with Recording.open(file) as recorded:
        sessions = recorded.sessions()
        fatal = [one for one in recorded.events() if one.event == event.name]
    assert [one.session for one in fatal] == [session.id for session in sessions]
    assert [one.status_code for one in fatal] == [code] * REPETITIONS
    ended = "exit status 3" if action == EXITS else "the runtime closed the connection"
    assert all(ended in session.end_reason for session in sessions)
