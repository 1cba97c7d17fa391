# SPDX-License-Identifier: Apache-2.0
"""Short forms of the messages that the plugins of tests return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nri_scope.plugin import api

Settings = Mapping[str, int | str]
"""Fields of a message of resources by name: numbers, which become ``Optional`` messages, and texts.
"""


def adjust(
    *,
    env: Mapping[str, str] | None = None,
    cpu: Settings | None = None,
    memory: Settings | None = None,
    pids: int | None = None,
    devices: Iterable[api.LinuxDevice] = (),
    **fields: Any,
) -> api.ContainerAdjustment:
    """Return an adjustment; ``fields`` are other fields of the message.

    As in NRI, a key with the prefix ``-`` removes a value.
    """
    variables = [api.KeyValue(key=key, value=value) for key, value in (env or {}).items()]
    message = api.ContainerAdjustment(env=variables, **fields)
    for device in devices:
        message.linux.devices.append(device)
    set_resources(message.linux, cpu=cpu, memory=memory, pids=pids)
    return message


def update(
    container_id: str,
    *,
    ignore_failure: bool = False,
    cpu: Settings | None = None,
    memory: Settings | None = None,
) -> api.ContainerUpdate:
    """Return an update of a container's resources."""
    message = api.ContainerUpdate(container_id=container_id, ignore_failure=ignore_failure)
    set_resources(message.linux, cpu=cpu, memory=memory)
    return message


def set_resources(
    linux: api.LinuxContainerAdjustment | api.LinuxContainerUpdate,
    *,
    cpu: Settings | None = None,
    memory: Settings | None = None,
    pids: int | None = None,
) -> None:
    """Set resources of an adjustment or an update."""
    for name, settings in (("cpu", cpu), ("memory", memory)):
        for field, value in (settings or {}).items():
            part = getattr(linux.resources, name)
            if isinstance(value, str):
                setattr(part, field, value)
            else:
                getattr(part, field).value = value
    if pids is not None:
        linux.resources.pids.limit = pids


def bind(destination: str, source: str, *options: str) -> api.Mount:
    """Return a recursive bind mount."""
    return api.Mount(
        destination=destination, source=source, type="bind", options=["rbind", *options]
    )


def evict(container_id: str, reason: str) -> api.ContainerEviction:
    """Return an eviction."""
    return api.ContainerEviction(container_id=container_id, reason=reason)
