# SPDX-License-Identifier: Apache-2.0
"""Merge replies as iSulad does, whose adaptation is its own (``src/daemon/nri/nri_result.cc``).

All plugins receive the original request. Facts come from tests of iSulad 2.1.6, built with NRI, and
from its source where a test showed nothing.
"""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused, RuntimeKilled

from ..changes import pointer, requested_fields
from ..versions import NriVersion
from .reply_context import Dropped, text_of
from .update_request import Stopping
from .updates import ReplyMerging, drop_evictions

_WITHOUT_ADJUST = (
    "this reply would kill iSulad 2.1: it aborts on a reply to CreateContainer without `adjust`, "
    "even an empty one"
)
UPDATE_CRASH = (
    "this would kill iSulad 2.1: it crashes on any update of a container that a plugin requests"
)
"""For updates in replies and unsolicited ones."""
UPDATE_EVENT_CRASH = (
    "iSulad 2.1 crashes on any UpdateContainerResources request of the CRI, with or without plugins"
)
_ENV = "iSulad fails a creation in which a plugin sets an environment variable"
_CPU = "iSulad fails a creation in which plugins adjust the CPU but do not set both cpus and mems"
REFUSALS = (_WITHOUT_ADJUST, UPDATE_CRASH, _ENV, _CPU)
"""Reasons why a creation fails."""
_IGNORED = "iSulad ignores it"
_NO_REMOVAL = "iSulad ignores removals, except of what an earlier plugin added"
_AFTER_HOOKS = "iSulad drops the hooks, the linux part and the rlimits of a reply with hooks"
_AFTER_REMOVAL = "iSulad drops the rest of a reply that only removes members of {}"
SWAPPED = "iSulad swaps the soft and the hard limit"


