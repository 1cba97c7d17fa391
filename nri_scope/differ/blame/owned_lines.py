# SPDX-License-Identifier: Apache-2.0
"""The lines of a container's final spec with their owners, including removed lines.

The runtime's own spec, reported by the CRI, also contains values that no event shows. The runtime
is their owner only if no plugin can have set them unobserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import path_of_field
from nri_scope.specs import ABSENT, Absent, Json, Spec, pointer, same, split, value_at
from nri_scope.specs.json_spec import KEYED, key_of, members
from nri_scope.text.yaml_text import inline

from ..attribution.attributed_changes import ChangeStep, Evidence, OutcomeKind
from ..attribution.hidden_changes import may_be_left_out
from ..attribution.history import History
from ..attribution.later_changes import ANY_OWNER, UPDATABLE
from ..attribution.observed_round import HIGHEST
from ..attribution.owner import AFTER_ALL, RUNTIME, SPEC, UNKNOWN, Owner, OwnerKind
from ..render import wording
from ..render.values import move

MAX_DEPTH = 16
"""Number of levels with one line per value; deeper values share a line. Real specs have seven."""

_ENV = "/process/env"


@dataclass(slots=True)
class SpecNode:
    """A value of a spec, with the nodes of its parts."""

    path: str
    label: str
    """The key, or the label of an array's member in paths."""
    member: bool
    """Whether the value is a member of an array."""
    value: Json
    """The value as in changes: ``bar`` of an environment variable."""
    written: Json
    """The value as in a spec: ``FOO=bar``."""
    exists: bool = True
    """Whether the value exists; False for removed values, and for requested ones not applied."""
    below: list[SpecNode] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether the value takes a single line; only removed values can be below it."""
        return not any(node.exists for node in self.below)


def tree(spec: Spec) -> dict[str, SpecNode]:
    """Return all nodes by their paths, in document order; the first is the spec itself, at ""."""
    root = SpecNode("", "", False, spec, spec)
    nodes: dict[str, SpecNode] = {}
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        nodes[node.path] = node
        if depth <= MAX_DEPTH:
            node.below = _below(node)
            waiting += ((below, depth + 1) for below in reversed(node.below))
    return nodes


def _below(node: SpecNode) -> list[SpecNode]:
    """Return the nodes of a value's parts: fields of an object, or members of a keyed array."""
    value = node.written
    if isinstance(value, dict):
        return [
            SpecNode(pointer(node.path, name), name, False, each, each)
            for name, each in value.items()
        ]
    keyed = KEYED.get(node.path)
    if keyed is None or not isinstance(value, list):
        return []
    by_label = members(value, keyed)
    if by_label is None:
        return []
    below = [
        SpecNode(pointer(node.path, label), label, True, each, written)
        for (label, each), written in zip(by_label.items(), value, strict=True)
    ]
    for member in below:
        _key_first(member)
    return below


def put_back(nodes: dict[str, SpecNode], gone: Iterable[tuple[str, Json]]) -> None:
    """Add nodes for values that are not in the spec, after their siblings in the spec."""
    for path, value in gone:
        node = nodes.get(path) or _missing(nodes, path)
        if not node.exists:
            node.value = value
            node.written = _written(path, node.label, value)


def _missing(nodes: dict[str, SpecNode], path: str) -> SpecNode:
    """Add and return a node at a path that is not in the spec, with its missing parents."""
    missing: list[str] = []
    while path not in nodes:
        missing.append(path)
        path = path.rpartition("/")[0]
    node = nodes[path]
    for path in reversed(missing):
        label = split(path)[-1]
        new = SpecNode(path, label, node.path in KEYED, None, None, exists=False)
        node.below.append(new)
        nodes[path] = node = new
    return node


def _written(path: str, label: str, value: Json) -> Json:
    if path.rpartition("/")[0] != _ENV:
        return value
    name = key_of(label)
    return name if value is None else f"{name}={value}"


def _key_first(member: SpecNode) -> None:
    """Move the field that identifies a member to the front: "destination" of a mount."""
    if isinstance(member.written, dict):
        name = key_of(member.label)
        fields = sorted(member.written.items(), key=lambda field: field[1] != name)
        member.value = member.written = dict(fields)


ValueOwner: TypeAlias = "tuple[Owner, tuple[Evidence, ...], ChangeStep | None]"
"""An owner, its evidence, and the step that made the value. The step is None for the first state,
and for values that only the CRI shows."""

