# SPDX-License-Identifier: Apache-2.0
"""A recording written by probes, event by event."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns, time_ns

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role
from nri_scope.recorder.writer import Recorder
from tests.recording.traffic import a_start

POD = api.PodSandbox(id="pod-1", namespace="shop", name="web")


def a_container(name: str = "app", **annotations: str) -> api.Container:
    return api.Container(
        id=f"{name}-id", pod_sandbox_id="pod-1", name=name, annotations=annotations
    )


def create(container: api.Container) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container)


def change(event: api.Event.ValueType, container: api.Container) -> api.StateChangeEvent:
    return api.StateChangeEvent(event=event, pod=POD, container=container)


class Probing:
    """Recorder with probes at the given indices."""

    def __init__(self, path: Path, *indices: str) -> None:
        self.path = path
        self.recorder = Recorder.open(path)
        self._captured = 0
        self.sessions = {index: self.join(index) for index in indices}

    def join(self, index: str) -> int:
        start = replace(a_start(f"{index}-nri-scope", time_ns()), role=Role.PROBE)
        return self.recorder.begin_session(start)

    def sees(
        self, index: str, method: str, request: Message, *, at_mono_ns: int | None = None
    ) -> None:
        self.recorder.capture(
            self.sessions[index],
            CapturedCall(
                wall_ns=time_ns(),
                mono_ns=at_mono_ns or monotonic_ns(),
                method=method,
                request=request.SerializeToString(),
                reply=b"",
                status_code=0,
                status_message="",
                took_ns=1000,
                timeout_ns=2_000_000_000,
            ),
        )
        self._captured += 1

    def created(self, name: str = "app", **by_index: api.Container) -> None:
        """Record a creation; the keywords are probe indices prefixed with an underscore."""
        for index, container in by_index.items():
            self.sees(index[1:], "CreateContainer", create(container))

    def settle(self) -> None:
        """Wait until all captured calls are in the file."""
        wait_for(lambda: self.recorder.counters.recorded == self._captured)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
