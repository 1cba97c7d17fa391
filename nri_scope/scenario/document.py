# SPDX-License-Identifier: Apache-2.0
"""The format of scenarios: all keys, their meaning, and the values that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.versions import NriVersion
from nri_scope.text.yaml_reader import Node

from .messages import MessageShape
from .model import (
    DEFAULT_NAMESPACE,
    MAX_COPIES,
    PROFILE_NAMES,
    VERSION,
    ContainerKind,
    Ending,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
)
from .place import Place, meant, shown
from .shapes import (
    Record,
    Shape,
    choice,
    duration,
    integer,
    mapping_of,
    rate,
    text_of,
    time,
)
from .step_shapes import StepsShape

_MILLISECOND_NS = 1_000_000

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


@dataclass(frozen=True, slots=True)
class PodsShape:
    """Pods by name, or namespace and name."""

    exist: bool

    def read(self, node: Node, place: Place) -> dict[str, ScenarioPod]:
        """Return the pods by key."""
        found: dict[str, ScenarioPod] = {}
        ids: dict[str, str] = {}
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
            containers = values.get("containers", {})
            names = {f"{key}/{one.key}": one.message.id for one in containers.values()}
            for owner, number in {key: pod.id, **names}.items():
                if number and ids.setdefault(number, owner) != owner:
                    problem = f"{owner} has the id of {ids[number]}"
                    raise at.error(problem, "remove its id, so that one is derived from its name")
            found[key] = ScenarioPod(
                key,
                pod,
                containers,
                values.get("copies", 0),
                self.exist,
                frozenset(given),
            )
        return found


_CONTAINER = MessageShape(api.Container, {"kind": choice([*ContainerKind])})
_POD = {
    exist: MessageShape(
        api.PodSandbox,
        {"copies": integer(1, MAX_COPIES), "containers": ContainersShape(exist).read},
    )
    for exist in (False, True)
}


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


def _runtime(node: Node, place: Place) -> RuntimeChoice:
    """Return the runtime of a mapping, or by the name of its profile."""
    is_name = not isinstance(node.value, dict | list)
    runtime: RuntimeChoice
    runtime = RuntimeChoice(_PROFILE(node, place)) if is_name else _RUNTIME.read(node, place)
    return runtime


KEYS: Mapping[str, Shape] = {
    "scenario": integer(VERSION, VERSION),
    "runtime": _runtime,
    "start": time,
    "every": duration,
    "rate": rate,
    "existing": PodsShape(True).read,
    "pods": PodsShape(False).read,
    "steps": StepsShape().read,
    "until": choice([*Ending]),
}
"""Keys of a document; docs/scenarios.md describes them."""


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
        for key, node in top.items():
            if meant(key, ["scenario"]):
                raise place.key(key, node.line).error("unknown key", "did you mean scenario?")
        hint = "add scenario: 1; a manifest has the keys apiVersion and kind"
        raise place.error("not a scenario: the key scenario is missing", hint)
    is_number = isinstance(version.value, int) and not isinstance(version.value, bool)
    if is_number and cast("int", version.value) > VERSION:
        raise place.key("scenario", version.line).error(
            f"version {version.value} is not supported: this nri-scope reads version {VERSION}",
            "upgrade nri-scope",
        )
    scenario = SCENARIO.read(root, place)
    assert isinstance(scenario, Scenario)
    return scenario
