# SPDX-License-Identifier: Apache-2.0
"""Events of a container, sent by an emulated runtime."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.runtime_emulation.runtime import Runtime


async def create(runtime: Runtime, *env: str) -> None:
    message = api.CreateContainerRequest()
    message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
    container = api.Container(id="c1", pod_sandbox_id="pod-1", name="app", env=env)
    message.container.CopyFrom(container)
    await runtime.dispatch(EventKind.CreateContainer, message)


def setup(profile: str = "containerd-1.7") -> ProfileSetUp:
    """A runtime with one pod and one container."""
    pod = api.PodSandbox(id="pod-1", namespace="shop", name="web", uid="u1")
    container = api.Container(id="container-1", pod_sandbox_id="pod-1", name="app")
    return ProfileSetUp(PROFILES[profile], [pod], [container])


async def start(runtime: Runtime, number: int = 1, container: str = "c1") -> None:
    """Send StartContainer ``number`` times."""
    for _ in range(number):
        message = api.StartContainerRequest()
        message.pod.CopyFrom(api.PodSandbox(id="pod-1", namespace="shop", name="web"))
        message.container.CopyFrom(
            api.Container(id=container, pod_sandbox_id="pod-1", name="app", env=["A=1"])
        )
        answers = await runtime.dispatch(EventKind.StartContainer, message)
        assert {answer.error for answer in answers} <= {None}