_BY_PLUGINS = tuple(sorted({path_of_field(number) for number in api.Field.values()}))
"""Paths at which plugins can change a container."""


class FinalOwners:
    """Lookup of the owners of values in a container's final spec."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.newest = NewestSteps(history.counted)

    def of(self, path: str, value: Json, known: Json | Absent) -> ValueOwner:
        """Return the owner of the value at `path`. `known`: the value there that events show."""
        step = self.newest.newest_at(path)
        if self._history.real is None:
            return self.by_events(path)
        is_in_effect = step is not None and step.outcome.kind is OutcomeKind.IN_EFFECT
        if known is not ABSENT and (is_in_effect or same(known, value)):
            return self.by_events(path)
        unseen = self._unseen(path, value)
        if unseen is not None:
            # The owner of the newest step may also have changed the value again.
            return unseen if step is None else ANY_OWNER, (Evidence.CRI,), None
        is_last = self._history.tail.first == HIGHEST and self._is_hidden(path)
        is_last = is_last and _touches(path, value, _BY_PLUGINS)
        if known is ABSENT and not _is_in_requests(path, value):
            return replace(SPEC, ties=AFTER_ALL.ties) if is_last else SPEC, (Evidence.CRI,), None
        return AFTER_ALL if is_last else RUNTIME, (Evidence.CRI,), None

    def by_events(self, path: str) -> ValueOwner:
        """Return the owner of the value at `path` that events show; see `NewestSteps.newest_at`."""
        step = self.newest.newest_at(path)
        if step is None:
            return self._history.base_owner, (), None
        return step.owner, step.evidence, step

    def _unseen(self, path: str, value: Json) -> Owner | None:
        """Return the possible owners of an unobserved change; None if plugins cannot make it."""
        if not _touches(path, value, _BY_PLUGINS):
            return None
        if _touches(path, value, UPDATABLE):
            # In a reply to another container's event or to Synchronize, or unsolicited.
            return ANY_OWNER
        if not self._is_hidden(path):
            return None
        if not self._history.created_event:
            return UNKNOWN
        tail = self._history.tail
        return None if tail == RUNTIME or tail.first == HIGHEST else tail

    def _is_hidden(self, path: str) -> bool:
        """Return whether events need not show a plugin's change of `path` at the creation.

        Events of containerd repeat the annotations that the CRI requested.
        """
        repeated = path.startswith("/annotations/")
        return repeated or may_be_left_out(path) or not self._history.shown


def _is_in_requests(path: str, value: Json) -> bool:
    """Return whether a request for the creation would contain the value."""
    return _touches(path, value, _BY_PLUGINS) and not may_be_left_out(path)


def _touches(path: str, value: Json, places: tuple[str, ...]) -> bool:
    """Return whether a value is at, above or below one of `places`."""
    if path.startswith(places):
        return True
    return bool(value) and any(place.startswith(f"{path}/") for place in places)


class NewestSteps:
    """Index of the newest step at each path."""

    def __init__(self, steps: Sequence[ChangeStep]) -> None:
        self._steps = steps
        self._newest_at: dict[str, int] = {}
        self._moves: dict[str, int] = {}
        self._numbers_at: dict[str, list[int]] = {}
        self._plugins_paths: set[str] = set()
        for number, step in enumerate(steps):
            path = step.change.path
            if step.change.kind == "moved":
                self._moves[path] = number
                continue
            self._newest_at[path] = number
            self._numbers_at.setdefault(path, []).append(number)
            if step.owner.may_be_plugin:
                self._plugins_paths.add(path)

    def steps(self) -> Iterator[ChangeStep]:
        """Yield the newest step at each path, unless a later one at a parent overrides it."""
        for path, number in self._newest_at.items():
            if self._number(path) == number:
                yield self._steps[number]

    def newest_at(self, path: str) -> ChangeStep | None:
        """Return the newest step at `path` or at a parent, without moves."""
        number = self._number(path)
        return None if number is None else self._steps[number]

    def exactly(self, path: str) -> ChangeStep | None:
        """Return the newest step at `path` itself."""
        number = self._newest_at.get(path)
        return None if number is None else self._steps[number]

    def previous(self, step: ChangeStep) -> ChangeStep | None:
        """Return the step before `step` at the same path, if `step` is the newest."""
        numbers = self._numbers_at.get(step.change.path, ())
        return self._steps[numbers[-2]] if len(numbers) > 1 else None

    def move(self, path: str) -> ChangeStep | None:
        """Return the newest move of `path`; None if a later step changed `path` otherwise."""
        number = self._moves.get(path)
        if number is None or number < self._newest_at.get(path, -1):
            return None
        return self._steps[number]

    def by_plugins(self, path: str) -> bool:
        """Return whether a plugin or an unknown owner ever changed `path`."""
        return path in self._plugins_paths

    def _number(self, path: str) -> int | None:
        newest = self._newest_at.get(path)
        while path:
            path = path.rpartition("/")[0]
            number = self._newest_at.get(path)
            if number is not None and (newest is None or number > newest):
                newest = number
        return newest


def _outcome(step: ChangeStep, *, exists: bool) -> list[str]:
    kind = step.outcome.kind
    if kind is OutcomeKind.REQUESTED:
        return [wording.why(step) or "asked for; nothing shows whether it took effect"]
    if not step.is_change:
        return [wording.why(step) or str(kind)]
    return [] if exists or step.change.kind == "removed" else ["not in the spec that was used"]


UNMET = "!"
"""Mark of a value that was asked for in an operation that failed."""
OUTCOME_UNKNOWN = "?"
"""Mark of a value that was asked for, if nothing shows whether it took effect."""


@dataclass(frozen=True, slots=True)
class OwnedLine:
    """One line of a spec, with its owner."""

    path: str
    label: str
    """The key, or the label of an array's member in paths."""
    value: Json
    """The value as in changes: ``bar`` of an environment variable."""
    written: Json
    """The value as in a spec: ``FOO=bar``."""
    indent: int
    """Indentation in columns."""
    dash: bool
    """Whether the line is the first of an array's member, after the dash."""
    member: bool
    """Whether the line is a member of an array, and so has no key."""
    heading: bool
    """Whether the line has no value, but lines with values below it."""
    exists: bool
    """Whether the value exists; False for removed values, and for requested ones not applied."""
    owner: Owner | None
    """The owner of the value, or of its removal. None for headings that no step added as a whole:
    the lines below them have owners."""
    evidence: tuple[Evidence, ...]
    step: ChangeStep | None
    """The step that last changed the line; None for the container's first state."""
    mark: str
    """One of ``+-~>!?``; a space for lines that no plugin changed."""
    mover: ChangeStep | None = None
    """The step that moved the line; None if the line was also changed."""
    remarks: tuple[str, ...] = ()
    """Further facts, such as the previous value."""

    @property
    def before(self) -> Json:
        """The value before the step, if the step is about exactly this line."""
        is_own = self.step is not None and self.step.change.path == self.path
        return self.step.change.before if self.step is not None and is_own else None

    @property
    def changed(self) -> bool:
        """Whether the line differs from the runtime's spec without plugins."""
        return self.mark != " "


