# SPDX-License-Identifier: Apache-2.0
"""Merge replies as iSulad does, whose adaptation is its own (``src/daemon/nri/nri_result.cc``).

All plugins receive the original request. Each reply is merged in a fixed order of fields, and the
first one that fails drops the rest of that reply, its updates included, without an error. Facts
come from tests of iSulad 2.1.6, built with NRI, and from its source where a test showed nothing.
`nri_scope.oci.isulad_spec` applies the merged reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from copy import deepcopy
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused, RuntimeKilled

from ..changes import pointer, requested_fields
from ..versions import NriVersion
from .field_order import set_field
from .owners import Dropped, text_of
from .reply_merging import ReplyMerging, StopMerging, drop_evictions

M = TypeVar("M", bound=Message)

WITHOUT_ADJUST = (
    "this reply would kill iSulad 2.1: it aborts on a reply to CreateContainer without `adjust`, "
    "even an empty one"
)
UPDATE_CRASH = (
    "this would kill iSulad 2.1: it crashes on an update of a container that a plugin requests"
)
"""For updates in replies to CreateContainer and StopContainer."""
UNSOLICITED_CRASH = (
    "this would kill iSulad 2.1: it crashes on any UpdateContainers, also with an eviction only"
)
UPDATE_EVENT_CRASH = (
    "iSulad 2.1 crashes on any UpdateContainerResources request of the CRI, with or without plugins"
)
SYNCHRONIZE_IGNORED = "iSulad ignores updates in replies to Synchronize"
_IGNORED = "iSulad ignores it"
_KEPT = "iSulad restores its own annotations and those of the CRI request when a container starts"
_NO_REMOVAL = "iSulad ignores a removal of anything but an earlier plugin's mount or device"
_REST = "iSulad drops the rest of the reply"
ENV = "iSulad fails a creation in which a plugin sets an environment variable"
_AFTER_HOOKS = "it never applies hooks"
_AFTER_REMOVAL = "it only removes members of {}"
_NO_ID = "iSulad ignores an update without a container id, and those after it"

_LISTS = {
    "mounts": ("/mounts", "destination"),
    "env": ("/process/env", "key"),
    "devices": ("/linux/devices", "path"),
}
"""Path and key of each list whose members a plugin can remove."""

OWN_ANNOTATIONS = frozenset(
    {
        *("cgroup.dir", "host.network.mode", "native.umask", "rootfs.mount"),
        *("log.console.driver", "log.console.file", "log.console.filerotate"),
        *("log.console.filesize", "io.kubernetes.cri.container-attempt"),
        *("io.kubernetes.cri.container-name", "io.kubernetes.cri.container-type"),
        *("io.kubernetes.cri.image-name", "io.kubernetes.cri.sandbox-id"),
        *("io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace"),
    }
)
"""Annotations that iSulad gives each container of a pod, as its later events show."""


class IsuladCreation(ReplyMerging):
    """Merge of the replies to one CreateContainer; has the interface of `Creation`."""

    def __init__(
        self, request: api.CreateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        super().__init__(version, created=request.container.id)
        self.request = request
        """The request for every plugin."""
        self.adjustment = api.ContainerAdjustment()
        """The merged adjustment so far, without what iSulad ignores; rlimits are as it sets them,
        with their limits swapped. Hooks without a member are an empty object in the spec.
        """
        self.applied: list[tuple[str, api.ContainerAdjustment]] = []
        """For each reply the plugin, and what it changes in the adjusted container: a mount with
        ``-`` removes the last one with that destination, and a device removes what an earlier
        plugin added, or restores the container's own.
        """
        self._own_devices = {item.path: item for item in reversed(request.container.linux.devices)}
        self.empty_cpuset_by = ""
        """The plugin that set ``cpus`` or ``mems`` to "", also by leaving it out."""
        self._setters: dict[str, str] = {}
        """The plugin that last set each path."""
        self._owners: dict[str, str] | None = None
        """Owners of fields. iSulad stores none before the first resource, so that two plugins can
        set one annotation until then."""

    def apply(self, reply: api.CreateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises RuntimeKilled if iSulad would crash."""
        if not reply.HasField("adjust"):
            raise RuntimeKilled(WITHOUT_ADJUST)
        asked, own = api.ContainerAdjustment(), api.ContainerAdjustment()
        asked.CopyFrom(reply.adjust)
        self.applied.append((plugin, own))
        cut = ""
        try:
            self._merge(asked, own, plugin)
        except AdjustmentRefused as refused:
            cut = f"{_REST}: {refused.problem}"
        self._setters.update((path, plugin) for path, _ in requested_fields(own))
        for path, value in requested_fields(asked):
            self._dropped(plugin, path, value, cut or _IGNORED)
        drop_evictions(reply.evict, plugin, self.dropped)
        _check_updates(reply.update, plugin, self.dropped, cut)

    def setter(self, paths: Iterable[str]) -> str:
        """Return the plugin that last set one of these paths; "" if none did."""
        return next((self._setters[path] for path in paths if path in self._setters), "")

    # -- one reply, in iSulad's order ---------------------------------------------------------

    def _merge(
        self, asked: api.ContainerAdjustment, own: api.ContainerAdjustment, plugin: str
    ) -> None:
        """Move merged fields from `asked` to `own`. Raises AdjustmentRefused to drop the others."""
        self._annotations(asked, own, plugin)
        self._list(asked, own, "mounts", plugin)
        self._list(asked, own, "env", plugin)
        if asked.HasField("hooks"):
            self.adjustment.hooks.SetInParent()
            own.hooks.SetInParent()
            raise AdjustmentRefused(_AFTER_HOOKS)
        if asked.HasField("linux"):
            self._list(asked, own, "devices", plugin)
            self._resources(asked.linux.resources, own.linux.resources, plugin)
            if asked.linux.cgroups_path:
                self._claim("cgroups path", plugin, begins=True)
        self._rlimits(asked, own, plugin)

    def _annotations(
        self, asked: api.ContainerAdjustment, own: api.ContainerAdjustment, plugin: str
    ) -> None:
        requested = dict(asked.annotations)
        # The order in iSulad is that of a hash table.
        for key in sorted(requested):
            if _is_removal(key):
                del asked.annotations[key]
                if key[1:] in requested:
                    continue
                reason = _KEPT if self._is_kept(key[1:]) else _NO_REMOVAL
                self._dropped(plugin, pointer("/annotations", key), key, reason)
                continue
            if f"-{key}" in requested:
                self._release(f"annotation {key}")
            self._claim(f"annotation {key}", plugin)
            del asked.annotations[key]
            if self._is_kept(key):
                self._dropped(plugin, pointer("/annotations", key), requested[key], _KEPT)
                continue
            for adjustment in (self.adjustment, own):
                adjustment.annotations[key] = requested[key]

    def _is_kept(self, key: str) -> bool:
        return key in OWN_ANNOTATIONS or key in self.request.container.annotations

    def _list(
        self, asked: api.ContainerAdjustment, own: api.ContainerAdjustment, field: str, plugin: str
    ) -> None:
        """Merge mounts, variables or devices. A removal cancels an earlier plugin's members."""
        base, name = _LISTS[field]
        source, merged, mine = (
            getattr(adjustment.linux if field == "devices" else adjustment, field)
            for adjustment in (asked, self.adjustment, own)
        )
        if not source:
            return
        gone = {key[1:] for item in source if _is_removal(key := getattr(item, name))}
        added = [deepcopy(item) for item in source if not _is_removal(getattr(item, name))]
        del source[:]
        earlier = Counter(getattr(item, name) for item in merged)
        for key in sorted(gone):
            if key not in earlier:
                self._dropped(plugin, pointer(base, key), f"-{key}", _NO_REMOVAL)
                continue
            restored = self._own_devices.get(key) if field == "devices" else None
            for _ in range(earlier[key]):
                # The container's own device is back where an earlier plugin replaced it.
                mine.append(restored or type(merged[0])(**{name: f"-{key}"}))
            self._release(f"{field} {key}")
        remaining = [deepcopy(item) for item in merged if getattr(item, name) not in gone]
        del merged[:]
        merged.extend(remaining)
        if not merged and not added:
            # iSulad cannot allocate an empty list.
            raise AdjustmentRefused(_AFTER_REMOVAL.format(field))
        for item in self._claimed(source, added, field, name, plugin):
            merged.append(item)
            mine.append(item)
            if field == "env":
                self._dropped(plugin, pointer(base, item.key), item.value, ENV)

    def _resources(self, asked: api.LinuxResources, own: api.LinuxResources, plugin: str) -> None:
        for group in ("memory", "cpu"):
            source: api.LinuxMemory | api.LinuxCPU = getattr(asked, group)
            for descriptor, value in source.ListFields():
                name = descriptor.name
                # Both fields have one owner, and so exclude each other.
                key = "realtime_period" if name == "realtime_runtime" else name
                if isinstance(value, str):
                    continue
                self._claim(f"{group} {key}", plugin, begins=True)
                if name != "use_hierarchy":
                    self._copy(group, name, value, own)
                    source.ClearField(name)  # type: ignore[arg-type]
        if asked.HasField("cpu"):
            for name in ("cpus", "mems"):
                # iSulad also gets "" for a set that the reply leaves out.
                try:
                    self._claim(f"cpu {name}", plugin, begins=True)
                except AdjustmentRefused as refused:
                    detail = "iSulad takes one that is left out as set, too"
                    raise AdjustmentRefused(f"{refused.problem}; {detail}") from None
                if value := getattr(asked.cpu, name):
                    self._copy("cpu", name, value, own)
                    asked.cpu.ClearField(name)  # type: ignore[arg-type]
                else:
                    self.empty_cpuset_by = plugin
        for limit in asked.hugepage_limits:
            self._claim(f"hugepage limit {limit.page_size}", plugin)
        for key in sorted(asked.unified):
            self._claim(f"unified {key}", plugin)
        for name in ("blockio_class", "rdt_class"):
            if asked.HasField(name):  # type: ignore[arg-type]
                self._claim(name, plugin, begins=True)

    def _copy(self, group: str, name: str, value: object, own: api.LinuxResources) -> None:
        both = self.adjustment.linux.resources, own
        set_field(name, value, *(getattr(resources, group) for resources in both))

    def _rlimits(
        self, asked: api.ContainerAdjustment, own: api.ContainerAdjustment, plugin: str
    ) -> None:
        limits = [deepcopy(limit) for limit in asked.rlimits]
        del asked.rlimits[:]
        for limit in self._claimed(asked.rlimits, limits, "rlimit", "type", plugin):
            for adjustment in (self.adjustment, own):
                adjustment.rlimits.add(type=limit.type, soft=limit.hard, hard=limit.soft)

    # -- owners -------------------------------------------------------------------------------

    def _claim(self, name: str, plugin: str, *, begins: bool = False) -> None:
        """Claim a field. Raises AdjustmentRefused if it has an owner.

        `begins`: whether the field makes iSulad store owners from now on.
        """
        if self._owners is None:
            if not begins:
                return
            self._owners = {}
        owner = self._owners.get(name)
        if owner is not None:
            raise AdjustmentRefused(f"plugins {plugin} and {owner} both tried to set {name}")
        self._owners[name] = plugin

    def _claimed(
        self, asked: MutableSequence[M], members: Sequence[M], what: str, name: str, plugin: str
    ) -> Iterator[M]:
        """Claim `members` one by one; put those from the first refused one on into `asked`."""
        for number, member in enumerate(members):
            try:
                self._claim(f"{what} {getattr(member, name)}", plugin)
            except AdjustmentRefused:
                asked.extend(members[number:])
                raise
            yield member

    def _release(self, what: str) -> None:
        if self._owners is not None:
            self._owners.pop(what, None)

    def _dropped(self, plugin: str, path: str, value: object, reason: str) -> None:
        about = self.request.container.id
        self.dropped.append(Dropped(plugin, about, path, text_of(value), reason))


class IsuladStopping(StopMerging):
    """Merge of the replies to one StopContainer."""

    def apply(self, reply: api.StopContainerResponse, plugin: str) -> None:
        """Raise RuntimeKilled for a reply with updates."""
        _check_updates(reply.update, plugin, self.dropped)


def _check_updates(
    updates: Sequence[api.ContainerUpdate], plugin: str, dropped: list[Dropped], cut: str = ""
) -> None:
    """Drop the updates in a reply. Raises RuntimeKilled if iSulad reaches one.

    `cut`: why it drops the rest of the reply, and so never looks at them; "" if it does not.
    """
    if not updates:
        return
    if not cut and updates[0].container_id:
        raise RuntimeKilled(UPDATE_CRASH)
    for update in updates:
        value = text_of(update.linux.resources)
        dropped.append(
            Dropped(plugin, update.container_id, "/linux/resources", value, cut or _NO_ID)
        )


def _is_removal(key: str) -> bool:
    # A dash alone is a key.
    return key.startswith("-") and len(key) > 1
