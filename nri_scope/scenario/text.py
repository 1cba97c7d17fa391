# SPDX-License-Identifier: Apache-2.0
"""Write a scenario as text that people edit and `document` reads back, and change fields of it.

A change, ``shop/web/app:annotations.x=y``, names a pod or container, a path in its text form and a
value in YAML. Keys of the path are separated by dots; a key with other characters is quoted or in
brackets. A path that ends with a dash, without a value, removes what it leads to, as
``kubectl label`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.filter.moments import DURATION_UNITS
from nri_scope.nri.events import Event
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, Node, parse_yaml
from nri_scope.text.yaml_text import FlowMapping, YamlValue, to_yaml

from .document import read_field_changes, read_pods
from .messages import ABSENT, message_form
from .model import (
    DEFAULT_NAMESPACE,
    DEFAULT_PAUSE_NS,
    DEFAULT_START_NS,
    VERSION,
    ContainerKind,
    Ending,
    FieldChanges,
    Place,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    Step,
    Verb,
    nearest,
    shown,
)

Form = dict[str, YamlValue]


def scenario_text(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """Return the text of a scenario, which begins with ``comments``."""
    head = "".join(f"# {safe(line)}\n" for line in comments)
    return head + to_yaml(scenario_form(scenario), short_lists=True)


def scenario_form(scenario: Scenario) -> Form:
    """Return the document of a scenario."""
    form: Form = {"scenario": VERSION, "runtime": _runtime(scenario.runtime)}
    if scenario.start_ns != DEFAULT_START_NS:
        form["start"] = _time(scenario.start_ns)
    if scenario.pause_ns != DEFAULT_PAUSE_NS:
        form["every"] = duration_text(scenario.pause_ns)
    existing = {key: pod_form(pod, True) for key, pod in scenario.pods.items() if pod.exists}
    if existing:
        form["existing"] = existing
    later = {key: pod_form(pod, False) for key, pod in scenario.pods.items() if _is_later(pod)}
    if later:
        form["pods"] = later
    if scenario.steps is not None:
        form["steps"] = [_step(step) for step in scenario.steps]
    elif scenario.until is not Ending.RUNNING:
        form["until"] = scenario.until.value
    return form


def duration_text(duration_ns: int) -> str:
    """Return a duration as a whole number of the largest unit that fits."""
    units = sorted(DURATION_UNITS.items(), key=lambda unit: -unit[1])
    unit, scale = next(item for item in units if duration_ns % item[1] == 0 or item[1] == 1)
    return f"{duration_ns // scale}{unit}" if duration_ns else "0s"


def _time(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _runtime(choice: RuntimeChoice) -> YamlValue:
    others: Form = {
        "runtime_name": choice.runtime_name,
        "runtime_version": choice.runtime_version,
        "nri_version": choice.nri_version,
        "request_timeout": _milliseconds(choice.request_timeout_ms),
        "registration_timeout": _milliseconds(choice.registration_timeout_ms),
    }
    given = {name: value for name, value in others.items() if value}
    return {"profile": choice.profile_name, **given} if given else choice.profile_name


def _milliseconds(count: int) -> str:
    return duration_text(count * 1_000_000) if count else ""


def _is_later(pod: ScenarioPod) -> bool:
    return not pod.exists or any(not container.exists for container in pod.containers.values())


def pod_form(pod: ScenarioPod, exists: bool | None = None) -> Form:
    """Return a pod with its containers, or only with those that exist at the start, or do not."""
    containers: Form = {
        key: _container(container)
        for key, container in pod.containers.items()
        if exists is None or container.exists == exists
    }
    form: Form = {}
    if pod.exists and exists is False:
        return {"containers": containers}
    if pod.copies:
        form["copies"] = pod.copies
    namespace, slash, name = pod.key.partition("/")
    if not slash:
        namespace, name = DEFAULT_NAMESPACE, pod.key
    defaults = {"name": name, "namespace": namespace}
    form |= _fields(pod.message, pod.given, defaults)
    return form | ({"containers": containers} if containers else {})


def _container(container: ScenarioContainer) -> Form:
    form: Form = {}
    if container.kind is not ContainerKind.CONTAINER:
        form["kind"] = container.kind.value
    return form | _fields(container.message, container.given, {"name": container.key})


def _fields(message: Message, given: frozenset[str], defaults: dict[str, str]) -> Form:
    """Return the fields that are not as by default, and those that are given with no value."""
    form = message_form(message)
    for name, default in defaults.items():
        if form.get(name) == default:
            del form[name]
        else:
            form.setdefault(name, "")
    for field in message.DESCRIPTOR.fields:
        if field.has_presence or field.name in form or field.name in defaults:
            continue
        if field.name in given:
            form[field.name] = _nothing(message, field.name)
    return form


def _nothing(message: Message, name: str) -> YamlValue:
    """Return the value that stands for a field that is not set."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence:
        return ABSENT
    if field.is_repeated:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        return {} if is_map else []
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    return cast("YamlValue", field.default_value)


