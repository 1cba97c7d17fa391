# SPDX-License-Identifier: Apache-2.0
"""What two plugins do to a container, field by field, and what each of them changes by that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.versions import NriVersion
from nri_scope.oci import Json, Spec, changes
from tests.interop.attribution_fields import ENTRIES, Entry
from tests.interop.merge_cases import Reply

FIRST, SECOND = "20-first", "40-second"
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop", uid="pod-uid")


class Did(StrEnum):
    """What plugins do with a field."""

    ADD = "add"
    REPLACE = "replace"
    REPLACE_OTHERS = "replace what another plugin set"
    REMOVE = "remove"
    REMOVE_OTHERS = "remove what another plugin set"
    ADD_BOTH = "add, both"
    CONFLICT = "conflict"
    IGNORED = "set, where this version has no such field"


class Asker(StrEnum):
    """The requests in whose replies containers are updated; "" for an update out of turn."""

    CREATE = "CreateContainer"
    UPDATE = "UpdateContainer"
    STOP = "StopContainer"
    UNASKED = "UpdateContainers"


class Expected(NamedTuple):
    """One change of one container by one plugin."""

    plugin: str
    path: str
    before: Json
    after: Json


@dataclass(frozen=True)
class Case:
    """A container that is created, and what the plugins reply meanwhile."""

    name: str
    """Also the container's name; its id is this with ``-id``."""
    entry: Entry
    did: Did
    container: api.Container
    replies: dict[str, api.CreateContainerResponse]
    """By plugin."""
    states: tuple[Spec, Spec, Spec] = ({}, {}, {})
    """What of the field is there before any plugin, after the first and after the second."""

    @property
    def steps(self) -> tuple[Expected, ...]:
        """What the plugins change, in order."""
        return (
            *steps_between(FIRST, *self.states[:2]),
            *steps_between(SECOND, *self.states[1:]),
        )

    @property
    def owner(self) -> str:
        """Who set the field last."""
        return [plugin for plugin in (FIRST, SECOND) if plugin in self.replies][-1]


@dataclass(frozen=True)
class UpdateCase:
    """A container that a plugin updates: in a reply about it or about another one, or unasked."""

    name: str
    entry: Entry
    asker: Asker
    plugins: tuple[str, ...]
    """Those that ask; two of them are in conflict."""
    target: api.Container
    """The one to be updated."""
    subject: api.Container | None
    """The one that the event is about; None for the target itself."""
    states: tuple[Spec, Spec]
    """What of the field the target has before and after."""
    replies: dict[str, Reply] = field(default_factory=dict)
    """By plugin."""
    asked: api.UpdateContainersRequest | None = None

    @property
    def conflict(self) -> bool:
        """Whether the event fails."""
        return len(self.plugins) > 1 and not self.entry.shared


def steps_between(plugin: str, before: Spec, after: Spec) -> Iterator[Expected]:
    """What `plugin` changes by making one of the other."""
    for change in changes(before, after):
        yield Expected(plugin, change.path, change.before, change.after)


def has(version: NriVersion, entry: Entry) -> bool:
    """Whether this version of NRI has the field."""
    since = NriVersion.parse(entry.field.since)
    assert since is not None
    return version >= since


def cases(version: NriVersion) -> tuple[Case, ...]:
    """Every field with everything that two plugins can do with it."""
    return tuple(case for entry in ENTRIES for case in _cases_of(entry, has(version, entry)))


def _cases_of(entry: Entry, known: bool) -> Iterator[Case]:
    if not known:
        yield _case(entry, Did.IGNORED, {FIRST: [1]}, (), (), ())
        return
    yield _case(entry, Did.ADD, {FIRST: [1]}, (), (1,), (1,))
    yield _case(entry, Did.ADD, {SECOND: [1]}, (), (), (1,))
    if entry.give is not None:
        added = (0, 1) if entry.appends else (1,)
        yield _case(entry, Did.REPLACE, {FIRST: [1]}, (0,), added, added)
        yield _case(entry, Did.REPLACE, {SECOND: [1]}, (0,), (0,), added)
    if entry.removable and entry.give is not None:
        yield _case(entry, Did.REMOVE, {FIRST: ["-"]}, (0,), (), ())
        yield _case(entry, Did.REMOVE, {SECOND: ["-"]}, (0,), (0,), ())
    if entry.removable:
        yield _case(entry, Did.REMOVE_OTHERS, {FIRST: [1], SECOND: ["-"]}, (), (1,), ())
    if entry.replaceable and not entry.single:
        yield _case(entry, Did.REPLACE_OTHERS, {FIRST: [1], SECOND: ["-", 2]}, (), (1,), (2,))
    if entry.shared:
        yield _case(entry, Did.ADD_BOTH, {FIRST: [1], SECOND: [2]}, (), (1,), (1, 2))
    else:
        yield _case(entry, Did.CONFLICT, {FIRST: [1], SECOND: [2]}, (), (1,), (1,))


