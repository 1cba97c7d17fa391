# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings: their containers, and the resulting spec of each.

Values that a runtime generates, such as ids, differ between any two containers and do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_scope.events import Container, Pod
from nri_scope.oci import sort_mounts
from nri_scope.recording.reader import Recording
from nri_scope.specs import (
    ABSENT,
    Absent,
    Change,
    Json,
    Spec,
    differences,
    labels_at,
    split,
    value_at,
)

from .attribution.attributed_changes import ChangeStep, Evidence
from .attribution.final_spec import FinalOwners, final_spec
from .attribution.history import History
from .attribution.owner import RUNTIME, UNKNOWN, Owner
from .recording_differ import histories, history_of


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """The value of a path in one of the recordings, and its origin."""

    present: bool
    """Whether the path has a value."""
    owner: Owner
    """Owner of the value or of its removal; the owner of the first state if nothing changed it. For
    a move, the owner of the member's place, which need not be the member's owner."""
    evidence: tuple[Evidence, ...]
    step: ChangeStep | None
    """The newest step at the path, a parent or a part of it; None for the first state."""
    is_sorted: bool = False
    """Whether the runtime moved the member because it sorted the array."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A path with different values."""

    change: Change
    """The change from `a` to `b`. Generated values are replaced by their kind, see `Generated`."""
    a: ComparedValue
    b: ComparedValue


@dataclass(frozen=True, slots=True)
class Named:
    """A container, with its name in the comparison."""

    name: str
    """``ns/pod/container``; a second container of that name has ``#2`` appended."""
    history: History


@dataclass(frozen=True, slots=True)
class Pair:
    """A container of both recordings, with different outcomes."""

    name: str
    a: History
    b: History
    differences: tuple[Difference, ...]
    """Differing paths; () if the creation failed in one recording, or for different reasons: see
    ``failure`` of `a` and `b`."""
    real: bool
    """Whether the specs are from the CRI, as the runtimes actually used them, and not from NRI."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two recordings."""

    only_a: tuple[Named, ...]
    only_b: tuple[Named, ...]
    differ: tuple[Pair, ...]
    same: tuple[str, ...]
    """Names of the containers with the same outcome."""
    of_pair: bool = False
    """Whether two containers were compared, not two recordings."""

    @property
    def differs(self) -> bool:
        """Whether the recordings differ."""
        return bool(self.only_a or self.only_b or self.differ)


def compare_recordings(a: Recording, b: Recording) -> Comparison:
    """Compare two recordings. Raises RecordingError."""
    of_a, of_b = histories(a), histories(b)
    return compare(of_a, of_b, pods_a=_pods(a, of_a), pods_b=_pods(b, of_b))


def compare_containers(a: Recording, one: Container, b: Recording, other: Container) -> Comparison:
    """Compare two containers, of one recording or of two.

    Raises RecordingError, and UsageError if a recording does not show the spec of its container.
    """
    of_a, of_b = history_of(a, one), history_of(b, other)
    name = of_a.name if of_a.name == of_b.name else f"{of_a.name} → {of_b.name}"
    pair = _pair(name, of_a, of_b, one.pod, other.pod)
    differ, same = ((), (name,)) if pair is None else ((pair,), ())
    return Comparison((), (), differ, same, of_pair=True)


def _pods(recording: Recording, known: Collection[str]) -> dict[str, Pod]:
    """Return the pods of the `known` containers, by container id."""
    return {
        one.id: one.pod for one in recording.containers() if one.pod is not None and one.id in known
    }


def compare(
    a: Mapping[str, History],
    b: Mapping[str, History],
    *,
    pods_a: Mapping[str, Pod] | None = None,
    pods_b: Mapping[str, Pod] | None = None,
) -> Comparison:
    """Compare histories of containers, which are keyed by id in order of appearance.

    Containers are matched by namespace, pod and name; containers with the same name, by order.
    Ids, process ids, times and random names are ignored. A pod's ids come from `pods_a` and
    `pods_b`, by container id, or else from the container's annotations.
    """
    of_a, of_b = _named(a), _named(b)
    different: list[Pair] = []
    same: list[str] = []
    for name, one in of_a.items():
        other = of_b.get(name)
        if other is None:
            continue
        pair = _pair(name, one, other, (pods_a or {}).get(one.id), (pods_b or {}).get(other.id))
        if pair is None:
            same.append(name)
        else:
            different.append(pair)
    return Comparison(
        only_a=tuple(Named(name, one) for name, one in of_a.items() if name not in of_b),
        only_b=tuple(Named(name, one) for name, one in of_b.items() if name not in of_a),
        differ=tuple(different),
        same=tuple(same),
    )


