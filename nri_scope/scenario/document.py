# SPDX-License-Identifier: Apache-2.0
"""The format of scenarios: all keys, their meaning, and the values that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import PASSIVE_EVENTS, POD_EVENTS, Event
from nri_scope.nri.versions import NriVersion
from nri_scope.text.yaml_reader import Node

from .messages import MessageShape
from .model import (
    DEFAULT_NAMESPACE,
    DEFAULT_PROFILE,
    MAX_COPIES,
    PROFILE_NAMES,
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
from .place import Place, shown
from .shapes import (
    Choice,
    Definitions,
    Duration,
    Integer,
    Key,
    ListOf,
    Rate,
    Record,
    Schema,
    Text,
    TextOr,
    Time,
    mapping_of,
    properties,
)

MAX_REPETITIONS = 100_000
MAX_DEPTH = 8
"""Maximum depth of repeated steps."""

_MILLISECOND_NS = 1_000_000
_ABOUT_CONTAINER = frozenset({Verb.CREATE, Verb.START, Verb.CRASH})
_WITHOUT_SUBJECT = frozenset({Verb.WAIT, Verb.RESTART, Verb.REPEAT})
_UPDATES = frozenset({Verb.UPDATE, Event.UpdateContainer, Event.UpdatePodSandbox})
_ENDS = frozenset({Verb.STOP, Verb.CRASH, Event.StopContainer})


# -- pods and containers ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContainersShape:
    """The containers of a pod by name, in the order in which they are created."""

    exist: bool

    def read(self, node: Node, place: Place) -> dict[str, ScenarioContainer]:
        """Return the containers by key."""
        found: dict[str, ScenarioContainer] = {}
        for key, value in mapping_of(node, place).items():
            at = place.key(key, value.line)
            if not key or "/" in key:
                raise at.error("not the name of a container", "write a name without /")
            message, values, given = _CONTAINER.parts(value, at)
            container = cast("api.Container", message)
            if "name" not in given:
                container.name = key
            kind = ContainerKind(values.get("kind", ContainerKind.CONTAINER))
            found[key] = ScenarioContainer(key, container, kind, frozenset(given), self.exist)
        return found

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return _named(_CONTAINER, "scenario_container", definitions)


@dataclass(frozen=True, slots=True)
class PodsShape:
    """Pods by name, or namespace and name."""

    exist: bool

    def read(self, node: Node, place: Place) -> dict[str, ScenarioPod]:
        """Return the pods by key."""
        found: dict[str, ScenarioPod] = {}
        for key, value in mapping_of(node, place).items():
            at = place.key(key, value.line)
            namespace, slash, name = key.partition("/")
            if not slash:
                namespace, name = DEFAULT_NAMESPACE, key
            if not name or not namespace or "/" in name:
                raise at.error("not the name of a pod", "write NAME or NAMESPACE/NAME")
            message, values, given = _POD[self.exist].parts(value, at)
            pod = cast("api.PodSandbox", message)
            if "name" not in given:
                pod.name = name
            if "namespace" not in given:
                pod.namespace = namespace
            found[key] = ScenarioPod(
                key,
                pod,
                values.get("containers", {}),
                values.get("copies", 0),
                self.exist,
                frozenset(given),
            )
        return found

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return _named(_POD[self.exist], "scenario_pod", definitions)


def _named(shape: MessageShape, name: str, definitions: Definitions) -> Schema:
    if name not in definitions:
        definitions[name] = shape.schema(definitions)
    return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{name}"}}


_CONTAINER = MessageShape(
    api.Container,
    {
        "kind": Key(
            Choice([*ContainerKind]),
            "init: it exits before the next one starts; sidecar: it starts before those that are "
            "neither, and runs beside them",
        )
    },
)
_POD = {
    exist: MessageShape(
        api.PodSandbox,
        {
            "copies": Key(
                Integer(1, MAX_COPIES),
                "number of pods like this one, named NAME-1 and so on, each with its own id, uid "
                "and address",
            ),
            "containers": Key(
                ContainersShape(exist), "by name, in the order in which they are created"
            ),
        },
    )
    for exist in (False, True)
}


# -- steps ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangesShape:
    """New values of fields of a pod or a container."""

    kind: type[api.PodSandbox] | type[api.Container]

    def read(self, node: Node, place: Place) -> FieldChanges:
        """Return the changes."""
        message, _, names = MessageShape(self.kind, can_remove=True).parts(node, place)
        return FieldChanges(message, frozenset(names))

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        name = f"changes_of_{self.kind.DESCRIPTOR.name}"
        if name not in definitions:
            shape = MessageShape(self.kind, can_remove=True)
            definitions[name] = shape.schema(definitions)
        return {"$ref": f"#/$defs/{name}"}


_SUBJECT = Text()
_STEP_KEYS: Mapping[str, Key] = {
    Verb.RUN: Key(_SUBJECT, "a pod starts to run"),
    Verb.CREATE: Key(_SUBJECT, "a container is created; again: with a new id"),
    Verb.START: Key(_SUBJECT, "a container is started"),
    Verb.UPDATE: Key(_SUBJECT, "a container or a pod gets the resources in linux_resources"),
    Verb.STOP: Key(_SUBJECT, "a container, or a pod with its containers, is stopped"),
    Verb.CRASH: Key(_SUBJECT, "a container exits by itself"),
    Verb.REMOVE: Key(_SUBJECT, "a container, or a pod with its containers, is removed"),
    Verb.RESTART: Key(Choice(["runtime"]), "the runtime restarts, and lists what exists"),
    Verb.WAIT: Key(Duration(), "nothing happens for this time"),
    Verb.REPEAT: Key(Integer(1, MAX_REPETITIONS), "the number of times to do steps"),
    **{
        event.name: Key(_SUBJECT, f"only the event {event.name}, in any state")
        for event in Event
        if event in PASSIVE_EVENTS
    },
}
_OPTION_KEYS: Mapping[str, Key] = {
    "linux_resources": Key(MessageShape(api.LinuxResources), "the resources of an update"),
    "overhead_linux_resources": Key(
        MessageShape(api.LinuxResources), "in an update of a pod: those of its overhead"
    ),
    "exit_code": Key(Integer(-(2**31), 2**31 - 1), "the exit status of the container"),
    "pod": Key(
        ChangesShape(api.PodSandbox),
        "new values of the pod's fields, from this step on; a value replaces the whole field",
    ),
    "container": Key(ChangesShape(api.Container), "the same for the container's fields"),
}


@dataclass(frozen=True, slots=True)
class StepsShape:
    """A list of steps."""

    depth: int = 0

    def read(self, node: Node, place: Place) -> tuple[Step, ...]:
        """Return the steps."""
        if self.depth > MAX_DEPTH:
            raise place.error(f"repeated steps are nested deeper than {MAX_DEPTH} levels")
        return tuple(ListOf(Record(self._keys(), make=_make_step)).read(node, place))

    def _keys(self) -> dict[str, Key]:
        steps = Key(StepsShape(self.depth + 1), "the steps to repeat")
        return {**_STEP_KEYS, **_OPTION_KEYS, "steps": steps}

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        if "steps" not in definitions:
            definitions["steps"] = {}
            steps: Schema = {"$ref": "#/$defs/steps", "description": "the steps to repeat"}
            keys = properties({**_STEP_KEYS, **_OPTION_KEYS}, definitions)
            definitions["steps"] = {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {**keys, "steps": steps},
                    "oneOf": [{"required": [str(name)]} for name in _STEP_KEYS],
                },
            }
        return {"$ref": "#/$defs/steps"}


def _make_step(values: dict[str, Any], place: Place) -> Step:
    given = [name for name in values if name in _STEP_KEYS]
    if len(given) != 1:
        problem = f"{' and '.join(given)} exclude each other" if given else "it does nothing"
        raise place.error(problem, "write one of them for each step" if given else _verbs())
    (name,) = given
    what: Verb | Event = Event[name] if name in Event.__members__ else Verb(name)
    place = place.key(name, place.line)
    value = values[name]
    _check_options(what, values, place)
    return Step(
        what,
        "" if what in _WITHOUT_SUBJECT else value,
        place,
        values.get("pod"),
        values.get("container"),
        values.get("linux_resources"),
        values.get("overhead_linux_resources"),
        values.get("exit_code"),
        value if what is Verb.WAIT else 0,
        value if what is Verb.REPEAT else 0,
        values.get("steps", ()),
    )


def _verbs() -> str:
    return f"a step has one of {', '.join(Verb)}, or the name of an event"


def _check_options(what: Verb | Event, values: Mapping[str, Any], place: Place) -> None:
    name = what.name if isinstance(what, Event) else what.value
    allowed = {name}
    if what is Verb.REPEAT:
        allowed.add("steps")
        if "steps" not in values:
            raise place.error("the key steps is missing")
    elif what not in _WITHOUT_SUBJECT:
        allowed |= {"pod"}
        if what is not Verb.RUN and what not in POD_EVENTS:
            allowed.add("container")
        if what in _UPDATES:
            allowed.add("linux_resources")
        if what in (Verb.UPDATE, Event.UpdatePodSandbox):
            allowed.add("overhead_linux_resources")
        if what in _ENDS:
            allowed.add("exit_code")
    for other in values:
        if other not in allowed:
            raise place.error(f"it takes no {other}", f"it may have {_listed(allowed - {name})}")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no other key"


# -- the whole document -----------------------------------------------------------------------


def _make_runtime(values: dict[str, Any], place: Place) -> RuntimeChoice:
    version = values.get("nri_version", "")
    if version and NriVersion.parse(version) is None:
        problem = f"nri_version {shown(version)} is not a version"
        raise place.error(problem, "write for example 0.8.0")
    return RuntimeChoice(
        values["profile"],
        values.get("runtime_name", ""),
        values.get("runtime_version", ""),
        version,
        _milliseconds(values.get("request_timeout", 0)),
        _milliseconds(values.get("registration_timeout", 0)),
    )


def _milliseconds(duration_ns: int) -> int:
    return -(-duration_ns // _MILLISECOND_NS)


_PROFILE = Choice(PROFILE_NAMES)
_RUNTIME = Record(
    {
        "profile": Key(_PROFILE, "the profile whose behaviour it has"),
        "runtime_name": Key(Text(), "its name in Configure"),
        "runtime_version": Key(Text(), "its version in Configure"),
        "nri_version": Key(Text(), "the version of NRI, which determines events and messages"),
        "request_timeout": Key(Duration(), "the deadline of each request"),
        "registration_timeout": Key(Duration(), "the deadline of a registration"),
    },
    ("profile",),
    _make_runtime,
)


@dataclass(frozen=True, slots=True)
class ProfileShape:
    """The name of a profile."""

    def read(self, node: Node, place: Place) -> RuntimeChoice:
        """Return the runtime with this profile."""
        return RuntimeChoice(_PROFILE.read(node, place))

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return _PROFILE.schema(definitions)


KEYS: Mapping[str, Key] = {
    "scenario": Key(Integer(VERSION, VERSION), "the version of this format"),
    "runtime": Key(TextOr(ProfileShape(), _RUNTIME), f"the runtime; by default {DEFAULT_PROFILE}"),
    "start": Key(Time(), "the time of the first request"),
    "every": Key(Duration(), "the time between two events; by default 10ms"),
    "rate": Key(Rate(), "the same as a number of events in a time, such as 50/s"),
    "existing": Key(PodsShape(True), "pods that exist at the start, with running containers"),
    "pods": Key(
        PodsShape(False), "pods that start later, and later containers of those in existing"
    ),
    "steps": Key(StepsShape(), "what happens; by default, each pod in pods starts to run"),
    "until": Key(
        Choice([*Ending]), "without steps: the last state of the pods; by default running"
    ),
}


def _add_later(existing: ScenarioPod, later: ScenarioPod, place: Place) -> None:
    """Add the containers that are created later to a pod that exists at the start."""
    if later.given or later.copies:
        hint = "write only its containers here, which are created later"
        raise place.error("it is listed in existing, too", hint)
    for key, one in later.containers.items():
        if key in existing.containers:
            raise place.key("containers", 0).key(key, 0).error("it is listed in existing, too")
        existing.containers[key] = one


def _make_scenario(values: dict[str, Any], place: Place) -> Scenario:
    for one, other in (("every", "rate"), ("steps", "until")):
        if one in values and other in values:
            raise place.error(f"{one} and {other} exclude each other", "remove one of them")
    scenario = Scenario(source=place.source)
    scenario.runtime = values.get("runtime", scenario.runtime)
    scenario.start_ns = values.get("start", scenario.start_ns)
    scenario.pause_ns = values.get("every", values.get("rate", scenario.pause_ns))
    scenario.steps = values.get("steps")
    scenario.until = Ending(values.get("until", scenario.until))
    for name in ("existing", "pods"):
        for key, pod in values.get(name, {}).items():
            if key in scenario.pods:
                _add_later(scenario.pods[key], pod, place.key(name, 0).key(key, 0))
            else:
                scenario.pods[key] = pod
    return scenario


SCENARIO = Record(KEYS, ("scenario",), _make_scenario)
"""The shape of a whole document."""


def read_document(root: Node, place: Place) -> Scenario:
    """Return the scenario in a document. Raises ScenarioError."""
    top = mapping_of(root, place)
    version = top.get("scenario")
    if version is None:
        raise place.error("not a scenario: the key scenario is missing", "add scenario: 1")
    is_number = isinstance(version.value, int) and not isinstance(version.value, bool)
    if is_number and cast("int", version.value) > VERSION:
        raise place.key("scenario", version.line).error(
            f"version {version.value} is not supported: this nri-scope reads version {VERSION}",
            "upgrade nri-scope",
        )
    scenario = SCENARIO.read(root, place)
    assert isinstance(scenario, Scenario)
    return scenario
