# SPDX-License-Identifier: Apache-2.0
"""A scenario as values: its runtime, its pods and containers, and what happens to them.

Errors of a document name its position: ``web.yaml:12: pods.web.containers.app.env: …``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError, nearest_word
from nri_scope.nri.events import EventKind
from nri_scope.nri.plain import clear_fields
from nri_scope.runtime import PROFILES, Profile, profile_named
from nri_scope.text.escape import safe

_SHOWN = 80
"""Maximum number of characters of a key or value in an error."""
_KEYS_SHOWN = 400
"""Maximum number of characters of a path in an error."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a document."""

    source: str
    """Name of the file, or what stands for it."""
    line: int = 0
    """From 1; 0 if it concerns the whole document."""
    path: str = ""
    """Keys from the top, separated by dots."""
    has_lines: bool = True
    """Whether errors name lines; not for a change that is given as an argument."""

    def key(self, name: str, line: int) -> Position:
        """Return the position of a mapping's key."""
        return self._with_path(f"{self.path}.{name[:_SHOWN]}" if self.path else name[:_SHOWN], line)

    def item(self, number: int, line: int) -> Position:
        """Return the position of a list's item; ``number`` counts from 0."""
        return self._with_path(f"{self.path}[{number}]", line)

    def _with_path(self, path: str, line: int) -> Position:
        if len(path) > _KEYS_SHOWN:
            path = f"…{path[-_KEYS_SHOWN:]}"
        return replace(self, line=line if self.has_lines else 0, path=path)

    def error(self, problem: str, hint: str = "") -> UsageError:
        """Return the error of this position, with which its text begins."""
        line = f":{self.line}" if self.line else ""
        path = f"{self.path}: " if self.path else ""
        return UsageError(safe(f"{self.source}{line}: {path}{problem}"), safe(hint))


def shown(value: object) -> str:
    """Return a value of the document for an error, shortened."""
    text = f"{value!r}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def meant(written: str, candidates: Iterable[str]) -> str:
    """Return the known name of which ``written`` is probably a misspelling; "" if there is none.

    That is a similar name, or one that differs by one inserted, removed, replaced or moved
    character, or only in case.
    """
    word, names = written[:_SHOWN], list(candidates)
    one_edit_away = (
        name for name in names if len(name) > 2 and _one_edit(word.casefold(), name.casefold())
    )
    return nearest_word(word, names, cutoff=0.8) or next(one_edit_away, "")


def _one_edit(word: str, other: str) -> bool:
    while word and other and word[0] == other[0]:
        word, other = word[1:], other[1:]
    while word and other and word[-1] == other[-1]:
        word, other = word[:-1], other[:-1]
    return max(len(word), len(other)) <= 1 or (len(word) == 2 and word == other[::-1])


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest one, or the first ones."""
    names = list(candidates)
    if suggestion := meant(name, names) or nearest_word(name[:_SHOWN], names, cutoff=0.5):
        return f"did you mean {suggestion}?"
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return f"known are {', '.join(names[:12])}{more}" if names else ""


VERSION = 1
"""Version of the format, as the value of the key ``scenario``."""
DEFAULT_PROFILE = "containerd-2.3"
DEFAULT_NAMESPACE = "default"
DEFAULT_START_NS = 1_767_225_600 * 10**9
"""2026-01-01T00:00:00Z: a scenario always gets the same times."""
DEFAULT_PAUSE_NS = 10_000_000
MAX_COPIES = 10_000
NOWHERE = Position("scenario")
"""Position of steps that no document has."""
PROFILE_NAMES = tuple(PROFILES)


class ContainerKind(StrEnum):
    """How the kubelet runs a container."""

    INIT = "init"
    """Before the others, until it exits."""
    SIDECAR = "sidecar"
    """Before the others, and beside them."""
    CONTAINER = "container"


class Ending(StrEnum):
    """The last state of the pods of a scenario without steps."""

    RUNNING = "running"
    STOPPED = "stopped"
    REMOVED = "removed"


class Verb(StrEnum):
    """Something that happens, and for which a runtime sends one or more events."""

    RUN = "run"
    CREATE = "create"
    START = "start"
    UPDATE = "update"
    STOP = "stop"
    CRASH = "crash"
    REMOVE = "remove"
    RESTART = "restart"
    WAIT = "wait"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """The runtime of a scenario: a profile, with other versions or deadlines."""

    profile_name: str = DEFAULT_PROFILE
    runtime_name: str = ""
    """"": that of the profile. So are the other fields."""
    runtime_version: str = ""
    nri_version: str = ""
    request_timeout_ms: int = 0
    registration_timeout_ms: int = 0

    def profile(self) -> Profile:
        """Return the behaviour of the runtime. Raises UsageError for an unknown profile."""
        base = profile_named(self.profile_name)
        if self.runtime_name or self.nri_version:
            own = Profile.of(
                base.name,
                self.runtime_name or base.runtime_name,
                base.runtime_version,
                self.nri_version or base.nri_version,
            )
            rules, events = base.lifecycle_rules, base.never_sent
            base = replace(own, lifecycle_rules=rules, never_sent=events)
        return replace(
            base,
            runtime_version=self.runtime_version or base.runtime_version,
            request_timeout_ms=self.request_timeout_ms or base.request_timeout_ms,
            registration_timeout_ms=self.registration_timeout_ms or base.registration_timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """New values of a message's fields, each of which replaces the old value as a whole."""

    message: Message
    names: frozenset[str]
    """Fields to replace; one that `message` does not have is removed."""

    def apply(self, target: Message) -> None:
        """Replace the fields in ``target``, a message of the same type."""
        clear_fields(target, self.names)
        target.MergeFrom(self.message)


