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
"""Maximum number of failures that are reported individually; the rest is counted."""


class PrintedLine(NamedTuple):
    """A line that a plugin printed."""

    plugin: str
    stream: str
    """stdout or stderr."""
    text: str
    at_ns: int
    """Time since the replay began."""


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
    """Id of the event in the recording; 0 if it is not in the recording."""
    event: str
    subject: str
    """Names of the event's pod and container."""
    at_ns: int
    """Time at which it was recorded; 0 if it is not in the recording."""
    replies: list[Reply] = field(default_factory=list)
    changes: list[Attributed] = field(default_factory=list)
    """Changes by plugins, to this and to other containers."""
    dropped: list[Dropped] = field(default_factory=list)
    """Requests that this runtime drops."""
    failure: str = ""
    """Why the CRI request fails on this runtime, in its words; "" if it does not."""
    logged: str = ""
    """An error that this runtime only logs, in its words; "" if there is none."""
    skipped: str = ""
    """Why no plugin was asked; "" if one was, or none had subscribed."""
    fault: str = ""
    """The fault that was injected."""
    output: list[PrintedLine] = field(default_factory=list)
    """Lines that plugins printed from this event to the next."""
    output_left_out: int = 0
    """Number of lines over the limit, which are not kept."""


@dataclass(slots=True)
class PluginResult:
    """The result of one plugin of the chain."""

    plugin: str
    """``NN-name``."""
    command: str
    """Command line; "" for an external plugin."""
    gone: str = ""
    """Why its connection ended early; "" if it did not."""
    gone_after: int = 0
    """The event (of the recording) after which its connection ended."""
    deserted: str = ""
    """Message if it disconnected between requests, or did not reconnect; "" if neither."""
    exit: str = ""
    """How its process ended, in words, if it ended early."""
    left_behind: tuple[str, ...] = ()
    """Command lines of processes that outlived it; they were killed."""


@dataclass(slots=True)
class Tally:
    """Totals of a replay, for which events need not be kept."""

    events: int = 0
    """Number of recorded events that were sent to the plugins that subscribed to them."""
    skipped: int = 0
    """Number of recorded events that are not sent on this runtime, or not here."""
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    slow: int = 0
    failures: list[str] = field(default_factory=list)
    more_failures: int = 0

    def count(self, played: PlayedEvent) -> None:
        """Add one complete event."""
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
        """Note an error that was not caused by a fault."""
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(text)
        else:
            self.more_failures += 1


@dataclass(slots=True)
class Replayed:
    """The whole result of a replay."""

    source: str
    """Description of the recording that was replayed."""
    fingerprint: str
    """Equal for every replay of the same events."""
    profile: str
    title: str = ""
    """The emulated runtime, for users."""
    plugins: list[PluginResult] = field(default_factory=list)
    events: list[PlayedEvent] = field(default_factory=list)
    """The events; empty if they were not to be kept."""
    containers: dict[str, ContainerResult] = field(default_factory=dict)
    """Containers by name, in the order of their arrival; after several rounds, of the last one."""
    tally: Tally = field(default_factory=Tally)
    took_ns: int = 0
    playing_ns: int = 0
    """Duration without starting and ending the plugins."""
    name_of: Callable[[str], str] = field(default=str)
    """Returns a container's name for its id."""

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
        """Yield the errors that were not caused by a fault, a line each."""
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
