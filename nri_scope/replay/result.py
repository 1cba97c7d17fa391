# SPDX-License-Identifier: Apache-2.0
"""The result of a replay: every event with its replies, every container in its final state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nri_scope.nri.merging import Dropped
from nri_scope.oci import Change

from .container_result import ContainerResult as ContainerResult
from .golden.file_layout import Origin
from .replies import Reply, Verdict

FAILURES_KEPT = 10_000
"""Failures that are reported one by one; the rest is counted."""


class PrintedLine(NamedTuple):
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
    """The container's name in the result: ``namespace/pod/container``, perhaps with ``#2``."""
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
    logged: str = ""
    """An error that this runtime only logs, in its words; "" where there is none."""
    skipped: str = ""
    """Why no plugin was asked; "" where one was, or none had subscribed."""
    fault: str = ""
    """What went wrong on purpose."""
    output: list[PrintedLine] = field(default_factory=list)
    """What plugins printed from this event on to the next."""
    output_left_out: int = 0
    """Lines that were too many to be kept."""


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
    deserted: str = ""
    """That it went away between requests, or did not come back; "" for neither."""
    exit: str = ""
    """How its process ended where that was before the end, in words."""
    left_behind: tuple[str, ...] = ()
    """Processes that outlived it, by their command lines; they were ended."""


@dataclass(slots=True)
class Tally:
    """The sum of what was played, for which no event need be kept."""

    events: int = 0
    """Of the recording, that were sent to the plugins that subscribed to them."""
    skipped: int = 0
    """Of the recording, that do not come on this runtime, or not here."""
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    slow: int = 0
    failures: list[str] = field(default_factory=list)
    more_failures: int = 0

    def count(self, played: PlayedEvent) -> None:
        """Add one event that is over."""
        if played.event_id:
            self.skipped += bool(played.skipped)
            self.events += not played.skipped
        where = f"{played.event} {played.subject}".strip()
        for reply in played.replies:
            self.verdicts[reply.verdict] += 1
            self.slow += reply.slow
            if reply.verdict is not Verdict.OK:
                self.fail(f"{where}: {reply.plugin}: {reply.verdict}: {reply.problem}")

    def fail(self, text: str) -> None:
        """Note an error that no fault caused."""
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(text)
        else:
            self.more_failures += 1


@dataclass(slots=True)
class Replayed:
    """The whole result."""

    source: str
    """What was replayed, in words."""
    fingerprint: str
    """The same for every replay of the same events."""
    profile: str
    title: str = ""
    """The runtime that the profile stands for, for people."""
    plugins: list[PluginResult] = field(default_factory=list)
    events: list[PlayedEvent] = field(default_factory=list)
    """Empty where they were not to be kept."""
    containers: dict[str, ContainerResult] = field(default_factory=dict)
    """By name, in the order of their arrival; of several rounds those of the last one."""
    tally: Tally = field(default_factory=Tally)
    took_ns: int = 0
    playing_ns: int = 0
    """Without starting and ending the plugins."""
    name_of: Callable[[str], str] = field(default=str)
    """Names of containers, by their ids."""

    @property
    def origin(self) -> Origin:
        """The events and the runtime that were replayed, for a golden."""
        events = sum(event.event_id > 0 for event in self.events)
        return Origin(f"{self.source}, {events} events", self.fingerprint, self.profile)

    def replies(self) -> Iterator[Reply]:
        """Yield every reply, in order."""
        for event in self.events:
            yield from event.replies

    def container(self, name: str) -> ContainerResult:
        """Return a container by ``namespace/pod/container``. Raises KeyError, naming the existing
        ones.
        """
        try:
            return self.containers[name]
        except KeyError:
            there = ", ".join(self.containers) or "none"
            raise KeyError(f"no container {name} in this replay; there is: {there}") from None

    def failures(self) -> Iterator[str]:
        """Yield the errors that no fault caused, a line each."""
        yield from self.tally.failures
        if self.tally.more_failures:
            yield f"and {self.tally.more_failures} more"
        for plugin in self.plugins:
            if plugin.deserted:
                yield f"{plugin.plugin}: {plugin.deserted}"
            for process in plugin.left_behind:
                yield f"{plugin.plugin} left a process behind: {process}"

    @property
    def conflicts(self) -> list[str]:
        """The conflicts that the runtime refused, in its own words."""
        return [reply.problem for reply in self.replies() if reply.verdict is Verdict.CONFLICT]

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return next(self.failures(), None) is None
