# SPDX-License-Identifier: Apache-2.0
"""Answers of a runtime: versions, pods and containers as plain immutable values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, cast

from nri_scope._gen.cri.runtime import v1
from nri_scope.errors import RemoteProtocolError

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""Parsed JSON."""


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """The runtime that answers: such as ``containerd``, ``v1.7.24`` and the CRI version ``v1``."""

    name: str
    version: str
    api_version: str


class ContainerState(StrEnum):
    """The state of a container; ``unknown`` also for a state that CRI may add."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


_STATES = {
    v1.ContainerState.CONTAINER_CREATED: ContainerState.CREATED,
    v1.ContainerState.CONTAINER_RUNNING: ContainerState.RUNNING,
    v1.ContainerState.CONTAINER_EXITED: ContainerState.EXITED,
}


@dataclass(frozen=True, slots=True)
class PodSummary:
    """One pod sandbox as ``ListPodSandbox`` shows it. ``created_ns``: since the Unix epoch."""

    id: str
    namespace: str
    name: str
    uid: str
    ready: bool
    created_ns: int

    @classmethod
    def from_message(cls, pod: v1.PodSandbox) -> PodSummary:
        metadata = pod.metadata or v1.PodSandboxMetadata()
        return cls(
            id=pod.id,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            ready=pod.state == v1.PodSandboxState.SANDBOX_READY,
            created_ns=pod.created_at,
        )


@dataclass(frozen=True, slots=True)
class ContainerSummary:
    """One container as ``ListContainers`` shows it. ``created_ns``: since the Unix epoch."""

    id: str
    pod_id: str
    name: str
    image: str
    state: ContainerState
    created_ns: int

    @classmethod
    def from_message(cls, container: v1.Container) -> ContainerSummary:
        return cls(
            id=container.id,
            pod_id=container.pod_sandbox_id,
            name=(container.metadata or v1.ContainerMetadata()).name,
            image=(container.image or v1.ImageSpec()).image,
            state=_STATES.get(container.state, ContainerState.UNKNOWN),
            created_ns=container.created_at,
        )


@dataclass(frozen=True, slots=True)
class ContainerDetails:
    """One container as ``ContainerStatus`` shows it; times in ns since the Unix epoch, 0: not yet.

    ``runtime_spec`` is the OCI runtime-spec that was really used; None where the runtime was not
    asked for it (``verbose``) or does not give it. ``info`` is all of the verbose answer.
    """

    id: str
    name: str
    state: ContainerState
    exit_code: int
    reason: str
    message: str
    created_ns: int
    started_ns: int
    finished_ns: int
    runtime_spec: Mapping[str, Json] | None
    info: Mapping[str, Json]

    @classmethod
    def from_message(cls, response: v1.ContainerStatusResponse) -> ContainerDetails:
        """Return the details in a message. Raises RemoteProtocolError without a status or valid
        ``info``.
        """
        status = response.status
        if status is None:
            raise RemoteProtocolError("ContainerStatus was answered without a status")
        info = _parse_info(response.info)
        spec = info.get("runtimeSpec")
        return cls(
            id=status.id,
            name=(status.metadata or v1.ContainerMetadata()).name,
            state=_STATES.get(status.state, ContainerState.UNKNOWN),
            exit_code=status.exit_code,
            reason=status.reason,
            message=status.message,
            created_ns=status.created_at,
            started_ns=status.started_at,
            finished_ns=status.finished_at,
            runtime_spec=spec if isinstance(spec, dict) else None,
            info=info,
        )


_MESSAGE_MAX = 4_000
"""Characters of the words with which a start failed."""


def info_told(response: v1.ContainerStatusResponse) -> str:
    """Return the JSON under ``info``, with ``status`` added where the container failed to start."""
    text = response.info.get("info", "")
    status = response.status
    if status is None or not _failed_to_start(status):
        return text
    try:
        known = _parse_info(response.info)
    except RemoteProtocolError:
        return text
    if "status" in known:
        return text
    added = json.dumps(
        {
            "state": status.state.name,
            "exitCode": status.exit_code,
            "reason": status.reason[:_MESSAGE_MAX],
            "message": status.message[:_MESSAGE_MAX],
        }
    )
    rest = text.lstrip()[1:] if known else "}"
    return f'{{"status": {added}{", " if known else ""}{rest}'


def _failed_to_start(status: v1.ContainerStatus) -> bool:
    if status.state != v1.ContainerState.CONTAINER_EXITED:
        return False
    # The first is containerd's, with exit code 128. CRI-O has no code then, and the error.
    return status.reason == "StartError" or (status.exit_code == -1 and bool(status.message))


def _parse_info(info: Mapping[str, str]) -> dict[str, Json]:
    """Return the JSON object that containerd and CRI-O put under the key ``info``."""
    text = info.get("info")
    if not text:
        return {}
    try:
        parsed = cast(Json, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"ContainerStatus info is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise RemoteProtocolError("ContainerStatus info is not a JSON object")
    return parsed
