# SPDX-License-Identifier: Apache-2.0
"""The steps of scenarios: their keys, and the values that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import PASSIVE_EVENTS, POD_EVENTS, Event
from nri_scope.text.yaml_reader import Node

from .messages import MessageShape
from .model import FieldChanges, Step, Verb
from .place import Place
from .shapes import (
    Record,
    Shape,
    choice,
    duration,
    integer,
    list_of,
    text_of,
)

MAX_REPETITIONS = 100_000
MAX_DEPTH = 8
"""Maximum depth of repeated steps."""

_WITHOUT_SUBJECT = frozenset({Verb.WAIT, Verb.RESTART, Verb.REPEAT})
_UPDATES = frozenset({Verb.UPDATE, Event.UpdateContainer, Event.UpdatePodSandbox})
_ENDS = frozenset({Verb.STOP, Verb.CRASH, Event.StopContainer})


@dataclass(frozen=True, slots=True)
class ChangesShape:
    """New values of fields of a pod or a container."""

    kind: type[api.PodSandbox] | type[api.Container]

    def read(self, node: Node, place: Place) -> FieldChanges:
        """Return the changes."""
        message, _, names = MessageShape(self.kind, can_remove=True).parts(node, place)
        return FieldChanges(message, frozenset(names))


_STEP_KEYS: Mapping[str, Shape] = {
    **{verb: text_of for verb in Verb if verb not in _WITHOUT_SUBJECT},
    **{event.name: text_of for event in Event if event in PASSIVE_EVENTS},
    Verb.RESTART: choice(["runtime"]),
    Verb.WAIT: duration,
    Verb.REPEAT: integer(1, MAX_REPETITIONS),
}
"""What a step does: the name of a verb or of an event, with its subject."""
_OPTION_KEYS: Mapping[str, Shape] = {
    "linux_resources": MessageShape(api.LinuxResources).read,
    "overhead_linux_resources": MessageShape(api.LinuxResources).read,
    "exit_code": integer(-(2**31), 2**31 - 1),
    "pod": ChangesShape(api.PodSandbox).read,
    "container": ChangesShape(api.Container).read,
}


@dataclass(frozen=True, slots=True)
class StepsShape:
    """A list of steps."""

    depth: int = 0

    def read(self, node: Node, place: Place) -> tuple[Step, ...]:
        """Return the steps."""
        if self.depth > MAX_DEPTH:
            raise place.error(f"repeated steps are nested deeper than {MAX_DEPTH} levels")
        step = Record(self._keys(), make=_make_step)
        return tuple(
            step.read(item, place.item(number, item.line))
            for number, item in enumerate(list_of(node, place))
        )

    def _keys(self) -> dict[str, Shape]:
        return {**_STEP_KEYS, **_OPTION_KEYS, "steps": StepsShape(self.depth + 1).read}


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