def _named(found: Mapping[str, History]) -> dict[str, History]:
    named: dict[str, History] = {}
    counts: dict[str, int] = {}
    for history in found.values():
        name = history.name or history.id
        label = name
        # A recording may contain any name, even a container called "app#2".
        while label in named:
            counts[name] = counts.get(name, 1) + 1
            label = f"{name}#{counts[name]}"
        named[label] = history
    return named


def _pair(name: str, a: History, b: History, pod_a: Pod | None, pod_b: Pod | None) -> Pair | None:
    """Return the differences of a container; None if the outcomes are the same."""
    made_a, made_b = Generated.of(a, pod_a), Generated.of(b, pod_b)
    if (a.failure or b.failure) and made_a.text(a.failure) != made_b.text(b.failure):
        return Pair(name, a, b, (), real=False)
    real = a.real is not None and b.real is not None
    one, other = _Compared(a, made_a, real=real), _Compared(b, made_b, real=real)
    found = tuple(
        Difference(change, one.side(change), other.side(change))
        for change in differences(one.spec, other.spec)
    )
    return Pair(name, a, b, found, real) if found else None


_Order: TypeAlias = "tuple[ComparedValue, set[str]]"
"""The origin of the order of some members of an array, and the members' labels."""


class _Compared:
    """One side of a comparison: a container, with generated values replaced."""

    def __init__(self, history: History, made: Generated, *, real: bool) -> None:
        self._history = history
        self._made = made
        self._owners = FinalOwners(history) if real else None
        self._own = final_spec(history) if real else history.spec
        self.spec = made.spec(self._own)
        self._orders: dict[str, _Order] = {}

    def side(self, change: Change) -> ComparedValue:
        """Return the presence of a value at the path of a difference, and its origin."""
        present = value_at(self.spec, change.path) is not ABSENT
        path, history = self._made.original(change.path), self._history
        if change.kind == "moved":
            return self._place(path)
        steps = [one for one in history.of(path) if one.change.kind != "moved" and one.has_effect]
        newest = steps[-1] if steps else None
        is_part = newest is not None and newest.change.path.startswith(f"{path}/")
        if self._owners is None or is_part:
            if newest is not None:
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            return ComparedValue(present, *history.owner_of(path))
        if not present:
            if newest is not None and newest.change.kind == "removed":
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            # The newest step is not a removal that was applied.
            return ComparedValue(present, history.base_owner, (), None)
        value, known = value_at(self._own, path), value_at(history.spec, path)
        return ComparedValue(
            present, *self._owners.of(path, None if isinstance(value, Absent) else value, known)
        )

    def _place(self, path: str) -> ComparedValue:
        """Return the origin of the place of a member in its array: of the order, not the member."""
        history = self._history
        moves = [one for one in history.of(path) if one.change.kind == "moved" and one.has_effect]
        if moves:
            return ComparedValue(True, moves[-1].owner, moves[-1].evidence, moves[-1])
        array = path.rpartition("/")[0]
        if array not in self._orders:
            self._orders[array] = self._order(array)
        origin, labels = self._orders[array]
        return origin if split(path)[-1] in labels else ComparedValue(True, UNKNOWN, (), None)

    def _order(self, array: str) -> _Order:
        """Return the origin of the order of members which no step moved, as far as it is known."""
        first, final = labels_at(self._history.base, array), labels_at(self._own, array)
        in_first, in_final = {*first}, {*final}
        if [one for one in final if one in in_first] == [one for one in first if one in in_final]:
            return ComparedValue(True, self._history.base_owner, (), None), in_first
        # A runtime sorts all mounts when it applies an adjustment of any.
        if array == "/mounts" and labels_at(sort_mounts(self._own), array) == final:
            evidence = () if self._owners is None else (Evidence.CRI,)
            return ComparedValue(True, RUNTIME, evidence, None, is_sorted=True), in_final
        return ComparedValue(True, UNKNOWN, (), None), in_final


MIN_ID = 6
"""Minimum length of a replaced id, in characters. Runtimes' ids have 64, uids 36; shorter ids could
be ordinary words."""

