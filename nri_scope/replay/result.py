# SPDX-License-Identifier: Apache-2.0
"""Result of a replay: events with their replies, and containers in their final state."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

from nri_scope.nri.merging import Dropped
from nri_scope.specs import Change, Spec, changes, path_of
from nri_scope.text.quantities import duration

from .golden.entries import Origin
from .replies import Reply, Verdict

_COMPRESSION_LEVEL = 1
"""Fastest level of zlib: half the default's time, for 10 % more memory."""

_Specs: TypeAlias = "tuple[Spec, Spec]"
"""Specs before and after."""


class ContainerResult:
    """Container at the end of the replay, or at its removal.

    A removed container is stored compressed, in about a tenth of the memory.
    """

    __slots__ = (
        *("_content", "_owners", "created", "existed", "failure", "name"),
        *("runtime_died", "start_failure"),
    )

    def __init__(self, name: str, before: Spec, spec: Spec) -> None:
        self.name = name
        """``namespace/pod/container``; with ``#2`` for the second of that name, and so on."""
        self.created = True
        """Whether its creation succeeded in this replay."""
        self.failure = ""
        """The runtime's error if the creation failed; else ""."""
        self.runtime_died = False
        """Whether the creation would have killed the runtime."""
        self.start_failure = ""
        """Why the created container does not start, with the plugin; "" if nothing is known."""
        self.existed = False
        """Whether it existed before the replay began."""
        self._content: _Specs | bytes = before, spec
        """The two specs, or their compressed JSON after `pack`."""
        self._owners: dict[str, str] = {}

    def __repr__(self) -> str:
        failed = "" if self.created else ", created=False"
        return f"ContainerResult(name={self.name!r}{failed})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContainerResult):
            return NotImplemented
        return (
            self.name == other.name
            and self.created == other.created
            and self.start_failure == other.start_failure
            and self.before == other.before
            and self.spec == other.spec
            and self.owners == other.owners
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def before(self) -> Spec:
        """The spec without the plugins' changes."""
        return self._specs()[0]

    @before.setter
    def before(self, spec: Spec) -> None:
        self._content = spec, self._specs()[1]

    @property
    def spec(self) -> Spec:
        """The spec with the plugins' changes."""
        return self._specs()[1]

    @spec.setter
    def spec(self, spec: Spec) -> None:
        self._content = self._specs()[0], spec

    @property
    def changes(self) -> tuple[Change, ...]:
        """The combined changes of all plugins."""
        before, spec = self._specs()
        return () if before is spec else changes(before, spec)

    @property
    def owners(self) -> dict[str, str]:
        """The plugin (``NN-name``) that changed each path last."""
        return dict(sorted(self._owners.items()))

    def owner(self, path: str) -> str:
        """Return the plugin that last changed ``path``, or anything below it; "" if none did.

        ``path`` may also be a label, such as ``env FOO``.
        """
        owner = ""
        path = path_of(path) or path
        for owned, plugin in self._owners.items():
            if owned == path or owned.startswith(f"{path}/") or path.startswith(f"{owned}/"):
                owner = plugin
        return owner

    def own(self, path: str, plugin: str) -> None:
        """Record ``plugin`` as the owner of ``path``."""
        # The newest owner must be last: `owner` prefers it for nested paths.
        self._owners.pop(path, None)
        self._owners[path] = plugin

    def pack(self) -> None:
        """Compress the specs. They remain readable."""
        if not isinstance(self._content, bytes):
            before, spec = self._content
            # The two are similar, so the second takes almost no space. JSON escapes preserve
            # surrogates of undecodable names.
            text = json.dumps((spec,) if before == spec else (before, spec))
            self._content = zlib.compress(text.encode("ascii"), _COMPRESSION_LEVEL)

    def _specs(self) -> _Specs:
        if isinstance(self._content, bytes):
            specs = cast("list[Spec]", json.loads(zlib.decompress(self._content)))
            return specs[0], specs[-1]
        return self._content


FAILURES_KEPT = 10_000
"""Maximum number of failures stored as text; more are only counted."""


class PrintedLine(NamedTuple):
    """Line that a plugin printed."""

    plugin: str
    stream: str
    """stdout or stderr."""
    text: str
    at_ns: int
    """Nanoseconds since the replay began."""


@dataclass(frozen=True, slots=True)
class Attributed:
    """One change of a container's OCI spec, and the plugin that requested it."""

    plugin: str
    container: str
    """Name of the container in the result: ``namespace/pod/container``, possibly with ``#2``."""
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
    """Wall-clock time of the recorded event in ns; 0 if it is not in the recording."""
    replies: list[Reply] = field(default_factory=list)
    changes: list[Attributed] = field(default_factory=list)
    """Changes by plugins, to this and to other containers."""
    dropped: list[Dropped] = field(default_factory=list)
    """Requests of plugins that this runtime drops."""
    failure: str = ""
    """Error with which the CRI request fails on this runtime; "" if it succeeds."""
    logged: str = ""
    """Error that this runtime only logs; "" if there is none."""
    skipped: str = ""
    """Why the event was not sent; "" if it was, or if no plugin had subscribed."""
    fault: str = ""
    """Description of the injected fault; "" if none."""
    note: str = ""
    """Description of an action that is not an event, or of how this event differs from the recorded
    one without a fault, for example because its request was edited; else ""."""
    output: list[PrintedLine] = field(default_factory=list)
    """Lines that plugins printed from this event to the next."""
    output_left_out: int = 0
    """Number of output lines not stored, as they exceed the limit."""

    @property
    def has_problem(self) -> bool:
        """Whether the CRI request or a reply failed."""
        return bool(self.failure) or any(
            reply.verdict is not Verdict.OK or reply.too_slow for reply in self.replies
        )

    @property
    def is_remarkable(self) -> bool:
        """Whether the event has changes or problems, or is an injected fault."""
        return bool(
            self.changes
            or self.fault
            or self.dropped
            or self.logged
            or self.has_problem
            or any(reply.slow for reply in self.replies)
        )


@dataclass(slots=True)
class PluginResult:
    """Result of one plugin of the chain."""

    plugin: str
    """``NN-name``."""
    command: str
    """Command line; "" for a plugin that the replay did not start."""
    external: bool = False
    """Whether the replay started it with a private socket, to which it connected by itself."""
    gone: str = ""
    """Reason if its connection ended early; else ""."""
    gone_after: int = 0
    """Number of the recorded event after which its connection ended."""
    deserted: str = ""
    """Reason if it disconnected between requests, or did not reconnect; else ""."""
    exit: str = ""
    """Description of its process's early end; else ""."""
    started_again: int = 0
    """Number of times that it ended when its connection was closed, and was started again. An
    external plugin should connect again: runtimes start none."""
    ending: str = ""
    """Description of its process's end after the replay: whether it ended by itself after its
    connection was closed, by a signal, or was killed. "" for none."""
    left_behind: tuple[str, ...] = ()
    """Command lines of processes that outlived it; they were killed."""


@dataclass(slots=True)
class ReplyCounts:
    """Totals of a replay, counted even if events are not stored."""

    events: int = 0
    """Number of recorded events that were sent to subscribed plugins."""
    skipped: int = 0
    """Number of recorded events that were not sent."""
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    slow: int = 0
    """Number of valid replies that took over half of the deadline."""
    too_slow: int = 0
    """Number of valid replies that took longer than the user accepts."""
    failures: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Those of `failures` that are not failures of replies."""
    more_failures: int = 0

    def count(self, played: PlayedEvent) -> None:
        """Add one complete event."""
        if played.event_id:
            self.skipped += bool(played.skipped)
            self.events += not played.skipped
        subject = f"{played.event} {played.subject}".strip()
        for reply in played.replies:
            self.verdicts[reply.verdict] += 1
            self.slow += reply.slow and not reply.too_slow
            if reply.verdict is not Verdict.OK:
                self._add(f"{subject}: {reply.plugin}: {reply.verdict}: {reply.problem}")
            elif reply.too_slow:
                self.too_slow += 1
                limit = duration(reply.max_took_ns)
                self._add(f"{subject}: {reply.plugin}: too slow: took more than {limit}")

    @property
    def counts(self) -> dict[str, int]:
        """Number of replies by verdict; valid replies that are slow are counted separately."""
        slow = {"slow": self.slow, "too slow": self.too_slow}
        counts = {str(verdict): count for verdict, count in self.verdicts.items()}
        counts["ok"] = counts.get("ok", 0) - sum(slow.values())
        return {label: count for label, count in {**counts, **slow}.items() if count}

    def fail(self, text: str) -> None:
        """Record a failure that is not one of a reply."""
        self._add(text)
        if len(self.others) < FAILURES_KEPT:
            self.others.append(text)

    def _add(self, text: str) -> None:
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
    """Fingerprint of the replayed events and the recorded runtime."""
    profile: str
    title: str = ""
    """Description of the emulated runtime."""
    plugins: list[PluginResult] = field(default_factory=list)
    events: list[PlayedEvent] = field(default_factory=list)
    """Played events; empty without `Job.keep`."""
    containers: dict[str, ContainerResult] = field(default_factory=dict)
    """Containers by name, in the order of their first appearance."""
    tally: ReplyCounts = field(default_factory=ReplyCounts)
    took_ns: int = 0
    playing_ns: int = 0
    """Duration in ns without the start and end of plugins."""
    name_of: Callable[[str], str] = field(default=str)
    """Returns a container's name for its id."""

    @property
    def origin(self) -> Origin:
        """Description of the replayed events and runtime, for a golden."""
        events = sum(event.event_id > 0 for event in self.events)
        return Origin(f"{self.source}, {events} events", self.fingerprint, self.profile)

    def replies(self) -> Iterator[Reply]:
        """Yield every reply, in order."""
        for event in self.events:
            yield from event.replies

    def failures(self) -> Iterator[str]:
        """Yield failures of replies and plugins, one line each."""
        yield from self.tally.failures
        if self.tally.more_failures:
            yield f"and {self.tally.more_failures} more"
        yield from self._plugin_failures()

    def other_failures(self) -> Iterator[str]:
        """Yield the failures that are not failures of replies, one line each."""
        yield from self.tally.others
        yield from self._plugin_failures()

    def _plugin_failures(self) -> Iterator[str]:
        for plugin in self.plugins:
            if plugin.deserted:
                yield f"{plugin.plugin}: {plugin.deserted}"
            for process in plugin.left_behind:
                yield f"{plugin.plugin} left a process behind: {process}"

    @property
    def conflicts(self) -> list[str]:
        """The runtime's error for each conflict."""
        return [reply.problem for reply in self.replies() if reply.verdict is Verdict.CONFLICT]

    @property
    def ok(self) -> bool:
        """Whether there are no failures."""
        return next(self.failures(), None) is None
