# SPDX-License-Identifier: Apache-2.0
"""Answers of the CRI, and the session that records them."""

from __future__ import annotations

import json

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Role, SessionStart
from nri_scope.recording.reading.event_messages import status_request
from tests.recording.traffic import NOW, a_container, a_pod, an_item

ANSWER = json.dumps({"runtimeSpec": {"ociVersion": "1.1.0"}, "pid": 7}).encode()
CONTAINER = a_container(a_pod(1), "app-0").id


def a_cri_session() -> SessionStart:
    return SessionStart(
        role=Role.CRI,
        plugin_name="cri",
        plugin_index="",
        runtime_name="containerd",
        runtime_version="v2.1.9",
        nri_version="",
        nri_version_inferred=False,
        mask=0,
        registration_timeout_ms=0,
        request_timeout_ms=0,
        started_ns=NOW,
    )


def an_answer(container_id: str = CONTAINER, reply: bytes = ANSWER) -> CapturedCall:
    return an_item(
        CONTAINER_STATUS,
        status_request(container_id),
        reply,
        wall_ns=NOW + 10**9,
        service=CRI_SERVICE,
    )