def _case(
    entry: Entry,
    did: Did,
    asks: dict[str, list[int | str]],
    *states: tuple[int, ...],
) -> Case:
    who = "+".join(plugin[:2] for plugin in asks)
    name = f"{entry.name}.{did.name.lower()}.{who}"
    container = container_named(name)
    for number in states[0]:
        assert entry.give is not None
        entry.give(container, number)
    replies = {}
    for plugin, wishes in asks.items():
        replies[plugin] = api.CreateContainerResponse()
        for wish in wishes:
            if isinstance(wish, int):
                entry.adjust(replies[plugin].adjust, wish)
            else:
                entry.remove(replies[plugin].adjust)
    before, between, after = (entry.state(*state) for state in states)
    return Case(name, entry, did, container, replies, (before, between, after))


def container_named(name: str) -> api.Container:
    """One that has nothing of what the cases are about."""
    container = api.Container(id=f"{name}-id", name=name, pod_sandbox_id=POD.id)
    # Upstream's adaptation panics where a plugin adds the first one.
    container.linux.sysctl["kernel.base"] = "0"
    container.linux.net_devices["lo"].name = "lo"
    return container


def update_cases(version: NriVersion) -> tuple[UpdateCase, ...]:
    """Every resource, updated in the replies to each request that has some, and unasked."""
    return tuple(
        case
        for entry in ENTRIES
        if entry.update is not None and has(version, entry)
        for case in _updates_of(entry)
    )


def _updates_of(entry: Entry) -> Iterator[UpdateCase]:
    for asker in (Asker.CREATE, Asker.UPDATE, Asker.STOP):
        yield _update(entry, asker, (FIRST,), other=True)
        yield _update(entry, asker, (SECOND,), other=True)
    yield _update(entry, Asker.UPDATE, (FIRST,))
    yield _update(entry, Asker.UPDATE, (SECOND,))
    yield _update(entry, Asker.UPDATE, (FIRST, SECOND))
    yield _update(entry, Asker.UPDATE, (FIRST, SECOND), other=True)
    yield _update(entry, Asker.UNASKED, (FIRST,))


_REPLIES: dict[Asker, type[Reply]] = {
    Asker.CREATE: api.CreateContainerResponse,
    Asker.UPDATE: api.UpdateContainerResponse,
    Asker.STOP: api.StopContainerResponse,
}


def _update(
    entry: Entry, asker: Asker, plugins: tuple[str, ...], *, other: bool = False
) -> UpdateCase:
    who = "+".join(plugin[:2] for plugin in plugins)
    name = f"{entry.name}.{'other' if other else 'own'}-in-{asker}.{who}"
    target = container_named(name)
    assert entry.give is not None and entry.update is not None
    entry.give(target, 0)
    subject = container_named(f"{name}.subject") if other else None
    updates: dict[str, api.ContainerUpdate] = {}
    for number, plugin in enumerate(plugins, 1):
        updates[plugin] = api.ContainerUpdate(container_id=target.id)
        entry.update(updates[plugin].linux.resources, number)
    case = UpdateCase(
        name, entry, asker, plugins, target, subject, (entry.state(0), entry.state(1))
    )
    if asker is Asker.UNASKED:
        asked = api.UpdateContainersRequest(update=updates.values())
        return UpdateCase(**{**vars(case), "asked": asked})
    case.replies.update(
        {plugin: _REPLIES[asker](update=[update]) for plugin, update in updates.items()}
    )
    return case
