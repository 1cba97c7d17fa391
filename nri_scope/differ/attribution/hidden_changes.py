# SPDX-License-Identifier: Apache-2.0
"""Adjustments that runtimes hide from later plugins of the chain, so no snapshot contains them.

Runtimes send later plugins the container as adjusted so far, but without CDI devices, RDT and
memory policies, and with members that an earlier plugin removed from a map (containerd/nri,
pkg/adaptation, up to 0.12.5; confirmed with that code by tests/interop/test_attribution.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import commonpath

from google.protobuf.field_mask_pb2 import FieldMask

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import requested_fields
from nri_scope.nri.merging.fields import HIDDEN_FIELDS
from nri_scope.specs import ABSENT, Change, Json, Spec

from .attributed_changes import ChangeStep

_MASK = FieldMask(paths=HIDDEN_FIELDS)
PATHS = tuple(commonpath([field.path for field in group]) for group in HIDDEN_FIELDS.values())
"""Paths whose changes are hidden from later plugins."""
MAPS = ("/annotations", "/linux/sysctl", "/linux/netDevices")
"""Paths whose removals are hidden from later plugins."""

BY_CHANCE = "the runtime applies this removal and another plugin's value in random order"


def newest_steps(steps: Iterable[ChangeStep]) -> dict[str, ChangeStep]:
    """Return the newest step at each path."""
    return {step.change.path: step for step in steps}


def undone_removal(
    change: Change, base: Spec, newest: Mapping[str, ChangeStep]
) -> ChangeStep | None:
    """Return the removal that `change` undoes, by restoring the container's first value.

    None if the change is not such a restoration. `newest`: see `newest_steps`.
    """
    step = newest.get(change.path)
    if change.kind != "added" or step is None or step.change.kind != "removed":
        return None
    old = specs.value_at(base, change.path)
    return step if old is not ABSENT and specs.same(old, change.after) else None


def is_hidden(change: Change) -> bool:
    """Return whether runtimes hide this change from every connection of the chain."""
    if change.path.startswith(PATHS):
        return True
    return change.kind == "removed" and change.path.startswith(MAPS)


def maps_of(adjust: api.ContainerAdjustment) -> tuple[tuple[str, Iterable[str]], ...]:
    """Return the keys that an adjustment sets or removes, for each of `MAPS`."""
    keys = adjust.annotations, adjust.linux.sysctl, adjust.linux.net_devices
    return tuple(zip(MAPS, keys, strict=True))


class HiddenChanges:
    """Collector of hidden changes, which applies them to snapshots."""

    def __init__(self, base: Spec) -> None:
        """Start without changes. ``base``: the container before the chain."""
        self._base = base
        self._adjustments: list[api.ContainerAdjustment] = []
        self._removed: dict[str, Json] = {}
        """Removed values, by path."""

    def add(self, adjustment: api.ContainerAdjustment, shown: Spec) -> list[str]:
        """Add the next plugin's adjustment, with the container as shown after it.

        Return the paths that it removes after another plugin set them: runtimes apply both in the
        random order of a Go map.
        """
        hidden = api.ContainerAdjustment()
        _MASK.MergeMessage(adjustment, hidden)
        # A part with nothing set, such as an empty ``rdt``, changes nothing.
        if next(requested_fields(hidden), None) is not None:
            self._adjustments.append(hidden)
        return [
            place
            for path, keys in maps_of(adjustment)
            for place in self._take_removals(path, keys, shown)
        ]

    def _take_removals(self, path: str, keys: Iterable[str], shown: Spec) -> Iterator[str]:
        known = frozenset(keys)
        for key in sorted(known):
            name = key.removeprefix("-")
            place = specs.pointer(path, name)
            if name in known:
                # The plugin sets the value, or replaces it by a removal and a new value.
                self._removed.pop(place, None)
                continue
            value, first = specs.value_at(shown, place), specs.value_at(self._base, place)
            if value is ABSENT:
                continue
            if first is not ABSENT and specs.same(value, first):
                self._removed[place] = value
            else:
                yield place

    def apply_to(self, spec: Spec) -> Spec:
        """Return the spec with all hidden changes."""
        for adjustment in self._adjustments:
            spec = oci.adjust(spec, adjustment)
        gone: list[Change] = []
        for path, value in self._removed.items():
            now = specs.value_at(spec, path)
            # Unless a later plugin set another value.
            if now is not ABSENT and specs.same(now, value):
                gone.append(Change(path, value, None, "removed"))
        return specs.apply(spec, gone) if gone else spec


_MAY_BE_LEFT_OUT: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), ("hooks", "cdiDevices")),
    (("process",), ("rlimits", "ioPriority", "scheduler")),
    (("linux",), ("intelRdt", "memoryPolicy", "netDevices", "seccomp", "sysctl")),
    (("linux", "resources"), ("blockIO", "pids", "devices", "hugepageLimits", "unified")),
    ((), ("nri",)),
)
"""Fields, after the object that contains them, that some runtimes omit from events of an existing
container, or from CreateContainer. Their absence is no evidence (containerd before 2.3 omits
rlimits, every runtime CDI devices)."""
_LEFT_OUT_PATHS = tuple((*above, name) for above, names in _MAY_BE_LEFT_OUT for name in names)


def may_be_left_out(path: str) -> bool:
    """Return whether some runtime omits `path` from events, even if it has a value."""
    parts = path.split("/")[1:]
    return any(tuple(parts[: len(left_out)]) == left_out for left_out in _LEFT_OUT_PATHS)


def with_left_out(shown: Spec, known: Spec) -> tuple[Spec, Sequence[str]]:
    """Return `shown` with the known values that runtimes may leave out, and their paths."""
    spec = shown
    left_out: list[str] = []
    for above, names in _MAY_BE_LEFT_OUT:
        old = _object_at(known, above)
        if not old:
            continue
        new = _object_at(spec, above)
        missing = [name for name in names if name in old and (new is None or name not in new)]
        if missing:
            spec = dict(shown) if spec is shown else spec
            _set_missing(spec, above, {name: old[name] for name in missing})
            left_out += ("/".join(("", *above, name)) for name in missing)
    return spec, left_out


def _object_at(spec: Spec, path: tuple[str, ...]) -> Spec | None:
    for key in path:
        below = spec.get(key)
        if not isinstance(below, dict):
            return None
        spec = below
    return spec


def _set_missing(spec: Spec, path: tuple[str, ...], values: Spec) -> None:
    """Add `values` to the object at `path` in a copy of a spec, unless it is no object."""
    for key in path:
        below = spec.get(key)
        if below is not None and not isinstance(below, dict):
            return
        spec[key] = spec = dict(below or {})
    spec.update(values)
