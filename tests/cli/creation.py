# SPDX-License-Identifier: Apache-2.0
"""A creation of a container by an emulated runtime."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from tests.runtime_emulation.runtime import Runtime


async def create(runtime: Runtime, *env: str) -> None:
    message = api.CreateContainerRequest()
    message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
    container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app", env=env)
    message.container.CopyFrom(container)
    await runtime.dispatch(Event.CreateContainer, message)
