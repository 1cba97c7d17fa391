# SPDX-License-Identifier: Apache-2.0
"""Change fields of pods and containers in a scenario: ``shop/web/app:annotations.x=y``.

A change names a pod or container, a path in its text form and a value in YAML. Keys of the path are
separated by dots; a key with other characters is quoted or in brackets. A path that ends with a
dash, without a value, removes what it leads to, as ``kubectl label`` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, Node, parse_yaml
from nri_scope.text.yaml_text import YamlValue

from .document import PodsShape
from .model import FieldChanges, Scenario, ScenarioContainer, ScenarioPod, Step
from .place import Place, nearest, shown
from .step_shapes import ChangesShape
from .text import changes_form, pod_form

EXAMPLE = "write it as 'shop/web/app:annotations.x=y', or 'shop/web/app:annotations.x-'"

_KEY = re.compile(
    r"""\.?(?:
        '(?P<single>[^']*)' | "(?P<double>[^"]*)"
        | \[(?:'(?P<in_single>[^']*)'|"(?P<in_double>[^"]*)"|(?P<bare>[^\]]*))\]
        | (?P<word>[^.\[='"]+?)(?=[.\[=]|-$|$)
    )""",
    re.X,
)


class _Change(NamedTuple):
    """One change, parsed."""

    place: Place
    subject: str
    path: tuple[str, ...]
    value: Node | None
    """None: remove."""


def apply_changes(scenario: Scenario, texts: Sequence[str]) -> None:
    """Apply changes, in order, to the pods and containers of a scenario. Raises UsageError."""
    for text in texts:
        _apply(scenario, _parse(text))


def _parse(text: str) -> _Change:
    place = Place(f"--set {shown(text)}", has_lines=False)
    subject, colon, rest = text.partition(":")
    if not colon or not subject:
        raise place.error("not a change", EXAMPLE)
    path, value = parse_assignment(rest, place, EXAMPLE)
    return _Change(place, subject, path, value)


def parse_assignment(
    text: str, place: Place, example: str = "write it as annotations.x=y, or annotations.x-"
) -> tuple[tuple[str, ...], Node | None]:
    """Return the path and the value in ``PATH=VALUE``; None for ``PATH-``. Raises UsageError."""
    keys: list[str] = []
    at = 0
    while text[at:] not in ("", "-") and (found := _KEY.match(text, at)) is not None:
        keys.append(next(one for one in found.groups() if one is not None))
        at = found.end()
    if not keys or len(text) > MAX_BYTES:
        raise place.error("not a change", example)
    if text[at:] == "-":
        return tuple(keys), None
    if not text.startswith("=", at):
        raise place.error("not a change", example)
    content = text[at + 1 :]
    try:
        value = parse_yaml(content) if content.strip() else Node(0, "")
    except MalformedYaml as error:
        raise place.error(f"the value is {error.problem}", error.hint) from None
    return tuple(keys), value


def changed_node(node: Node, path: Sequence[str], value: Node | None, place: Place) -> Node:
    """Return a copy of a tree with ``value`` at a path, or, if it is None, without what is there.

    Raises UsageError.
    """
    return _Editing(place).changed(node, path, value)


def _apply(scenario: Scenario, change: _Change) -> None:
    names: list[str] = []
    count = 0
    for pod in list(scenario.pods.values()):
        names += [pod.name, *(_name(pod, one) for one in pod.containers.values())]
        if change.subject in (pod.key, pod.name):
            _change_pod(scenario, pod.key, change, ())
            count += 1
            continue
        for one in list(pod.containers.values()):
            if change.subject in (_name(pod, one), f"{pod.key}/{one.key}"):
                _change_pod(scenario, pod.key, change, ("containers", one.key))
                count += 1
    if not count:
        problem = f"there is no pod or container {shown(change.subject)}"
        raise change.place.error(problem, nearest(change.subject, dict.fromkeys(names)))


def _name(pod: ScenarioPod, one: ScenarioContainer) -> str:
    return f"{pod.name}/{one.message.name}"


def _change_pod(scenario: Scenario, key: str, change: _Change, prefix: tuple[str, ...]) -> None:
    pod = scenario.pods[key]
    path = (*prefix, *change.path)
    root = changed_node(to_node(pod_form(pod)), path, change.value, change.place)
    read = PodsShape(pod.exists).read(Node(0, {pod.key: root}), change.place)
    for name, one in read[pod.key].containers.items():
        one.exists = name in pod.containers and pod.containers[name].exists
    scenario.pods[pod.key] = read[pod.key]
    if scenario.steps is not None:
        subject = "/".join((pod.key, *prefix[1:]))
        scenario.steps = [_changed_step(step, subject, change) for step in scenario.steps]


def _changed_step(step: Step, subject: str, change: _Change) -> Step:
    """Return a step whose own values of the changed field have the change, too."""
    step = replace(step, steps=tuple(_changed_step(one, subject, change) for one in step.steps))
    if step.container is not None and step.subject == subject:
        return replace(step, container=_changed_fields(step.container, api.Container, change))
    is_its_pod = subject in (step.subject, step.subject.rpartition("/")[0])
    if step.pod is not None and is_its_pod:
        return replace(step, pod=_changed_fields(step.pod, api.PodSandbox, change))
    return step


def _changed_fields(
    changes: FieldChanges, kind: type[api.PodSandbox] | type[api.Container], change: _Change
) -> FieldChanges:
    if change.path[0] not in changes.names:
        return changes
    root = changed_node(to_node(changes_form(changes)), change.path, change.value, change.place)
    return ChangesShape(kind).read(root, change.place)


@dataclass(frozen=True, slots=True)
class _Editing:
    place: Place

    def changed(self, node: Node, path: Sequence[str], value: Node | None) -> Node:
        """Return a copy of a tree with ``value`` at a path, or without what is there."""
        key, *rest = path
        if isinstance(node.value, list):
            items = list(node.value)
            at = self._position(key, items, can_append=not rest and value is not None)
            if rest:
                items[at] = self.changed(items[at], rest, value)
            elif value is None:
                del items[at]
            else:
                items[at : at + 1] = [value]
            return Node(0, items)
        if not isinstance(node.value, dict):
            raise self.place.error(f"{shown(key)} is inside of {shown(node.value)}")
        entries = dict(node.value)
        if rest:
            entries[key] = self.changed(entries.get(key, Node(0, {})), rest, value)
        elif value is not None:
            entries[key] = value
        elif entries.pop(key, None) is None:
            raise self.place.error(f"there is no {shown(key)} to remove", nearest(key, entries))
        return Node(0, entries)

    def _position(self, key: str, items: Sequence[Node], *, can_append: bool) -> int:
        if not (key.isascii() and key.isdigit()) or len(key) > 9:
            raise self.place.error(f"{shown(key)} is not the number of an item", "write [0]")
        if int(key) >= len(items) + can_append:
            raise self.place.error(f"there is no item {key}", f"there are {len(items)}")
        return int(key)


def to_node(value: YamlValue) -> Node:
    """Return a form as the reader would return it."""
    if isinstance(value, dict):
        return Node(0, {key: to_node(one) for key, one in value.items()})
    if isinstance(value, list):
        return Node(0, [to_node(one) for one in value])
    if not isinstance(value, str | int):
        raise TypeError(f"no value of a form: {value!r}")
    return Node(0, value)
