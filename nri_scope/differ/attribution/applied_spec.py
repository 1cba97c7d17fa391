# SPDX-License-Identifier: Apache-2.0
"""Judge changes by the OCI spec that the runtime reports as actually used.

That spec contains the whole input of the OCI runtime (``ociVersion``, ``root``, capabilities, …),
most of which NRI never shows. It contains neither ``/cdiDevices`` nor ``/nri``, which are paths of
nri-scope. It also contains updates: in containerd all fields that the CRI supports
(updateOCIResource), in CRI-O processor settings and memory limits, and in newer versions unified
settings on cgroup v2 (UpdateContainerLinuxResources, read at 1.37). Other updates are applied to
the container, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nri_scope.oci.resources import UNRESOLVED_CLASS
from nri_scope.specs import (
    ABSENT,
    Absent,
    Change,
    Json,
    Spec,
    apply,
    changes,
    labels_at,
    same,
    split,
    value_at,
    values_of_key,
)

from .attributed_changes import Applied, ChangeStep
from .findings import standing

NO_SWAP_LIMIT = "the swap limit follows the memory limit, on nodes that can limit swap"
CLASS_UNKNOWN = "only the node's configuration defines the class"
NOT_TOLD = "CRI-O does not write updates of this field to its spec"
_NOTES = NO_SWAP_LIMIT, CLASS_UNKNOWN, NOT_TOLD

_MEMORY = "/linux/resources/memory"
_BLOCK_IO = "/linux/resources/blockIO"
_OWN_PATHS = "/cdiDevices", "/nri"
_NOT_IN_CRI_O_SPEC = "/linux/resources/hugepageLimits/", "/linux/resources/unified/"


class _Finding(NamedTuple):
    applied: Applied | None
    actual: Json = None
    note: str = ""


_YES = _Finding(Applied.YES)
_NO = _Finding(Applied.NO)


def judge(step: ChangeStep, real: Spec, known: Spec | None = None) -> ChangeStep:
    """Return `step` with the outcome by the runtime's own spec: ``applied``, ``actual``, ``note``.

    Only valid for a step that no later step overrides, see `judge_all`. A change is applied if the
    spec has its value, possibly with parts that the runtime filled in (a device's mode and owners);
    a removal if the spec has no value; a move if the same common members precede the member.

    ``applied`` is None for values that the spec cannot show: CDI devices, the contents of a block
    I/O class, a swap limit on nodes without swap, some of CRI-O's updates; and for moves without
    `known`, the spec with all changes by plugins.
    """
    if step.change.kind == "moved":
        finding = _of_move(step.change.path, real, known)
    else:
        finding = _of_change(step.change, real)
    note = step.note if step.note not in _NOTES else ""
    return replace(step, applied=finding.applied, actual=finding.actual, note=note or finding.note)


def judge_all(
    steps: Sequence[ChangeStep], real: Spec, known: Spec | None = None
) -> dict[int, ChangeStep]:
    """Return the steps that can be judged, with their outcome, by position in `steps`.

    Steps whose value, part or parent a later step changed are omitted.
    """
    judged = {number: judge(steps[number], real, known) for number in standing(steps)}
    later: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        path = steps[number].change.path
        # A move counts unless a later step moved, removed or added the member.
        stands = path not in later and later.isdisjoint(_above(path))
        if stands and steps[number].change.kind == "moved":
            judged[number] = judge(steps[number], real, known)
        later.add(path)
    return judged


def _of_change(change: Change, real: Spec) -> _Finding:
    path, before, after, kind, _ = change
    if _is_own_path(path):
        return _Finding(None)
    if _is_class(change):
        return _of_class(change, real)
    actual = value_at(real, path)
    if kind == "removed":
        if isinstance(actual, Absent):
            return _YES
        return _NO if same(actual, before) else _Finding(Applied.DIFFERENTLY, actual)
    if any(_honours(path, after, each) for each in values_of_key(real, path)):
        return _YES
    if path.startswith(_NOT_IN_CRI_O_SPEC) and _is_of_cri_o(real):
        return _Finding(None, note=NOT_TOLD)
    if isinstance(actual, Absent):
        # Go omits empty fields, except members of a map.
        is_omitted = after in ({}, []) and not path.startswith("/linux/netDevices/")
        if is_omitted:
            return _YES
        return _Finding(None, note=NO_SWAP_LIMIT) if _is_no_swap(path, after, real) else _NO
    if kind == "changed" and same(actual, before):
        return _NO
    return _Finding(Applied.DIFFERENTLY, actual)


def _is_of_cri_o(real: Spec) -> bool:
    return value_at(real, "/annotations/io.kubernetes.cri-o.ContainerID") is not ABSENT


def _is_own_path(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in _OWN_PATHS)


def _is_no_swap(path: str, requested: Json, real: Spec) -> bool:
    return path == f"{_MEMORY}/swap" and same(value_at(real, f"{_MEMORY}/limit"), requested)


def _is_class(change: Change) -> bool:
    return change.path == f"{_BLOCK_IO}/{UNRESOLVED_CLASS}" or (
        change.path == _BLOCK_IO
        and any(
            isinstance(value, dict) and UNRESOLVED_CLASS in value
            for value in (change.before, change.after)
        )
    )


def _of_class(change: Change, real: Spec) -> _Finding:
    is_empty = value_at(real, _BLOCK_IO) in (ABSENT, None, {})
    if change.kind == "removed":
        return _YES if is_empty else _NO
    return _NO if is_empty else _Finding(None, note=CLASS_UNKNOWN)


def _honours(path: str, requested: Json, actual: Json) -> bool:
    """Return whether `actual` is as requested, ignoring zeros and fields left to the runtime."""
    if same(requested, actual):
        return True
    specs = (apply({}, [Change(path, None, each, "added")]) for each in (requested, actual))
    return all(_is_negligible(change) for change in changes(*specs))


def _is_negligible(change: Change) -> bool:
    if change.kind == "added":
        parts = change.path.split("/")
        is_left_open = parts[1:3] == ["linux", "devices"] and parts[-1] in (
            "fileMode",
            "uid",
            "gid",
        )
        return is_left_open or not change.after
    return change.kind == "removed" and not change.before


def _of_move(path: str, real: Spec, known: Spec | None) -> _Finding:
    if known is None:
        return _Finding(None)
    array = path.rpartition("/")[0]
    label = split(path)[-1]
    requested, actual = labels_at(known, array), labels_at(real, array)
    if label not in requested:
        return _Finding(None)
    if label not in actual:
        return _NO
    shared = {*requested} & {*actual}
    preceding = [{*labels[: labels.index(label)]} & shared for labels in (requested, actual)]
    return _YES if preceding[0] == preceding[1] else _NO


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
