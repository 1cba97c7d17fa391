# SPDX-License-Identifier: Apache-2.0
"""Verdicts on changes, by the OCI spec that the runtime reports as actually used.

That spec has everything that the OCI runtime was given (``ociVersion``, ``root``, capabilities, …),
most of which NRI never shows. It has neither ``/cdiDevices`` nor ``/nri``, which nri-scope adds. It
also shows updates: in containerd all that the CRI supports (updateOCIResource), in CRI-O processor
settings and memory limits, and in newer versions unified settings on cgroup v2
(UpdateContainerLinuxResources, read at 1.37). The container gets all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nri_scope.oci import (
    ABSENT,
    Absent,
    Change,
    Json,
    Spec,
    apply,
    changes,
    labels_at,
    namesakes,
    same,
    split,
    value_at,
)
from nri_scope.oci.resources import UNRESOLVED_CLASS

from .attributed_changes import Applied, ChangeStep
from .findings import standing

NO_SWAP_LIMIT = "the swap limit follows the memory limit, on nodes that can limit swap"
CLASS_UNKNOWN = "only the node's configuration tells what the class means"
NOT_TOLD = "CRI-O does not put into its spec what an update does there"
_NOTES = NO_SWAP_LIMIT, CLASS_UNKNOWN, NOT_TOLD

_MEMORY = "/linux/resources/memory"
_BLOCK_IO = "/linux/resources/blockIO"
_OURS = "/cdiDevices", "/nri"
_UPDATED_UNTOLD = "/linux/resources/hugepageLimits/", "/linux/resources/unified/"


class _Finding(NamedTuple):
    applied: Applied | None
    actual: Json = None
    note: str = ""


_YES = _Finding(Applied.YES)
_NO = _Finding(Applied.NO)


def judge(step: ChangeStep, real: Spec, known: Spec | None = None) -> ChangeStep:
    """Return `step` with the verdict of the runtime's own spec: ``applied``, ``actual``, ``note``.

    Only meaningful for a step that no later one undid, see `judge_all`. A change is applied if the
    spec has its value, possibly with parts that the runtime filled in (a device's mode and owners);
    a removal if the spec has no value; a move if the member is still between the same neighbours.

    ``applied`` is None for what the spec cannot show: CDI devices, the meaning of a block I/O
    class, a swap limit on nodes without swap, some of CRI-O's updates; and for a move if `known`,
    the spec with all changes by plugins, is missing.
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
    """Return the steps of one container that can be judged, with verdicts, by position in `steps`.

    Leaves out steps whose value, or a part or parent of it, was changed by a later step.
    """
    judged = {number: judge(steps[number], real, known) for number in standing(steps)}
    later: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        path = steps[number].change.path
        # Neither moved again nor removed nor added again since.
        stands = path not in later and later.isdisjoint(_above(path))
        if stands and steps[number].change.kind == "moved":
            judged[number] = judge(steps[number], real, known)
        later.add(path)
    return judged


def _of_change(change: Change, real: Spec) -> _Finding:
    path, before, after, kind, _ = change
    if _is_ours(path):
        return _Finding(None)
    if _is_class(change):
        return _of_class(change, real)
    actual = value_at(real, path)
    if kind == "removed":
        if isinstance(actual, Absent):
            return _YES
        return _NO if same(actual, before) else _Finding(Applied.DIFFERENTLY, actual)
    if any(_honours(path, after, each) for each in namesakes(real, path)):
        return _YES
    if path.startswith(_UPDATED_UNTOLD) and _is_of_cri_o(real):
        return _Finding(None, note=NOT_TOLD)
    if isinstance(actual, Absent):
        # Go omits empty fields, except members of a map.
        left_out = after in ({}, []) and not path.startswith("/linux/netDevices/")
        if left_out:
            return _YES
        return _Finding(None, note=NO_SWAP_LIMIT) if _is_no_swap(path, after, real) else _NO
    if kind == "changed" and same(actual, before):
        return _NO
    return _Finding(Applied.DIFFERENTLY, actual)


def _is_of_cri_o(real: Spec) -> bool:
    return value_at(real, "/annotations/io.kubernetes.cri-o.ContainerID") is not ABSENT


def _is_ours(path: str) -> bool:
    return any(path == ours or path.startswith(f"{ours}/") for ours in _OURS)


def _is_no_swap(path: str, wanted: Json, real: Spec) -> bool:
    return path == f"{_MEMORY}/swap" and same(value_at(real, f"{_MEMORY}/limit"), wanted)


def _is_class(change: Change) -> bool:
    return change.path == f"{_BLOCK_IO}/{UNRESOLVED_CLASS}" or (
        change.path == _BLOCK_IO
        and any(
            isinstance(value, dict) and UNRESOLVED_CLASS in value
            for value in (change.before, change.after)
        )
    )


def _of_class(change: Change, real: Spec) -> _Finding:
    nothing = value_at(real, _BLOCK_IO) in (ABSENT, None, {})
    if change.kind == "removed":
        return _YES if nothing else _NO
    return _NO if nothing else _Finding(None, note=CLASS_UNKNOWN)


def _honours(path: str, wanted: Json, actual: Json) -> bool:
    """Return whether `actual` is as requested, ignoring zeros and values left to the runtime."""
    if same(wanted, actual):
        return True
    there = (apply({}, [Change(path, None, each, "added")]) for each in (wanted, actual))
    return all(_means_nothing(change) for change in changes(*there))


def _means_nothing(change: Change) -> bool:
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
    wanted, actual = labels_at(known, array), labels_at(real, array)
    if label not in wanted:
        return _Finding(None)
    if label not in actual:
        return _NO
    common = {*wanted} & {*actual}
    ahead = [{*labels[: labels.index(label)]} & common for labels in (wanted, actual)]
    return _YES if ahead[0] == ahead[1] else _NO


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
