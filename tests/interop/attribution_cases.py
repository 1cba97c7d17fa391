# SPDX-License-Identifier: Apache-2.0
"""Cases of attribution: adjustments and updates by two plugins, and the expected changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.versions import NriVersion
from nri_scope.specs import Json, Spec, changes
from tests.interop.attribution_fields import ENTRIES, Entry
from tests.interop.merge_cases import Reply

FIRST, SECOND = "20-first", "40-second"
POD = api.PodSandbox(id="pod-id", name="web", namespace="shop", uid="pod-uid")


class Action(StrEnum):
    """Action of the plugins on a field."""

    ADD = "add"
    REPLACE = "replace"
    REPLACE_OTHERS = "replace what another plugin set"
    REMOVE = "remove"
    REMOVE_OTHERS = "remove what another plugin set"
    ADD_BOTH = "add, both"
    CONFLICT = "conflict"
    IGNORED = "set, in a version without this field"


class UpdateTrigger(StrEnum):
    """Request whose reply contains the update, or UpdateContainers for an unsolicited update."""

    CREATE = "CreateContainer"
    UPDATE = "UpdateContainer"
    STOP = "StopContainer"
    UNSOLICITED = "UpdateContainers"


class ExpectedChange(NamedTuple):
    """ExpectedChange change of one container by one plugin."""

    plugin: str
    path: str
    before: Json
    after: Json


@dataclass(frozen=True)
class Case:
    """A CreateContainer request and the plugins' replies."""

    name: str
    """Also the container's name; its id has the suffix ``-id``."""
    entry: Entry
    action: Action
    container: api.Container
    replies: dict[str, api.CreateContainerResponse]
    """By plugin."""
    states: tuple[Spec, Spec, Spec] = ({}, {}, {})
    """The field's part of the spec before the plugins, after the first and after the second."""

    @property
    def steps(self) -> tuple[ExpectedChange, ...]:
        """Changes by the plugins, in order."""
        return (
            *steps_between(FIRST, *self.states[:2]),
            *steps_between(SECOND, *self.states[1:]),
        )

    @property
    def owner(self) -> str:
        """The last plugin that set the field."""
        return [plugin for plugin in (FIRST, SECOND) if plugin in self.replies][-1]


@dataclass(frozen=True)
class UpdateCase:
    """An update of a container: in a reply about it or another container, or unsolicited."""

    name: str
    entry: Entry
    trigger: UpdateTrigger
    plugins: tuple[str, ...]
    """Plugins that request the update; two plugins are in conflict."""
    target: api.Container
    """The container to update."""
    subject: api.Container | None
    """The event's container; None for the target itself."""
    states: tuple[Spec, Spec]
    """The field's part of the target's spec before and after."""
    replies: dict[str, Reply] = field(default_factory=dict)
    """By plugin."""
    asked: api.UpdateContainersRequest | None = None

    @property
    def conflict(self) -> bool:
        """Whether the plugins are in conflict."""
        return len(self.plugins) > 1 and not self.entry.shared


def steps_between(plugin: str, before: Spec, after: Spec) -> Iterator[ExpectedChange]:
    """Changes by `plugin` from one spec to another."""
    for change in changes(before, after):
        yield ExpectedChange(plugin, change.path, change.before, change.after)


def has(version: NriVersion, entry: Entry) -> bool:
    """Whether this version of NRI has the field."""
    since = NriVersion.parse(entry.field.since)
    assert since is not None
    return version >= since


def cases(version: NriVersion) -> tuple[Case, ...]:
    """Every field with every action of two plugins."""
    return tuple(case for entry in ENTRIES for case in _cases_of(entry, has(version, entry)))


def _cases_of(entry: Entry, known: bool) -> Iterator[Case]:
    if not known:
        yield _case(entry, Action.IGNORED, {FIRST: [1]}, (), (), ())
        return
    yield _case(entry, Action.ADD, {FIRST: [1]}, (), (1,), (1,))
    yield _case(entry, Action.ADD, {SECOND: [1]}, (), (), (1,))
    if entry.set_initial is not None:
        added = (0, 1) if entry.appends else (1,)
        yield _case(entry, Action.REPLACE, {FIRST: [1]}, (0,), added, added)
        yield _case(entry, Action.REPLACE, {SECOND: [1]}, (0,), (0,), added)
    if entry.removable and entry.set_initial is not None:
        yield _case(entry, Action.REMOVE, {FIRST: ["-"]}, (0,), (), ())
        yield _case(entry, Action.REMOVE, {SECOND: ["-"]}, (0,), (0,), ())
    if entry.removable:
        yield _case(entry, Action.REMOVE_OTHERS, {FIRST: [1], SECOND: ["-"]}, (), (1,), ())
    if entry.replaceable and not entry.single:
        yield _case(entry, Action.REPLACE_OTHERS, {FIRST: [1], SECOND: ["-", 2]}, (), (1,), (2,))
    if entry.shared:
        yield _case(entry, Action.ADD_BOTH, {FIRST: [1], SECOND: [2]}, (), (1,), (1, 2))
    else:
        yield _case(entry, Action.CONFLICT, {FIRST: [1], SECOND: [2]}, (), (1,), (1,))