class IsuladCreation(ReplyMerging):
    """Merge of the replies to one CreateContainer; has the interface of `Creation`."""

    def __init__(
        self, request: api.CreateContainerRequest, *, version: NriVersion | None = None
    ) -> None:
        super().__init__(version, created=request.container.id)
        self.request = request
        """The request for every plugin."""
        self.adjustment = api.ContainerAdjustment()
        """The merged adjustment so far, as iSulad applies it."""
        self.applied: list[tuple[str, api.ContainerAdjustment]] = []
        """The part of each reply that was merged, with its plugin."""
        self._env_by = self._cpu_by = ""
        self._owners: dict[str, str] | None = None
        """Owners of fields. iSulad stores none before the first resource, so that two plugins can
        set one annotation until then."""

    def apply(self, reply: api.CreateContainerResponse, plugin: str) -> None:
        """Merge a reply of `plugin` (``NN-name``). Raises RuntimeKilled if iSulad would crash."""
        if not reply.HasField("adjust"):
            raise RuntimeKilled(_WITHOUT_ADJUST)
        if reply.update:
            raise RuntimeKilled(UPDATE_CRASH)
        drop_evictions(reply.evict, plugin, self.dropped)
        rest = api.ContainerAdjustment()
        rest.CopyFrom(reply.adjust)
        self.applied.append((plugin, api.ContainerAdjustment()))
        reason = self._merge(rest, plugin)
        self._drop(rest, plugin, reason)

    @property
    def failure(self) -> tuple[str, str]:
        """Why the creation fails after the chain, and the responsible plugin; "" if it does not."""
        if self._env_by:
            return _ENV, self._env_by
        cpu = self.adjustment.linux.resources.cpu
        if self._cpu_by and not (cpu.cpus and cpu.mems):
            return _CPU, self._cpu_by
        return "", ""

    def response(self) -> api.CreateContainerResponse:
        """Return a copy of the merged response."""
        return api.CreateContainerResponse(adjust=self.adjustment)

    # -- one reply, in iSulad's order ---------------------------------------------------------

    def _merge(self, rest: api.ContainerAdjustment, plugin: str) -> str:
        """Move the merged fields out of `rest`; return why the remaining ones are dropped."""
        try:
            self._annotations(rest, plugin)
            self._list(rest, self.adjustment, "mounts", "/mounts", plugin)
            if any(not one.key.startswith("-") for one in rest.env):
                self._env_by = self._env_by or plugin
                return _ENV
            if rest.env:
                return _AFTER_REMOVAL.format("env")
            if rest.HasField("hooks"):
                return _AFTER_HOOKS
            if rest.HasField("linux"):
                linux = self.adjustment.linux
                self._list(rest.linux, linux, "devices", "/linux/devices", plugin)
                self._resources(rest.linux.resources, plugin)
            self._rlimits(rest, plugin)
        except AdjustmentRefused as refused:
            return f"iSulad drops the rest of the reply: {refused.problem}"
        return _IGNORED

    def _annotations(self, rest: api.ContainerAdjustment, plugin: str) -> None:
        for key, value in list(rest.annotations.items()):
            if not key.startswith("-"):
                self._claim(f"annotation {key}", plugin)
                self.adjustment.annotations[key] = value
                self.applied[-1][1].annotations[key] = value
                del rest.annotations[key]
        for key in rest.annotations:
            self._dropped(plugin, pointer("/annotations", key), key, _NO_REMOVAL)
        rest.annotations.clear()

    def _list(
        self,
        rest: api.ContainerAdjustment | api.LinuxContainerAdjustment,
        into: api.ContainerAdjustment | api.LinuxContainerAdjustment,
        field: str,
        path: str,
        plugin: str,
    ) -> None:
        """Merge mounts or devices. A removal cancels an earlier plugin's member."""
        source, merged = getattr(rest, field), getattr(into, field)
        gone = {_key(one)[1:] for one in source if _key(one).startswith("-")}
        added = [one for one in source if not _key(one).startswith("-")]
        kept = [one for one in merged if _key(one) not in gone]
        for key in sorted(gone - {_key(one) for one in merged}):
            self._dropped(plugin, pointer(path, key), f"-{key}", _NO_REMOVAL)
        for one in merged:
            if _key(one) in gone and self._owners is not None:
                self._owners.pop(f"{field} {_key(one)}", None)
        for one in added:
            self._claim(f"{field} {_key(one)}", plugin)
        if gone and not kept and not added:
            del merged[:], source[:]
            raise AdjustmentRefused(f"it only removes members of {field}")
        own = self.applied[-1][1]
        getattr(own if field == "mounts" else own.linux, field).extend(added)
        copies = [type(one).FromString(one.SerializeToString()) for one in (*kept, *added)]
        del merged[:], source[:]
        merged.extend(copies)

    def _resources(self, rest: api.LinuxResources, plugin: str) -> None:
        if rest.HasField("cpu"):
            self._cpu_by = plugin
        for group in ("memory", "cpu"):
            source = getattr(rest, group)
            for descriptor, value in source.ListFields():
                self._owners = {} if self._owners is None else self._owners
                self._claim(f"{group} {descriptor.name}", plugin)
                for adjustment in (self.adjustment, self.applied[-1][1]):
                    into = getattr(adjustment.linux.resources, group)
                    if isinstance(value, str):
                        setattr(into, descriptor.name, value)
                    else:
                        getattr(into, descriptor.name).CopyFrom(value)
                source.ClearField(descriptor.name)

    def _rlimits(self, rest: api.ContainerAdjustment, plugin: str) -> None:
        for one in rest.rlimits:
            self._claim(f"rlimit {one.type}", plugin)
            if one.soft != one.hard:
                self._dropped(plugin, pointer("/process/rlimits", one.type), one, SWAPPED)
            for adjustment in (self.adjustment, self.applied[-1][1]):
                adjustment.rlimits.add(type=one.type, soft=one.hard, hard=one.soft)
        del rest.rlimits[:]

    def _claim(self, what: str, plugin: str) -> None:
        if self._owners is None:
            return
        other = self._owners.get(what)
        if other is not None:
            raise AdjustmentRefused(f"plugins {plugin} and {other} both tried to set {what}")
        self._owners[what] = plugin

    # -- dropped requests ---------------------------------------------------------------------

    def _drop(self, rest: api.ContainerAdjustment, plugin: str, reason: str) -> None:
        for path, value in requested_fields(rest):
            self._dropped(plugin, path, value, reason)

    def _dropped(self, plugin: str, path: str, value: object, reason: str) -> None:
        about = self.request.container.id
        self.dropped.append(Dropped(plugin, about, path, text_of(value), reason))


def _key(one: api.Mount | api.LinuxDevice) -> str:
    return one.destination if isinstance(one, api.Mount) else one.path


class IsuladStopping(Stopping):
    """Merge of the replies to one StopContainer."""

    def apply(self, reply: api.StopContainerResponse, plugin: str) -> None:
        """Raise RuntimeKilled for a reply with updates."""
        if reply.update:
            raise RuntimeKilled(UPDATE_CRASH)
        super().apply(reply, plugin)