@dataclass(slots=True)
class ScenarioContainer:
    """A container of a pod."""

    key: str
    """Name in references."""
    message: api.Container
    """As created, or as it exists at the start."""
    kind: ContainerKind = ContainerKind.CONTAINER
    given: frozenset[str] = frozenset()
    """Fields that the scenario sets, possibly to an empty value; others may get a default."""
    exists: bool = False
    """Whether it exists at the start, so that Synchronize lists it."""


@dataclass(slots=True)
class ScenarioPod:
    """A pod, or a template for several copies."""

    key: str
    """Name in references."""
    message: api.PodSandbox
    containers: dict[str, ScenarioContainer] = field(default_factory=dict)
    """By key, in the order in which they are created."""
    copies: int = 0
    """Number of copies, called NAME-1 and so on; 0 for a single pod with its own name."""
    exists: bool = False
    """As `ScenarioContainer.exists`. Other containers may be created in it later."""
    given: frozenset[str] = frozenset()
    """As `ScenarioContainer.given`."""

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self.message.namespace}/{self.message.name}"


@dataclass(frozen=True, slots=True)
class Step:
    """An event to send, or a verb that stands for several, with its arguments."""

    what: Verb | EventKind
    """A verb, or one event to send as it is."""
    subject: str = ""
    """Reference to a pod or a container; "" for a step without one."""
    position: Position = NOWHERE
    pod: FieldChanges | None = None
    """Changes of the pod in the events of this step and later ones."""
    container: FieldChanges | None = None
    resources: api.LinuxResources | None = None
    """Resources of an update."""
    overhead: api.LinuxResources | None = None
    """Resources of the pod's overhead, in an update of a pod."""
    exit_code: int | None = None
    pause_ns: int = 0
    """Duration of `Verb.WAIT`."""
    times: int = 0
    """Repetitions of `steps`, for `Verb.REPEAT`."""
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class Scenario:
    """A whole scenario."""

    runtime: RuntimeChoice = RuntimeChoice()
    start_ns: int = DEFAULT_START_NS
    """Wall clock time of the first request."""
    pause_ns: int = DEFAULT_PAUSE_NS
    """Time between two events."""
    pods: dict[str, ScenarioPod] = field(default_factory=dict)
    """By key; those that exist at the start come first."""
    steps: Sequence[Step] | None = None
    """None: the usual life of each pod, up to `until`."""
    until: Ending = Ending.RUNNING
    source: str = "scenario"
    """Name of the file, for messages."""


def unused_key(name: str, used: dict[str, int]) -> str:
    """Return a key for a pod or container: its name, with a number if another one has it.

    ``used`` has the keys in use; the new one is added.
    """
    while True:
        number = used[name] = used.get(name, 0) + 1
        if number == 1:
            return name
        key = f"{name}@{number}"
        if key not in used:
            used[key] = 1
            return key