def _case(
    entry: Entry,
    action: Action,
    asks: dict[str, list[int | str]],
    *states: tuple[int, ...],
) -> Case:
    who = "+".join(plugin[:2] for plugin in asks)
    name = f"{entry.name}.{action.name.lower()}.{who}"
    container = container_named(name)
    for number in states[0]:
        assert entry.set_initial is not None
        entry.set_initial(container, number)
    replies = {}
    for plugin, wishes in asks.items():
        replies[plugin] = api.CreateContainerResponse()
        for wish in wishes:
            if isinstance(wish, int):
                entry.adjust(replies[plugin].adjust, wish)
            else:
                entry.remove(replies[plugin].adjust)
    before, between, after = (entry.state(*state) for state in states)
    return Case(name, entry, action, container, replies, (before, between, after))


def container_named(name: str) -> api.Container:
    """A container without values for the fields of the cases."""
    container = api.Container(id=f"{name}-id", name=name, pod_sandbox_id=POD.id)
    # Upstream's adaptation panics if these maps are empty and a plugin adds an entry.
    container.linux.sysctl["kernel.base"] = "0"
    container.linux.net_devices["lo"].name = "lo"
    return container


def update_cases(version: NriVersion) -> tuple[UpdateCase, ...]:
    """Every resource, updated in replies to each kind of request, and unsolicited."""
    return tuple(
        case
        for entry in ENTRIES
        if entry.update is not None and has(version, entry)
        for case in _updates_of(entry)
    )


def _updates_of(entry: Entry) -> Iterator[UpdateCase]:
    for trigger in (UpdateTrigger.CREATE, UpdateTrigger.UPDATE, UpdateTrigger.STOP):
        yield _update(entry, trigger, (FIRST,), other=True)
        yield _update(entry, trigger, (SECOND,), other=True)
    yield _update(entry, UpdateTrigger.UPDATE, (FIRST,))
    yield _update(entry, UpdateTrigger.UPDATE, (SECOND,))
    yield _update(entry, UpdateTrigger.UPDATE, (FIRST, SECOND))
    yield _update(entry, UpdateTrigger.UPDATE, (FIRST, SECOND), other=True)
    yield _update(entry, UpdateTrigger.UNSOLICITED, (FIRST,))


_REPLIES: dict[UpdateTrigger, type[Reply]] = {
    UpdateTrigger.CREATE: api.CreateContainerResponse,
    UpdateTrigger.UPDATE: api.UpdateContainerResponse,
    UpdateTrigger.STOP: api.StopContainerResponse,
}


def _update(
    entry: Entry, trigger: UpdateTrigger, plugins: tuple[str, ...], *, other: bool = False
) -> UpdateCase:
    who = "+".join(plugin[:2] for plugin in plugins)
    name = f"{entry.name}.{'other' if other else 'own'}-in-{trigger}.{who}"
    target = container_named(name)
    assert entry.set_initial is not None and entry.update is not None
    entry.set_initial(target, 0)
    subject = container_named(f"{name}.subject") if other else None
    updates: dict[str, api.ContainerUpdate] = {}
    for number, plugin in enumerate(plugins, 1):
        updates[plugin] = api.ContainerUpdate(container_id=target.id)
        entry.update(updates[plugin].linux.resources, number)
    case = UpdateCase(
        name, entry, trigger, plugins, target, subject, (entry.state(0), entry.state(1))
    )
    if trigger is UpdateTrigger.UNSOLICITED:
        asked = api.UpdateContainersRequest(update=updates.values())
        return UpdateCase(**{**vars(case), "asked": asked})
    case.replies.update(
        {plugin: _REPLIES[trigger](update=[update]) for plugin, update in updates.items()}
    )
    return case