_SANDBOX_ID = "io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"
_POD_UID = "io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"
"""Annotations in which containerd, CRI-O and the kubelet store the pod's uid."""

_TIMES = frozenset({"io.kubernetes.cri-o.Created", "kubernetes.io/config.seen"})
_ADDRESS = "io.kubernetes.cri-o.IP."

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS = (
    # Namespaces of the pod: containerd names them by a process, CRI-O and CNI by a random name.
    (re.compile(r"^/proc/\d+/ns/"), "/proc/<pid>/ns/"),
    (re.compile(rf"((?:ipc|net|pid|user|uts)ns/(?:cni-)?){_UUID}$"), r"\1<uuid>"),
    # A container's own layer, in CRI-O's storage.
    (re.compile(r"(/overlay/)[0-9a-f]{64}(/merged)"), r"\1<layer>\2"),
    # The kubelet's names: a container's termination log, the volume of the API server's token.
    (re.compile(r"(/containers/[^/]+/)[0-9a-f]{8}$"), r"\1<file>"),
    (re.compile(r"(/kube-api-access-)[a-z0-9]{5}(?=/|$)"), r"\1<name>"),
)


class Generated:
    """The generated values of one container."""

    def __init__(self, container_id: str, pod_id: str = "", pod_uid: str = "") -> None:
        names = {
            container_id: "<container id>",
            pod_id: "<pod id>",
            pod_uid: "<pod uid>",
            # The spelling in names of systemd slices.
            pod_uid.replace("-", "_"): "<pod uid>",
        }
        self._names = {text: name for text, name in names.items() if len(text) >= MIN_ID}
        longest_first = sorted(self._names, key=len, reverse=True)
        # Not inside a longer word, except after "pod", which kubelets prepend to a uid.
        self._ids = re.compile(
            rf"(?:(?<![0-9A-Za-z])|(?<=pod))(?:{'|'.join(map(re.escape, longest_first))})"
            r"(?![0-9A-Za-z])"
            if self._names
            else r"(?!)"
        )

    @classmethod
    def of(cls, history: History, pod: Pod | None = None) -> Generated:
        """Find the generated values of a container in `pod`, or else in its annotations."""
        if pod is not None:
            return cls(history.id, pod.id, pod.uid)
        specs = [history.spec, history.real or {}]
        return cls(history.id, _annotation(specs, _SANDBOX_ID), _annotation(specs, _POD_UID))

    def text(self, text: str) -> str:
        """Return `text` with generated values replaced."""
        if len(text) < MIN_ID:
            return text
        text = self._ids.sub(self._name, text)
        if "/" in text:
            for pattern, replacement in _PATTERNS:
                text = pattern.sub(replacement, text)
        return text

    def spec(self, spec: Spec) -> Spec:
        """Return `spec` with generated values replaced, in values and in keys."""
        new: Spec = {}
        # Iterative: a runtime's message may be nested deeper than Python's stack allows.
        work: list[tuple[Json, Json]] = [(spec, new)]
        while work:
            source, target = work.pop()
            if isinstance(source, dict) and isinstance(target, dict):
                for key, value in source.items():
                    target[self._ids.sub(self._name, key)] = self._copy(value, work)
            elif isinstance(source, list) and isinstance(target, list):
                target.extend(self._copy(value, work) for value in source)
        annotations = new.get("annotations")
        if isinstance(annotations, dict):
            for key in annotations:
                if key in _TIMES:
                    annotations[key] = "<time>"
                elif key.startswith(_ADDRESS):
                    annotations[key] = "<pod address>"
        return new

    def original(self, path: str) -> str:
        """Return the container's own path for a `path` in the result of `spec`."""
        for text, name in self._names.items():
            path = path.replace(name, text)
        return path

    def _name(self, match: re.Match[str]) -> str:
        return self._names[match[0]]

    def _copy(self, value: Json, work: list[tuple[Json, Json]]) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        new: Json = {} if isinstance(value, dict) else []
        work.append((value, new))
        return new


def _annotation(specs: list[Spec], keys: tuple[str, ...]) -> str:
    for spec in specs:
        annotations = value_at(spec, "/annotations")
        if isinstance(annotations, dict):
            for key in keys:
                value = annotations.get(key)
                if isinstance(value, str):
                    return value
    return ""
