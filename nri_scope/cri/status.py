# SPDX-License-Identifier: Apache-2.0
"""A runtime's replies: its version, and information about a container."""

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
    """A runtime's name and version, such as ``containerd`` and ``v1.7.24``."""

    name: str
    version: str


_MESSAGE_MAX = 4_000
"""Maximum length of the reason and of the message of a failed start, in characters."""


def info_with_status(response: v1.ContainerStatusResponse) -> str:
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
    # containerd reports the reason, with exit code 128; CRI-O only the message, with exit code -1.
    return status.reason == "StartError" or (status.exit_code == -1 and bool(status.message))


def parse_info(info: Mapping[str, str]) -> dict[str, Json]:
    """Return the JSON object that containerd and CRI-O return under the key ``info``."""
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
