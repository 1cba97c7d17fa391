# SPDX-License-Identifier: Apache-2.0
"""The lines of a container's spec with their owners, including removed lines.

Lines that no plugin changed are folded to counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from nri_scope.specs import ABSENT, Json, Spec, pointer, split, value_at
from nri_scope.specs.json_spec import KEYED, members
from nri_scope.text.yaml_text import inline

from ..attribution.attributed_changes import ChangeStep, Evidence, OutcomeKind
from ..attribution.final_spec import FinalOwners, Newest, final_spec
from ..attribution.history import History
from ..attribution.owner import Owner, OwnerKind
from ..render import wording
from ..render.values import move


class Remarks:
    """Source of the remarks on lines."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest

    def of(self, node: Node, step: ChangeStep | None, moved: ChangeStep | None) -> tuple[str, ...]:
        """Return short remarks, the most important first. Not escaped."""
        found: list[str] = []
        asked = self._newest.exactly(node.path)
        if asked is not None and asked is step:
            if node.exists or asked.change.kind == "removed":
                found += self._past(asked)
            found += _outcome(asked, exists=node.exists)
            found += (wording.claim(claim, asked) for claim in asked.disputed)
            if asked.note:
                found.append(asked.note)
        if moved is not None:
            found.append(move(moved.change))
            found += _outcome(moved, exists=True)
        return tuple(found)

    def _past(self, step: ChangeStep) -> list[str]:
        change = step.change
        before = self._newest.before(step)
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


def _outcome(step: ChangeStep, *, exists: bool) -> list[str]:
    kind = step.outcome.kind
    if kind is OutcomeKind.REQUESTED:
        return [wording.why(step) or "asked for; nothing shows whether it took effect"]
    if not step.is_change:
        return [wording.why(step) or str(kind)]
    return [] if exists or step.change.kind == "removed" else ["not in the spec that was used"]


MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
UNMET = "!"
"""Mark of a value that was asked for in an operation that failed."""
OPEN = "?"
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


def lines(history: History) -> list[OwnedLine]:
    """Return all lines of the newest spec in order, with removed lines after their siblings.

    Every line that has a value has an owner.
    """
    return list(_Lines(history).all())


class _Lines:
    def __init__(self, history: History) -> None:
        self._history = history
        self._owners = FinalOwners(history)
        self._newest = self._owners.newest
        self._remarks = Remarks(self._newest)
        self._known = tree(history.spec)
        """Nodes of the spec that events show, without the CRI's answer."""
        self._nodes = self._known if history.real is None else tree(final_spec(history))
        put_back(self._nodes, self._gone())

    def _gone(self) -> list[tuple[str, Json]]:
        """Return the paths and values that were removed, or requested but never applied."""
        found: list[tuple[str, Json]] = []
        spec = final_spec(self._history)
        for step in self._newest.steps():
            change = step.change
            # A part of one line, such as an array's only member, has no line of its own.
            if change.path in self._nodes or value_at(spec, change.path) is not ABSENT:
                continue
            if change.kind == "removed":
                found.append((change.path, change.before))
            elif self._history.real is not None:
                found.append((change.path, change.after))
        return found

    def all(self) -> Iterator[OwnedLine]:
        root = self._nodes[""]
        waiting: list[tuple[Node, int, bool, tuple[OwnedLine, ...]]] = [
            (node, 0, False, ()) for node in reversed(root.below)
        ]
        while waiting:
            node, indent, dash, above = waiting.pop()
            line = self._line(node, indent, dash=dash or node.member)
            if above:
                line = _joined(above[0], line)
            heads_member = node.member and not node.is_leaf
            if not heads_member:
                yield line
            # The first line of a member follows the dash, the others are below it.
            inner = indent + 2
            for at, below in reversed(list(enumerate(node.below))):
                first = heads_member and not at
                waiting.append((below, inner, first, (line,) if first else ()))

    def _line(self, node: Node, indent: int, *, dash: bool) -> OwnedLine:
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
            remarks=self._remarks.of(node, step, moved),
        )

    def _owner(self, node: Node) -> tuple[Owner, tuple[Evidence, ...], ChangeStep | None]:
        if not node.exists:
            return self._owners.by(self._newest.at(node.path))
        known = self._known.get(node.path)
        if known is None:
            return self._owners.of(node.path, node.value, ABSENT)
        # The parts of a heading have owners of their own.
        return self._owners.of(node.path, node.value, known.value if node.is_leaf else node.value)

    def _mark(self, node: Node, step: ChangeStep | None) -> str:
        if step is None:
            return " "
        if step.owner.who is OwnerKind.RUNTIME and not self._newest.by_plugins(step.change.path):
            return " "
        if not step.is_change:
            return OPEN if step.outcome.kind is OutcomeKind.REQUESTED else UNMET
        if step.change.kind == "removed" and node.exists:
            # The value was replaced by another one.
            return MARKS["changed"]
        return MARKS[step.change.kind]


def _is_own(step: ChangeStep | None, node: Node) -> bool:
    return step is not None and step.change.path == node.path


