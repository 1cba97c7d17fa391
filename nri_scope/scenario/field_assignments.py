# SPDX-License-Identifier: Apache-2.0
"""Change fields of a scenario by assignments, as ``--set`` does.

An assignment, ``shop/web/app:annotations.x=y``, names a pod or container, a path in its text form
and a value in YAML. Keys of the path are separated by dots; a key with other characters is quoted
or in brackets. A path that ends with a dash, without a value, removes the field or item at the
path, as ``kubectl label`` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, Node, parse_yaml
from nri_scope.text.yaml_text import YamlValue

from .document import read_field_changes, read_pods
from .model import FieldChanges, Position, Scenario, Step, nearest, shown
from .text import changes_form, pod_form

_EXAMPLE = "write it as 'shop/web/app:annotations.x=y', or 'shop/web/app:annotations.x-'"

_KEY = re.compile(
    r"""\.?(?:
        '(?P<single>[^']*)' | "(?P<double>[^"]*)"
        | \[(?:'(?P<in_single>[^']*)'|"(?P<in_double>[^"]*)"|(?P<bare>[^\]]*))\]
        | (?P<word>[^.\[='"]+?)(?=[.\[=]|-$|$)
    )""",
    re.X,
)


class _Assignment(NamedTuple):
    """One assignment, parsed."""

    position: Position
    subject: str
    path: tuple[str, ...]
    value: Node | None
    """None: remove."""


def assign_fields(scenario: Scenario, texts: Sequence[str]) -> None:
    """Assign fields, in order, of the pods and containers of a scenario. Raises UsageError."""
    for text in texts:
        _apply(scenario, _parse(text))


def _parse(text: str) -> _Assignment:
    """Parse ``SUBJECT:PATH=VALUE``, or ``SUBJECT:PATH-``, which removes. Raises UsageError."""
    position = Position(f"--set {shown(text)}", has_lines=False)
    subject, _, assignment = text.partition(":")
    keys: list[str] = []
    end = 0
    while assignment[end:] not in ("", "-") and (match := _KEY.match(assignment, end)) is not None:
        keys.append(next(group for group in match.groups() if group is not None))
        end = match.end()
    is_removal = assignment[end:] == "-"
    is_assignment = is_removal or assignment.startswith("=", end)
    if not subject or not keys or not is_assignment or len(assignment) > MAX_BYTES:
        raise position.error("not a change", _EXAMPLE)
    if is_removal:
        return _Assignment(position, subject, tuple(keys), None)
    content = assignment[end + 1 :]
    try:
        value = parse_yaml(content) if content.strip() else Node(0, "")
    except MalformedYaml as error:
        raise position.error(f"the value is {error.problem}", error.hint) from None
    return _Assignment(position, subject, tuple(keys), value)


def _changed_node(node: Node, path: Sequence[str], assignment: _Assignment) -> Node:
    """Return a copy of a tree with the new value at ``path``, or with no node there.

    Raises UsageError.
    """
    key, *inner = path
    value, position = assignment.value, assignment.position
    if isinstance(node.value, list):
        items = list(node.value)
        number = _item_index(key, items, position, can_append=not inner and value is not None)
        if inner:
            items[number] = _changed_node(items[number], inner, assignment)
        elif value is None:
            del items[number]
        else:
            items[number : number + 1] = [value]
        return Node(0, items)
    if not isinstance(node.value, dict):
        raise position.error(f"{shown(key)} is inside of {shown(node.value)}")
    entries = dict(node.value)
    if inner:
        entries[key] = _changed_node(entries.get(key, Node(0, {})), inner, assignment)
    elif value is not None:
        entries[key] = value
    elif entries.pop(key, None) is None:
        raise position.error(f"there is no {shown(key)} to remove", nearest(key, entries))
    return Node(0, entries)


def _item_index(key: str, items: Sequence[Node], position: Position, *, can_append: bool) -> int:
    if not (key.isascii() and key.isdigit()) or len(key) > 9:
        raise position.error(f"{shown(key)} is not the number of an item", "write [0]")
    if int(key) >= len(items) + can_append:
        raise position.error(f"there is no item {key}", f"there are {len(items)}")
    return int(key)


def _apply(scenario: Scenario, assignment: _Assignment) -> None:
    names: list[str] = []
    count = 0
    for pod in list(scenario.pods.values()):
        names.append(pod.name)
        is_pod = assignment.subject in (pod.key, pod.name)
        if is_pod:
            _change_pod(scenario, pod.key, assignment, ())
            count += 1
        for container in list(pod.containers.values()):
            names.append(name := f"{pod.name}/{container.message.name}")
            if not is_pod and assignment.subject in (name, f"{pod.key}/{container.key}"):
                _change_pod(scenario, pod.key, assignment, ("containers", container.key))
                count += 1
    if not count:
        problem = f"there is no pod or container {shown(assignment.subject)}"
        raise assignment.position.error(problem, nearest(assignment.subject, dict.fromkeys(names)))


def _change_pod(
    scenario: Scenario, key: str, assignment: _Assignment, prefix: tuple[str, ...]
) -> None:
    pod = scenario.pods[key]
    path = (*prefix, *assignment.path)
    root = _changed_node(_to_node(pod_form(pod)), path, assignment)
    read = read_pods(pod.exists, Node(0, {pod.key: root}), assignment.position)
    for name, container in read[pod.key].containers.items():
        container.exists = name in pod.containers and pod.containers[name].exists
    scenario.pods[pod.key] = read[pod.key]
    if scenario.steps is not None:
        subject = "/".join((pod.key, *prefix[1:]))
        scenario.steps = [_changed_step(step, subject, assignment) for step in scenario.steps]


def _changed_step(step: Step, subject: str, assignment: _Assignment) -> Step:
    """Return a step whose own values of the changed field have the change, too."""
    nested = (_changed_step(nested, subject, assignment) for nested in step.steps)
    step = replace(step, steps=tuple(nested))
    if step.container is not None and step.subject == subject:
        return replace(step, container=_changed_fields(step.container, api.Container, assignment))
    is_its_pod = subject in (step.subject, step.subject.rpartition("/")[0])
    if step.pod is not None and is_its_pod:
        return replace(step, pod=_changed_fields(step.pod, api.PodSandbox, assignment))
    return step


def _changed_fields(
    changes: FieldChanges, kind: type[api.PodSandbox] | type[api.Container], assignment: _Assignment
) -> FieldChanges:
    if assignment.path[0] not in changes.names:
        return changes
    root = _changed_node(_to_node(changes_form(changes)), assignment.path, assignment)
    return read_field_changes(kind, root, assignment.position)


def _to_node(value: YamlValue) -> Node:
    """Return a form as the reader would return it."""
    if isinstance(value, dict):
        return Node(0, {key: _to_node(item) for key, item in value.items()})
    if isinstance(value, list):
        return Node(0, [_to_node(item) for item in value])
    if not isinstance(value, str | int):
        raise TypeError(f"no value of a form: {value!r}")
    return Node(0, value)
