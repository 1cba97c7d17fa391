# SPDX-License-Identifier: Apache-2.0
"""Creations of containers with a secret in their environment."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from tests.recording.traffic import NOW, an_item

SECRET = "correct-horse-7-battery"


def a_creation(pod: str, env: list[str], args: tuple[str, ...] = (), at: int = 0) -> CapturedCall:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id=pod, namespace="shop", name=pod),
        container=api.Container(
            id=f"c-{pod}-{at}", pod_sandbox_id=pod, name="app", env=env, args=args
        ),
    )
    return an_item("CreateContainer", request, b"\n\x00", wall_ns=NOW + at)
