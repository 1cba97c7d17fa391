# SPDX-License-Identifier: Apache-2.0
"""The state of a simulated node: connections, requests, creations and the lives of containers."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope import specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Role


@dataclass
class Connection:
    """A plugin or probe of the chain."""

    plugin: str
    role: Role | None
    """None: not observed."""
    mask: int
    session: int = 0
    gone: bool = False

    @property
    def passive(self) -> bool:
        return self.role == Role.PROBE


@dataclass
class Claim:
    """A plugin's request at one path of one container."""

    operation: int
    plugin: str
    container: str
    path: str


@dataclass
class Creation:
    """One attempt to create a container."""

    container: str
    operation: int
    at_ns: int
    events: list[int] = field(default_factory=list)
    """Recorded CreateContainer and ValidateContainerAdjustment events."""
    failure: str = ""
    before: specs.Spec = field(default_factory=dict)
    found: dict[str, specs.Spec] = field(default_factory=dict)
    """The container's spec before each plugin, and at the end of the chain (``""``)."""
    undoing: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """The real state of a container after one operation."""

    operation: int
    at_ns: int
    real: specs.Spec
    effects: dict[str, specs.Json] = field(default_factory=dict)

    def found(self, path: str) -> specs.Json | specs.Absent:
        """Return the real value at a path."""
        if path in self.effects:
            return self.effects[path]
        above = path.rpartition("/")[0]
        if path.count("/") > 4 and above in self.effects:
            return None
        return specs.value_at(self.real, path)

    def value(self, path: str) -> specs.Json:
        """Return the real value at a path; None if there is none."""
        found = self.found(path)
        return None if found is specs.ABSENT else found


_NOTHING = State(0, 0, {})


@dataclass
class Life:
    """Real state of one container."""

    id: str
    message: api.Container
    """The runtime's NRI message of it."""
    real: specs.Spec
    """The runtime's own spec; the container's real values are these, overridden by `effects`."""
    effects: dict[str, specs.Json] = field(default_factory=dict)
    """Real values that differ from `real`, by path."""
    requested: dict[str, str] = field(default_factory=dict)
    """Annotations of the CRI request."""
    state: str = "created"
    ended: int = 0
    """First operation after which the runtime no longer updates it; 0: none."""
    done: int = 0
    """Last operation that changed it."""
    shown_at: int = 0
    """Newest operation with a recorded event that shows its real state."""
    never_ran: bool = False
    """Whether the OCI runtime refused to start it."""
    past: list[State] = field(default_factory=list)
    """Its states in order, one after each operation that changed it."""

    def keep(self, operation: int, at_ns: int) -> None:
        self.done = operation
        self.past.append(State(operation, at_ns, self.real, dict(self.effects)))

    def after(self, operation: int) -> State:
        """Return its state after an operation; an empty one before its creation."""
        some = [one for one in self.past if one.operation <= operation]
        return some[-1] if some else _NOTHING

    def at(self, at_ns: int) -> State:
        """Return its state at a time; an empty one before its creation."""
        some = [one for one in self.past if one.at_ns <= at_ns]
        return some[-1] if some else _NOTHING

    def between(self, from_ns: int, to_ns: int) -> list[State]:
        """Return its states from one time to another."""
        some = [one for one in self.past if from_ns < one.at_ns <= to_ns]
        return [self.at(from_ns), *some]
