# SPDX-License-Identifier: Apache-2.0
"""Scenarios as documents: all keys, their meaning and values, read from text and files.

Files may be untrusted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import PASSIVE_EVENTS, POD_EVENTS, EventKind
from nri_scope.nri.versions import NriVersion
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.schema_check import FIRST_BYTES, STANDARD_INPUT
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, Node, parse_yaml
from nri_scope.text.yaml_text import to_yaml

from .messages import FieldsReader, message_form
from .model import (
    DEFAULT_NAMESPACE,
    MAX_COPIES,
    PROFILE_NAMES,
    VERSION,
    ContainerKind,
    Ending,
    FieldChanges,
    Position,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    Step,
    Verb,
    meant,
    shown,
)
from .value_readers import (
    Record,
    ValueReader,
    choice,
    duration,
    integer,
    list_of,
    mapping_of,
    text_of,
    time,
)

MAX_REPETITIONS = 100_000
MAX_DEPTH = 8
"""Maximum depth of repeated steps."""

_WITHOUT_SUBJECT = frozenset({Verb.WAIT, Verb.RESTART, Verb.REPEAT})
_UPDATES = frozenset({Verb.UPDATE, EventKind.UpdateContainer, EventKind.UpdatePodSandbox})
_ENDS = frozenset({Verb.STOP, Verb.CRASH, EventKind.StopContainer})


def read_field_changes(
    kind: type[api.PodSandbox] | type[api.Container], node: Node, position: Position
) -> FieldChanges:
    """Return the new values of fields of a pod or a container."""
    message, _, names = FieldsReader(kind, can_remove=True).parts(node, position)
    return FieldChanges(message, frozenset(names))


_STEP_KEYS: Mapping[str, ValueReader] = {
    **{verb: text_of for verb in Verb if verb not in _WITHOUT_SUBJECT},
    **{event.name: text_of for event in EventKind if event in PASSIVE_EVENTS},
    Verb.RESTART: choice(["runtime"]),
    Verb.WAIT: duration,
    Verb.REPEAT: integer(1, MAX_REPETITIONS),
}
"""What a step does: the name of a verb or of an event, with its subject."""
_OPTION_KEYS: Mapping[str, ValueReader] = {
    "linux_resources": FieldsReader(api.LinuxResources).read,
    "overhead_linux_resources": FieldsReader(api.LinuxResources).read,
    "exit_code": integer(-(2**31), 2**31 - 1),
    "pod": partial(read_field_changes, api.PodSandbox),
    "container": partial(read_field_changes, api.Container),
}


def _read_steps(depth: int, node: Node, position: Position) -> tuple[Step, ...]:
    """Return the steps of a list, which is inside of ``depth`` repetitions."""
    if depth > MAX_DEPTH:
        raise position.error(f"repeated steps are nested deeper than {MAX_DEPTH} levels")
    inner = partial(_read_steps, depth + 1)
    step = Record({**_STEP_KEYS, **_OPTION_KEYS, "steps": inner}, make=_make_step)
    return tuple(
        step.read(item, position.item(number, item.line))
        for number, item in enumerate(list_of(node, position))
    )


def _make_step(values: dict[str, Any], position: Position) -> Step:
    given = [name for name in values if name in _STEP_KEYS]
    if len(given) != 1:
        problem = f"{' and '.join(given)} exclude each other" if given else "it does nothing"
        raise position.error(problem, "write one of them for each step" if given else _verbs())
    (name,) = given
    what: Verb | EventKind = EventKind[name] if name in EventKind.__members__ else Verb(name)
    position = position.key(name, position.line)
    value = values[name]
    _check_options(what, values, position)
    return Step(
        what,
        "" if what in _WITHOUT_SUBJECT else value,
        position,
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


def _check_options(what: Verb | EventKind, values: Mapping[str, Any], position: Position) -> None:
    name = what.name if isinstance(what, EventKind) else what.value
    allowed = {name}
    if what is Verb.REPEAT:
        allowed.add("steps")
        if "steps" not in values:
            raise position.error("the key steps is missing")
    elif what not in _WITHOUT_SUBJECT:
        allowed |= {"pod"}
        if what is not Verb.RUN and what not in POD_EVENTS:
            allowed.add("container")
        if what in _UPDATES:
            allowed.add("linux_resources")
        if what in (Verb.UPDATE, EventKind.UpdatePodSandbox):
            allowed.add("overhead_linux_resources")
        if what in _ENDS:
            allowed.add("exit_code")
    for key in values:
        if key not in allowed:
            raise position.error(f"it takes no {key}", f"it may have {_listed(allowed - {name})}")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no other key"


_MILLISECOND_NS = 1_000_000

# -- pods and containers ----------------------------------------------------------------------


def _read_containers(exist: bool, node: Node, position: Position) -> dict[str, ScenarioContainer]:
    """Return the containers of a pod by key, in the order in which they are created."""
    containers: dict[str, ScenarioContainer] = {}
    for key, value in mapping_of(node, position).items():
        inner = position.key(key, value.line)
        if not key or "/" in key:
            raise inner.error("not the name of a container", "write a name without /")
        message, values, given = _CONTAINER.parts(value, inner)
        container = cast("api.Container", message)
        if "name" not in given:
            container.name = key
        kind = ContainerKind(values.get("kind", ContainerKind.CONTAINER))
        containers[key] = ScenarioContainer(key, container, kind, frozenset(given), exist)
    return containers


def read_pods(exist: bool, node: Node, position: Position) -> dict[str, ScenarioPod]:
    """Return the pods by key, which is a name, or a namespace and a name."""
    pods: dict[str, ScenarioPod] = {}
    ids: dict[str, str] = {}
    for key, value in mapping_of(node, position).items():
        inner = position.key(key, value.line)
        namespace, slash, name = key.partition("/")
        if not slash:
            namespace, name = DEFAULT_NAMESPACE, key
        if not name or not namespace or "/" in name:
            raise inner.error("not the name of a pod", "write NAME or NAMESPACE/NAME")
        message, values, given = _POD[exist].parts(value, inner)
        pod = cast("api.PodSandbox", message)
        if "name" not in given:
            pod.name = name
        if "namespace" not in given:
            pod.namespace = namespace
        containers = values.get("containers", {})
        own = {f"{key}/{container.key}": container.message.id for container in containers.values()}
        if len(own) == 1 and pod.id in own.values():
            # In Docker Engine, each container is its own pod.
            own = {}
        for owner, number in {key: pod.id, **own}.items():
            if number and ids.setdefault(number, owner) != owner:
                problem = f"{owner} has the id of {ids[number]}"
                raise inner.error(problem, "remove its id, so that one is derived from its name")
        pods[key] = ScenarioPod(
            key,
            pod,
            containers,
            values.get("copies", 0),
            exist,
            frozenset(given),
        )
    return pods


_CONTAINER = FieldsReader(api.Container, {"kind": choice([*ContainerKind])})
_POD = {
    exist: FieldsReader(
        api.PodSandbox,
        {"copies": integer(1, MAX_COPIES), "containers": partial(_read_containers, exist)},
    )
    for exist in (False, True)
}


# -- the whole document -----------------------------------------------------------------------


def _make_runtime(values: dict[str, Any], position: Position) -> RuntimeChoice:
    version = values.get("nri_version", "")
    if version and NriVersion.parse(version) is None:
        problem = f"nri_version {shown(version)} is not a version"
        raise position.error(problem, "write for example 0.8.0")
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


_PROFILE = choice(PROFILE_NAMES)
_RUNTIME = Record(
    {
        "profile": _PROFILE,
        "runtime_name": text_of,
        "runtime_version": text_of,
        "nri_version": text_of,
        "request_timeout": duration,
        "registration_timeout": duration,
    },
    ("profile",),
    _make_runtime,
)


def _runtime(node: Node, position: Position) -> RuntimeChoice:
    """Return the runtime of a mapping, or by the name of its profile."""
    is_name = not isinstance(node.value, dict | list)
    runtime: RuntimeChoice
    runtime = RuntimeChoice(_PROFILE(node, position)) if is_name else _RUNTIME.read(node, position)
    return runtime


KEYS: Mapping[str, ValueReader] = {
    "scenario": integer(VERSION, VERSION),
    "runtime": _runtime,
    "start": time,
    "every": duration,
    "existing": partial(read_pods, True),
    "pods": partial(read_pods, False),
    "steps": partial(_read_steps, 0),
    "until": choice([*Ending]),
}
"""Keys of a document; docs/scenarios.md describes them."""


def _add_later(existing: ScenarioPod, later: ScenarioPod, position: Position) -> None:
    """Add the containers that are created later to a pod that exists at the start."""
    if later.given or later.copies:
        hint = "write only its containers here, which are created later"
        raise position.error("it is listed in existing, too", hint)
    for key, container in later.containers.items():
        if key in existing.containers:
            raise position.key("containers", 0).key(key, 0).error("it is listed in existing, too")
        existing.containers[key] = container


def _make_scenario(values: dict[str, Any], position: Position) -> Scenario:
    if "steps" in values and "until" in values:
        raise position.error("steps and until exclude each other", "remove one of them")
    scenario = Scenario(source=position.source)
    scenario.runtime = values.get("runtime", scenario.runtime)
    scenario.start_ns = values.get("start", scenario.start_ns)
    scenario.pause_ns = values.get("every", scenario.pause_ns)
    scenario.steps = values.get("steps")
    scenario.until = Ending(values.get("until", scenario.until))
    for name in ("existing", "pods"):
        for key, pod in values.get(name, {}).items():
            if key in scenario.pods:
                _add_later(scenario.pods[key], pod, position.key(name, 0).key(key, 0))
            else:
                scenario.pods[key] = pod
    return scenario


SCENARIO = Record(KEYS, ("scenario",), _make_scenario)
"""The reader of a whole document."""


def read_document(root: Node, position: Position) -> Scenario:
    """Return the scenario in a document. Raises UsageError."""
    top = mapping_of(root, position)
    version = top.get("scenario")
    if version is None:
        for key, node in top.items():
            if meant(key, ["scenario"]):
                raise position.key(key, node.line).error("unknown key", "did you mean scenario?")
        hint = "add scenario: 1; a manifest has the keys apiVersion and kind"
        raise position.error("not a scenario: the key scenario is missing", hint)
    is_number = isinstance(version.value, int) and not isinstance(version.value, bool)
    if is_number and cast("int", version.value) > VERSION:
        raise position.key("scenario", version.line).error(
            f"version {version.value} is not supported: this nri-scope reads version {VERSION}",
            "upgrade nri-scope",
        )
    scenario = SCENARIO.read(root, position)
    assert isinstance(scenario, Scenario)
    return scenario


def source_name(path: Path) -> str:
    """Return how errors name a file."""
    return "standard input" if path == STANDARD_INPUT else safe(str(path))


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for `STANDARD_INPUT`.

    Pipes are read, too. Raises UsageError.
    """
    name = source_name(path)
    try:
        if path == STANDARD_INPUT:
            # Python has no stdin if it was started with a closed descriptor.
            if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
                raise UsageError("standard input is closed", "name a file instead of -")
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", "check the path") from None
    except (OSError, ValueError) as error:
        problem = error_words(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name}: cannot be read: {problem}", "name a readable file") from None
    if content.startswith(FIRST_BYTES):
        raise UsageError(
            f"{name}: a recording, not text", "`scenario from-recording` makes a scenario of it"
        )
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"{name}: larger than {MAX_BYTES >> 20} MiB", "a scenario can have copies of a pod"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: not UTF-8", "save it as UTF-8") from None


def parse_document(text: str, source: str) -> Node:
    """Return the only document in a text. Raises UsageError."""
    try:
        return parse_yaml(text)
    except MalformedYaml as error:
        raise Position(source, error.line).error(error.problem, error.hint) from None


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """Return the scenario in a text; ``source`` names it in errors. Raises UsageError."""
    return read_document(parse_document(text, source), Position(source, 1))


_Message = TypeVar("_Message", bound=Message)


def message_text(message: Message) -> str:
    """Return a message as YAML; "" for an empty one."""
    form = message_form(message)
    return to_yaml(form) if form else ""


def read_message(text: str, kind: type[_Message], source: str) -> _Message:
    """Return the message in a text, of which comments may be all. Raises UsageError.

    ``source`` names the text in errors.
    """
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return kind()
    message = FieldsReader(kind).read(parse_document(text, source), Position(source, 1))
    assert isinstance(message, kind)
    return message