def _step(step: Step) -> Form:
    name = step.what.name if isinstance(step.what, Event) else step.what.value
    match step.what:
        case Verb.WAIT:
            return {name: duration_text(step.pause_ns)}
        case Verb.RESTART:
            return {name: "runtime"}
        case Verb.REPEAT:
            return {name: step.times, "steps": [_step(nested) for nested in step.steps]}
    form: Form = {name: step.subject}
    if step.exit_code is not None:
        form["exit_code"] = step.exit_code
    for key, resources in (
        ("linux_resources", step.resources),
        ("overhead_linux_resources", step.overhead),
    ):
        if resources is not None:
            form[key] = message_form(resources)
    for key, changes in (("pod", step.pod), ("container", step.container)):
        if changes is not None:
            form[key] = changes_form(changes)
    return form


def changes_form(changes: FieldChanges) -> Form:
    """Return the new values of fields."""
    form = message_form(changes.message)
    for field in changes.message.DESCRIPTOR.fields:
        if field.name in changes.names and field.name not in form:
            form[field.name] = _nothing(changes.message, field.name)
    is_short = all(isinstance(value, str | int) for value in form.values())
    return FlowMapping(form) if is_short else form


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
    position = 0
    while text[position:] not in ("", "-") and (match := _KEY.match(text, position)) is not None:
        keys.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    if not keys or len(text) > MAX_BYTES:
        raise place.error("not a change", example)
    if text[position:] == "-":
        return tuple(keys), None
    if not text.startswith("=", position):
        raise place.error("not a change", example)
    content = text[position + 1 :]
    try:
        value = parse_yaml(content) if content.strip() else Node(0, "")
    except MalformedYaml as error:
        raise place.error(f"the value is {error.problem}", error.hint) from None
    return tuple(keys), value


def changed_node(node: Node, path: Sequence[str], value: Node | None, place: Place) -> Node:
    """Return a copy of a tree with ``value`` at a path, or, if it is None, without what is there.

    Raises UsageError.
    """
    key, *rest = path
    if isinstance(node.value, list):
        items = list(node.value)
        number = _position(key, items, place, can_append=not rest and value is not None)
        if rest:
            items[number] = changed_node(items[number], rest, value, place)
        elif value is None:
            del items[number]
        else:
            items[number : number + 1] = [value]
        return Node(0, items)
    if not isinstance(node.value, dict):
        raise place.error(f"{shown(key)} is inside of {shown(node.value)}")
    entries = dict(node.value)
    if rest:
        entries[key] = changed_node(entries.get(key, Node(0, {})), rest, value, place)
    elif value is not None:
        entries[key] = value
    elif entries.pop(key, None) is None:
        raise place.error(f"there is no {shown(key)} to remove", nearest(key, entries))
    return Node(0, entries)


def _position(key: str, items: Sequence[Node], place: Place, *, can_append: bool) -> int:
    if not (key.isascii() and key.isdigit()) or len(key) > 9:
        raise place.error(f"{shown(key)} is not the number of an item", "write [0]")
    if int(key) >= len(items) + can_append:
        raise place.error(f"there is no item {key}", f"there are {len(items)}")
    return int(key)


def _apply(scenario: Scenario, change: _Change) -> None:
    names: list[str] = []
    count = 0
    for pod in list(scenario.pods.values()):
        names += [pod.name, *(_name(pod, container) for container in pod.containers.values())]
        if change.subject in (pod.key, pod.name):
            _change_pod(scenario, pod.key, change, ())
            count += 1
            continue
        for container in list(pod.containers.values()):
            if change.subject in (_name(pod, container), f"{pod.key}/{container.key}"):
                _change_pod(scenario, pod.key, change, ("containers", container.key))
                count += 1
    if not count:
        problem = f"there is no pod or container {shown(change.subject)}"
        raise change.place.error(problem, nearest(change.subject, dict.fromkeys(names)))


def _name(pod: ScenarioPod, container: ScenarioContainer) -> str:
    return f"{pod.name}/{container.message.name}"


def _change_pod(scenario: Scenario, key: str, change: _Change, prefix: tuple[str, ...]) -> None:
    pod = scenario.pods[key]
    path = (*prefix, *change.path)
    root = changed_node(to_node(pod_form(pod)), path, change.value, change.place)
    read = read_pods(pod.exists, Node(0, {pod.key: root}), change.place)
    for name, container in read[pod.key].containers.items():
        container.exists = name in pod.containers and pod.containers[name].exists
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
    return read_field_changes(kind, root, change.place)


def to_node(value: YamlValue) -> Node:
    """Return a form as the reader would return it."""
    if isinstance(value, dict):
        return Node(0, {key: to_node(item) for key, item in value.items()})
    if isinstance(value, list):
        return Node(0, [to_node(item) for item in value])
    if not isinstance(value, str | int):
        raise TypeError(f"no value of a form: {value!r}")
    return Node(0, value)
