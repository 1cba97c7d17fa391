# SPDX-License-Identifier: Apache-2.0
"""A runtime's replies: its version, and the JSON about a container, with what its files say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

from nri_scope._gen.cri.runtime import v1
from nri_scope.specs import Json, patch_of

from .node_files import NodeFiles


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
    failure: Json = {
        "state": status.state.name,
        "exitCode": status.exit_code,
        "reason": status.reason[:_MESSAGE_MAX],
        "message": status.message[:_MESSAGE_MAX],
    }
    return _with_members(text, {"status": failure})


def info_with_files(text: str, container_id: str, files: NodeFiles) -> str:
    """Return the JSON under "info" with what this node's files tell about the container, if any.

    "cgroup" has the limits in its cgroups by OCI path, "bundleSpec" the differences of its
    config.json from "runtimeSpec", see `specs.patch_of`.
    """
    known = parse_info(text)
    if known is None:
        return text
    pid, spec = known.get("pid"), known.get("runtimeSpec")
    spec = spec if isinstance(spec, dict) else {}
    linux = spec.get("linux")
    cgroup = linux.get("cgroupsPath") if isinstance(linux, dict) else ""
    # systemd's form is SLICE:PREFIX:NAME.
    name = cgroup.rpartition("/")[2].rpartition(":")[2] if isinstance(cgroup, str) else ""
    folders = files.folders(pid, (container_id, name)) if isinstance(pid, int) and pid > 0 else {}
    members: dict[str, Json] = {}
    if limits := files.limits(folders):
        members["cgroup"] = limits
    config = files.config(pid if folders and isinstance(pid, int) else 0, container_id)
    if config is not None and spec:
        members["bundleSpec"] = patch_of(spec, config)
    return _with_members(text, members)


def _with_members(text: str, members: dict[str, Json]) -> str:
    """Add members to a JSON object, whose text stays as it is. Members that it has are kept."""
    known = parse_info(text)
    if known is None:
        return text
    added = {name: value for name, value in members.items() if name not in known}
    if not added:
        return text
    rest = text.lstrip()[1:] if known else "}"
    return f"{json.dumps(added)[:-1]}{', ' if known else ''}{rest}"


def _failed_to_start(status: v1.ContainerStatus) -> bool:
    if status.state != v1.ContainerState.CONTAINER_EXITED:
        return False
    # containerd reports the reason, with exit code 128; CRI-O only the message, with exit code -1.
    return status.reason == "StartError" or (status.exit_code == -1 and bool(status.message))


def parse_info(text: str) -> dict[str, Json] | None:
    """Return the JSON object that containerd and CRI-O return under the key "info", which may be
    empty; None for other text.
    """
    if not text:
        return {}
    try:
        parsed = cast(Json, json.loads(text))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
