# SPDX-License-Identifier: Apache-2.0
"""A runtime's answers: its version, and its facts about a container."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from nri_scope._gen.cri.runtime import v1
from nri_scope.errors import RemoteProtocolError

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""Parsed JSON."""


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """The runtime that answers, such as ``containerd`` and ``v1.7.24``."""

    name: str
    version: str


_MESSAGE_MAX = 4_000
"""Maximum number of characters of the message about a failed start."""


def info_told(response: v1.ContainerStatusResponse) -> str:
    """Return the JSON under ``info``, with ``status`` added if the container failed to start."""
    text = response.info.get("info", "")
    status = response.status
    if status is None or not _failed_to_start(status):
        return text
    try:
        known = parse_info(response.info)
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
    # The first is containerd's, with exit code 128. CRI-O then has no code, only the error.
    return status.reason == "StartError" or (status.exit_code == -1 and bool(status.message))


def parse_info(info: Mapping[str, str]) -> dict[str, Json]:
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
