# SPDX-License-Identifier: Apache-2.0
"""Changes requested by plugins, from their own notes: one OCI path of one container each.

The differ is checked against them, so the conversion to OCI paths shares no code with it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs import Json, pointer
from tests.interop.reference import read_requests


class _Gone(Enum):
    GONE = "gone"

    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone.GONE
"""Replaces a value that does not exist or was removed."""

Value: TypeAlias = "Json | _Gone"

HOOKS = "/hooks/createRuntime"
MOUNTS = "/mounts"


class Deed(NamedTuple):
    """One change requested by one plugin."""

    plugin: str
    """``NN-name``."""
    number: int
    """Index of the reply among the plugin's replies."""
    event: str
    """Event of the reply; ``UpdateContainers`` for unsolicited updates."""
    about: str
    """Id of the event's container; "" for none."""
    container: str
    """Id of the changed container."""
    path: str
    value: Value


class _Answer(NamedTuple):
    event: str
    about: str
    adjustments: list[api.ContainerAdjustment]
    updates: list[api.ContainerUpdate]


class Answers:
    """All replies of one plugin; can be read while the plugin runs."""

    def __init__(self, plugin: str, notes: Path, *, is_go: bool) -> None:
        self.plugin = plugin
        self._notes = notes
        self._is_go = is_go

    def deeds(self) -> list[Deed]:
        """Return all requested changes, in order."""
        found: list[Deed] = []
        for number, one in enumerate(self._read()):
            asked = [(one.about, pair) for each in one.adjustments for pair in adjusted(each)]
            for update in one.updates:
                pairs = resources(update.linux.resources).items()
                asked += [(update.container_id, pair) for pair in pairs]
            for container, (path, value) in asked:
                deed = Deed(self.plugin, number, one.event, one.about, container, path, value)
                found.append(deed)
        return found

    def asked(self) -> list[tuple[str, str]]:
        """Return event and container id of each reply, in order."""
        return [(one.event, one.about) for one in self._read()]

    def _read(self) -> Iterator[_Answer]:
        return _go(self._notes) if self._is_go else _python(self._notes)


def _python(notes: Path) -> Iterator[_Answer]:
    """Parse the notes of a meddler; the last line may be truncated by its end."""
    for line in notes.read_text().split("\n")[:-1]:
        note = cast("dict[str, str | list[str]]", json.loads(line))
        adjustments = map(api.ContainerAdjustment.FromString, map(base64.b64decode, note["adjust"]))
        updates = map(api.ContainerUpdate.FromString, map(base64.b64decode, note["updates"]))
        event, about = str(note["event"]), str(note["container"])
        yield _Answer(event, about, [*adjustments], [*updates])


def _go(requests: Path) -> Iterator[_Answer]:
    """Parse the notes of the reference plugin, which only adjusts."""
    for one in read_requests(requests):
        if one.method == "CreateContainer":
            request = api.CreateContainerRequest.FromString(one.request)
            reply = api.CreateContainerResponse.FromString(one.reply)
            yield _Answer(one.method, request.container.id, [reply.adjust], [*reply.update])


# -- messages as paths and values -------------------------------------------------------------


def adjusted(message: api.ContainerAdjustment) -> list[tuple[str, Value]]:
    """Convert an adjustment to paths and values; for a key removed and set, only the new value."""
    found: dict[str, Value] = {}

    def put(base: str, key: str, value: Value) -> None:
        if key.startswith("-"):
            found.setdefault(pointer(base, key[1:]), GONE)
        else:
            found[pointer(base, key)] = value

    for name, text in message.annotations.items():
        put("/annotations", name, text)
    for variable in message.env:
        put("/process/env", variable.key, variable.value)
    for mount in message.mounts:
        put(MOUNTS, mount.destination, _mount(mount))
    for limit in message.rlimits:
        put("/process/rlimits", limit.type, _limit(limit))
    for device in message.linux.devices:
        put("/linux/devices", device.path, _device(device))
    for hook in message.hooks.create_runtime:
        put(HOOKS, hook.path, _hook(hook))
    if message.linux.HasField("oom_score_adj"):
        found["/process/oomScoreAdj"] = message.linux.oom_score_adj.value
    found.update(resources(message.linux.resources))
    return list(found.items())


def resources(message: api.LinuxResources) -> dict[str, Value]:
    """Convert the resources used by the testbed to paths and values, if they are set."""
    found: dict[str, Value] = {}
    cpu, memory = message.cpu, message.memory
    if cpu.HasField("shares"):
        found["/linux/resources/cpu/shares"] = cpu.shares.value
    if cpu.HasField("quota"):
        found["/linux/resources/cpu/quota"] = cpu.quota.value
    if cpu.HasField("period"):
        found["/linux/resources/cpu/period"] = cpu.period.value
    if cpu.cpus:
        found["/linux/resources/cpu/cpus"] = cpu.cpus
    if memory.HasField("limit"):
        found["/linux/resources/memory/limit"] = memory.limit.value
    if message.HasField("pids"):
        found["/linux/resources/pids/limit"] = message.pids.limit
    return found


def shown(container: api.Container) -> dict[str, Value]:
    """Convert a container to paths and values, as far as the testbed's plugins can change it."""
    found: dict[str, Value] = {}
    for name, text in container.annotations.items():
        found[pointer("/annotations", name)] = text
    for variable in container.env:
        name, _, text = variable.partition("=")
        found[pointer("/process/env", name)] = text
    for mount in container.mounts:
        found[pointer(MOUNTS, mount.destination)] = _mount(mount)
    for limit in container.rlimits:
        found[pointer("/process/rlimits", limit.type)] = _limit(limit)
    for device in container.linux.devices:
        found[pointer("/linux/devices", device.path)] = _device(device)
    for path, hook in _labelled(container.hooks.create_runtime):
        found[pointer(HOOKS, path)] = _hook(hook)
    if container.linux.HasField("oom_score_adj"):
        found["/process/oomScoreAdj"] = container.linux.oom_score_adj.value
    found.update(resources(container.linux.resources))
    return found


def do(state: dict[str, Value], deeds: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """Return the state after these changes; hooks are appended."""
    after = dict(state)
    for path, value in deeds:
        if path.startswith(HOOKS):
            number = sum(one == path or one.startswith(f"{path}#") for one in after)
            after[f"{path}#{number + 1}" if number else path] = value
        elif value is GONE:
            after.pop(path, None)
        else:
            after[path] = value
    return after


def _labelled(hooks: Iterable[api.Hook]) -> Iterator[tuple[str, api.Hook]]:
    counts: dict[str, int] = {}
    for hook in hooks:
        number = counts[hook.path] = counts.get(hook.path, 0) + 1
        yield (hook.path if number == 1 else f"{hook.path}#{number}"), hook


def _mount(mount: api.Mount) -> Json:
    return _filled(
        destination=mount.destination,
        type=mount.type,
        source=mount.source,
        options=list[Json](mount.options),
    )


def _limit(limit: api.POSIXRlimit) -> Json:
    return {"type": limit.type, "hard": limit.hard, "soft": limit.soft}


def _device(device: api.LinuxDevice) -> Json:
    return {"path": device.path, "type": device.type, "major": device.major, "minor": device.minor}


def _hook(hook: api.Hook) -> Json:
    return _filled(path=hook.path, args=list[Json](hook.args))


def _filled(**fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value}