def _joined(member: OwnedLine, first: OwnedLine) -> OwnedLine:
    """Return the first line of a member, with the remarks on the member as a whole."""
    remarks = tuple(dict.fromkeys((*member.remarks, *first.remarks)))
    line = replace(first, indent=member.indent, dash=True, remarks=remarks)
    if first.mark == " " and member.mark in (">", UNMET, OPEN):
        line = replace(line, mark=member.mark, mover=member.mover)
    return line


View: TypeAlias = Literal["usual", "full", "changed"]


class Fold(NamedTuple):
    """A row in place of consecutive hidden lines of one owner."""

    owner: Owner
    hidden: int
    """Number of hidden lines."""
    indent: int


Row: TypeAlias = "OwnedLine | Fold"


def view(lines: Sequence[OwnedLine], kind: View) -> list[Row]:
    """Return the rows of a view.

    "full": all lines; "changed": lines that differ from the runtime's spec without plugins,
    and their parents; "usual": the same, with a fold in place of the lines between them.
    """
    if kind == "full":
        return list(lines)
    shown = _shown(lines)
    rows: list[Row] = []
    for is_shown, run in groupby(enumerate(lines), lambda item: item[0] in shown):
        some = [line for _, line in run]
        if is_shown:
            rows += some
        elif kind == "usual":
            rows += some if len(some) == 1 else _folds(some)
    return rows


def _shown(lines: Sequence[OwnedLine]) -> set[int]:
    parents: dict[str, int] = {}
    for index, line in enumerate(lines):
        if line.heading:
            parents.setdefault(line.path, index)
        if line.dash and not line.member:
            # A member has no line of its own; its first line represents it.
            parents.setdefault(line.path.rpartition("/")[0], index)
    shown: set[int] = set()
    for index, line in enumerate(lines):
        if not line.changed:
            continue
        shown.add(index)
        path = line.path
        while path := path.rpartition("/")[0]:
            if path in parents:
                shown.add(parents[path])
    return shown


def _folds(lines: Sequence[OwnedLine]) -> Iterator[Fold]:
    counts: dict[Owner, int] = {}
    for line in lines:
        if line.exists and line.owner is not None and not line.heading:
            counts[line.owner] = counts.get(line.owner, 0) + 1
    indent = min(line.indent for line in lines)
    return (Fold(owner, count, indent) for owner, count in counts.items())


MAX_DEPTH = 16
"""Number of levels with one line per value; deeper values share a line. Real specs have seven."""

_ENV = "/process/env"
_COUNT = re.compile(r"#\d+$")


@dataclass(slots=True)
class Node:
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
    below: list[Node] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether the value takes a single line; only removed values can be below it."""
        return not any(node.exists for node in self.below)


def tree(spec: Spec) -> dict[str, Node]:
    """Return all nodes by their paths, in document order; the first is the spec itself, at ""."""
    root = Node("", "", False, spec, spec)
    nodes: dict[str, Node] = {}
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        nodes[node.path] = node
        if depth <= MAX_DEPTH:
            node.below = _below(node)
            waiting += ((below, depth + 1) for below in reversed(node.below))
    return nodes


def _below(node: Node) -> list[Node]:
    """Return the nodes of a value's parts: fields of an object, or members of a keyed array."""
    value = node.written
    if isinstance(value, dict):
        return [
            Node(pointer(node.path, name), name, False, each, each) for name, each in value.items()
        ]
    keyed = KEYED.get(node.path)
    if keyed is None or not isinstance(value, list):
        return []
    found = members(value, keyed)
    if found is None:
        return []
    below = [
        Node(pointer(node.path, label), label, True, each, written)
        for (label, each), written in zip(found.items(), value, strict=True)
    ]
    for member in below:
        _key_first(member)
    return below


def put_back(nodes: dict[str, Node], gone: Iterable[tuple[str, Json]]) -> None:
    """Add nodes for values that are not in the spec, after their siblings in the spec."""
    for path, value in gone:
        node = nodes.get(path) or _missing(nodes, path)
        if not node.exists:
            node.value = value
            node.written = _written(path, node.label, value)


def _missing(nodes: dict[str, Node], path: str) -> Node:
    """Add and return a node at a path that is not in the spec, with its missing parents."""
    missing: list[str] = []
    while path not in nodes:
        missing.append(path)
        path = path.rpartition("/")[0]
    node = nodes[path]
    for path in reversed(missing):
        label = split(path)[-1]
        new = Node(path, label, node.path in KEYED, None, None, exists=False)
        node.below.append(new)
        nodes[path] = node = new
    return node


def _written(path: str, label: str, value: Json) -> Json:
    if path.rpartition("/")[0] != _ENV:
        return value
    name = _COUNT.sub("", label)
    return name if value is None else f"{name}={value}"


def _key_first(member: Node) -> None:
    """Move the field that identifies a member to the front: "destination" of a mount."""
    if isinstance(member.written, dict):
        name = _COUNT.sub("", member.label)
        fields = sorted(member.written.items(), key=lambda field: field[1] != name)
        member.value = member.written = dict(fields)
