# SPDX-License-Identifier: Apache-2.0
"""Write a scenario as text that people edit and `document` reads back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

from google.protobuf.message import Message

from nri_scope.filter.moments import DURATION_UNITS
from nri_scope.nri.events import EventKind
from nri_scope.nri.plain import fields_of, is_map
from nri_scope.text.escape import safe
from nri_scope.text.yaml_text import FlowMapping, YamlValue, to_yaml

from .messages import ABSENT, message_form
from .model import (
    DEFAULT_NAMESPACE,
    DEFAULT_PAUSE_NS,
    DEFAULT_START_NS,
    VERSION,
    ContainerKind,
    Ending,
    FieldChanges,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    Step,
    Verb,
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
    seconds, nanoseconds = divmod(at_ns, 10**9)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
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
    field = fields_of(type(message))[name]
    if field.has_presence:
        return ABSENT
    if field.is_repeated:
        return {} if is_map(field) else []
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    return cast("YamlValue", field.default_value)


def _step(step: Step) -> Form:
    name = step.what.name if isinstance(step.what, EventKind) else step.what.value
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
