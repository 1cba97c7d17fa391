# SPDX-License-Identifier: Apache-2.0
"""What a replay came to: every event with its replies, every container as it ended up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nri_scope.nri.merging import Dropped
from nri_scope.oci import Change, Spec, changes

from .model import Reply, Verdict


class Line(NamedTuple):
    """A line that a plugin printed."""

    plugin: str
    stream: str
    """stdout or stderr."""
    text: str
    at_ns: int
    """Since the replay began."""


@dataclass(frozen=True, slots=True)
class Attributed:
    """One change of a container's OCI spec and the plugin that asked for it."""

    plugin: str
    container: str
    """``namespace/pod/container``."""
    change: Change


@dataclass(slots=True)
class PlayedEvent:
    """One event of the replay."""

    event_id: int
    """Of the recording; 0 for what the recording does not hold."""
    event: str
    subject: str
    """Whom it is about, by names."""
    at_ns: int
    """When it came once; 0 for what the recording does not hold."""
    replies: list[Reply] = field(default_factory=list)
    changes: list[Attributed] = field(default_factory=list)
    """By plugins, of this and of other containers."""
    dropped: list[Dropped] = field(default_factory=list)
    """Requested, but dropped by this runtime."""
    failure: str = ""
    """Why the CRI request fails on this runtime, in its words; "" where it does not."""
    skipped: str = ""
    """Why nobody was asked; "" where somebody was, or nobody wanted to be."""
    fault: str = ""
    """What went wrong on purpose."""
    output: list[Line] = field(default_factory=list)
    """What plugins printed from this event on to the next."""


@dataclass(slots=True)
class ContainerResult:
    """One container at the end of the replay, or of its life."""

    name: str
    """``namespace/pod/container``; with ``#2`` for the second of that name, and so on."""
    before: Spec = field(repr=False)
    """As the runtime would have made it without any plugin."""
    spec: Spec = field(repr=False)
    created: bool = True
    """False where its creation failed here."""
    _owners: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the plugins together made of it."""
        return changes(self.before, self.spec)

    @property
    def owners(self) -> dict[str, str]:
        """The plugin (``NN-name``) that changed each path last."""
        return dict(sorted(self._owners.items()))

    def owner(self, path: str) -> str:
        """The plugin that changed ``path``, or what is below it, last; "" where none did."""
        found = ""
        for owned, plugin in self._owners.items():
            if owned == path or owned.startswith(f"{path}/") or path.startswith(f"{owned}/"):
                found = plugin
        return found

    def own(self, path: str, plugin: str) -> None:
        """``plugin`` changed ``path`` now."""
        # Put last: the newest owner wins where paths are nested.
        self._owners.pop(path, None)
        self._owners[path] = plugin


@dataclass(slots=True)
class PluginResult:
    """One plugin of the chain and how it fared."""

    plugin: str
    """``NN-name``."""
    command: str
    """"" for one that came by itself."""
    gone: str = ""
    """Why it was gone before the end; "" where it was not."""
    gone_after: int = 0
    """The event (of the recording) after which it was gone."""
    exit: str = ""
    """How its process ended where that was before the end, in words."""
    left_behind: tuple[str, ...] = ()
    """Processes that outlived it, by their command lines; they were ended."""


@dataclass(slots=True)
class Replayed:
    """All of it."""

    source: str
    """What was replayed, in words."""
    fingerprint: str
    """The same for every replay of the same events."""
    profile: str
    plugins: list[PluginResult] = field(default_factory=list)
    events: list[PlayedEvent] = field(default_factory=list)
    containers: dict[str, ContainerResult] = field(default_factory=dict)
    """By name, in the order of their arrival."""
    took_ns: int = 0
    playing_ns: int = 0
    """Without starting and ending the plugins."""
    name_of: Callable[[str], str] = field(default=str)
    """Names of containers, by their ids."""

    def replies(self) -> Iterator[Reply]:
        """Every reply, in order."""
        for event in self.events:
            yield from event.replies

    def container(self, name: str) -> ContainerResult:
        """A container by ``namespace/pod/container``. Raises KeyError, naming those there are."""
        try:
            return self.containers[name]
        except KeyError:
            there = ", ".join(self.containers) or "none"
            raise KeyError(f"no container {name} in this replay; there is: {there}") from None

    def failures(self) -> Iterator[str]:
        """What went wrong without being asked to, a line each."""
        for event in self.events:
            where = f"{event.event} {event.subject}".strip()
            for reply in event.replies:
                if reply.verdict is not Verdict.OK:
                    yield f"{where}: {reply.plugin}: {reply.verdict}: {reply.problem}"
        for plugin in self.plugins:
            for process in plugin.left_behind:
                yield f"{plugin.plugin} left a process behind: {process}"

    @property
    def conflicts(self) -> list[str]:
        """What the runtime refused, in its own words."""
        return [reply.problem for reply in self.replies() if reply.verdict is Verdict.CONFLICT]

    @property
    def ok(self) -> bool:
        """Nothing went wrong."""
        return next(self.failures(), None) is None