def lines(history: History, *, members: bool = False) -> list[OwnedLine]:
    """Return all lines of the newest spec in order, with removed lines after their siblings.

    Every line that has a value has an owner. ``members``: whether an array's member with parts has
    a heading, too, besides the dash before its first part.
    """
    return list(_SpecLines(history).all(members=members))


class _SpecLines:
    def __init__(self, history: History) -> None:
        self._history = history
        self._owners = FinalOwners(history)
        self._newest = self._owners.newest
        self._known = tree(history.spec)
        """Nodes of the spec that events show, without the CRI's answer."""
        self._nodes = self._known if history.real is None else tree(history.final_spec)
        put_back(self._nodes, self._gone())

    def _gone(self) -> list[tuple[str, Json]]:
        """Return the paths and values that were removed, or requested but never applied."""
        values: list[tuple[str, Json]] = []
        spec = self._history.final_spec
        for step in self._newest.steps():
            change = step.change
            # A part of one line, such as an array's only member, has no line of its own.
            if change.path in self._nodes or value_at(spec, change.path) is not ABSENT:
                continue
            if change.kind == "removed":
                values.append((change.path, change.before))
            elif self._history.real is not None:
                values.append((change.path, change.after))
        return values

    def all(self, *, members: bool) -> Iterator[OwnedLine]:
        root = self._nodes[""]
        waiting: list[tuple[SpecNode, int, bool, tuple[OwnedLine, ...]]] = [
            (node, 0, False, ()) for node in reversed(root.below)
        ]
        while waiting:
            node, indent, dash, above = waiting.pop()
            line = self._line(node, indent, dash=dash or node.member)
            if above:
                line = _joined(above[0], line)
            heads_member = node.member and not node.is_leaf
            if members or not heads_member:
                yield line
            # The first line of a member follows the dash, the others are below it.
            inner = indent + 2
            for number, below in reversed(list(enumerate(node.below))):
                first = heads_member and not number
                waiting.append((below, inner, first, (line,) if first else ()))

    def _line(self, node: SpecNode, indent: int, *, dash: bool) -> OwnedLine:
        owner, evidence, step = self._owner(node)
        heading = not node.is_leaf or (not node.exists and not _is_own(step, node))
        moved = self._newest.move(node.path)
        mark = self._mark(node, step)
        return OwnedLine(
            path=node.path,
            label=node.label,
            value=node.value,
            written=node.written,
            indent=indent,
            dash=dash,
            member=node.member,
            heading=heading,
            exists=node.exists,
            owner=None if heading and step is None else owner,
            evidence=() if heading and step is None else evidence,
            step=step,
            mark=">" if moved and mark == " " else mark,
            mover=moved if mark == " " else None,
            remarks=self._remarks(node, step, moved),
        )

    def _remarks(
        self, node: SpecNode, step: ChangeStep | None, moved: ChangeStep | None
    ) -> tuple[str, ...]:
        """Return short remarks on a line, the most important first. Not escaped."""
        remarks: list[str] = []
        asked = self._newest.exactly(node.path)
        if asked is not None and asked is step:
            if node.exists or asked.change.kind == "removed":
                remarks += self._past(asked)
            remarks += _outcome(asked, exists=node.exists)
            remarks += (wording.claim(claim, asked) for claim in asked.disputed)
            if asked.note:
                remarks.append(asked.note)
        if moved is not None:
            remarks.append(move(moved.change))
            remarks += _outcome(moved, exists=True)
        return tuple(remarks)

    def _past(self, step: ChangeStep) -> list[str]:
        change = step.change
        before = self._newest.previous(step)
        if before is not None and not before.is_change:
            asked = "removal" if before.change.kind == "removed" else inline(before.change.after)
            return [f"{asked} was asked for {wording.by(before.owner)}"]
        match change.kind:
            case "changed" if before is not None:
                return [f"was {inline(change.before)} {wording.by(before.owner)}"]
            case "changed":
                return [f"was {inline(change.before)}"]
            case "added" if before is not None and before.change.kind == "removed":
                was = inline(before.change.before)
                return [f"was {was}, which was removed {wording.by(before.owner)}"]
            case "removed" if before is not None:
                return [f"set {wording.by(before.owner)}"]
        return []

    def _owner(self, node: SpecNode) -> ValueOwner:
        if not node.exists:
            return self._owners.by_events(node.path)
        known = self._known.get(node.path)
        if known is None:
            return self._owners.of(node.path, node.value, ABSENT)
        # The parts of a heading have owners of their own.
        return self._owners.of(node.path, node.value, known.value if node.is_leaf else node.value)

    def _mark(self, node: SpecNode, step: ChangeStep | None) -> str:
        if step is None:
            return " "
        if step.owner.who is OwnerKind.RUNTIME and not self._newest.by_plugins(step.change.path):
            return " "
        if not step.is_change:
            return OUTCOME_UNKNOWN if step.outcome.kind is OutcomeKind.REQUESTED else UNMET
        if step.change.kind == "removed" and node.exists:
            # The value was replaced by another one.
            return wording.GLYPHS["changed"]
        return wording.GLYPHS[step.change.kind]


def _is_own(step: ChangeStep | None, node: SpecNode) -> bool:
    return step is not None and step.change.path == node.path


def _joined(member: OwnedLine, first: OwnedLine) -> OwnedLine:
    """Return the first line of a member, with the remarks on the member as a whole."""
    remarks = tuple(dict.fromkeys((*member.remarks, *first.remarks)))
    line = replace(first, indent=member.indent, dash=True, remarks=remarks)
    if first.mark == " " and member.mark in (">", UNMET, OUTCOME_UNKNOWN):
        line = replace(line, mark=member.mark, mover=member.mover)
    return line
