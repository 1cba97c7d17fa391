# SPDX-License-Identifier: Apache-2.0
"""Find containers that were created while a plugin was not connected.

NRI tells plugins of each other only by requests to validators, which list all connected plugins;
also a plugin whose connection has ended, until the runtime notices with its next request. A tap
shows that its plugin was connected, but not that it was not. Where nothing was recorded that
tells, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import CreationFate
from nri_scope.events import Event, Gap, Role, Session, plugin_title
from nri_scope.filter import parse
from nri_scope.nri.changes import consulted_plugins, owned_paths
from nri_scope.nri.events import CREATE, POST_CREATE, REMOVE, START, STOP, SYNCHRONIZE, VALIDATE
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.creation_outcomes import Creations
from nri_scope.recording.display import clock, moment
from nri_scope.recording.reader import Recording

from .limits import TRACKED_MAX

_NEEDED = (CREATE, POST_CREATE, START, STOP, REMOVE, SYNCHRONIZE, VALIDATE)
WHERE = " OR ".join(f"event:{name}" for name in _NEEDED)
"""Filter of the events that `creations` needs."""
_EVENTS = parse(WHERE)
_NEAR = 1_000
"""Maximum distance, in event ids, of a creation and its validation."""


class Presence(StrEnum):
    """Whether a plugin was connected."""

    CONNECTED = "connected"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Creation:
    """The creation of a container, as far as a plugin was connected."""

    at_ns: int
    """Of CreateContainer; for a container that was created unseen, the time that the runtime names;
    0 if it names none."""
    container: str
    """``namespace/pod/container``."""
    container_id: str
    presence: Presence
    evidence: str
    event: int
    """Number of the event that is the evidence."""
    plugins: tuple[str, ...] = ()
    """Plugins that the runtime named to the validator, and those with a tap at any time."""


def creations(recording: Recording, plugin: str, since_ns: int | None = None) -> Iterator[Creation]:
    """Yield the creations of containers that a recording shows, in its order.

    ``plugin``: ``name`` or ``NN-name``. ``since_ns``: time from which the recording has events;
    containers that were created before are left out. So are creations that failed. Raises
    RecordingError.
    """
    return _Creations(recording, plugin, since_ns).all()


@dataclass(slots=True)
class _Attempt:
    """A creation whose end is not read yet."""

    event: Event
    validation: Event | None = None
    plugins: list[tuple[str, str]] | None = None
    """Of its validation."""
    tapped: bool = False
    """Whether a tap of the plugin passed it on."""
    owns: bool = False
    """Whether its validation names the plugin as the owner of a field."""
    gone: int = 0
    """The next validation, if this one named the plugin and that does not; 0 if not."""


class _Creations:
    def __init__(self, recording: Recording, plugin: str, since_ns: int | None) -> None:
        self._recording = recording
        self._since_ns = since_ns
        self._plugin = plugin
        self._sessions = {one.id: one for one in recording.sessions()}
        self._taps = [
            one
            for one in self._sessions.values()
            if one.role == Role.TAP and self._is_plugin(one.plugin_index, one.plugin_name)
        ]
        self._tapped = {
            plugin_title(one.plugin_index, one.plugin_name)
            for one in self._sessions.values()
            if one.role == Role.TAP
        }
        self._validators = [
            one
            for one in self._sessions.values()
            if one.mask & NriEvent.ValidateContainerAdjustment.bit
        ]
        self._gaps = [one for one in recording.gaps() if not one.is_left_out]
        self._outcomes = Creations(recording)
        self._last_named: _Attempt | None = None
        """The newest creation, if its validation named the plugin."""
        self._open: dict[str, _Attempt] = {}
        """By id of the container."""
        self._known: set[str] = set()
        """Ids of containers whose creation was seen, or that were found by Synchronize."""

    def all(self) -> Iterator[Creation]:
        for event in self._recording.events(where=_EVENTS):
            if event.event == SYNCHRONIZE:
                yield from self._found(event)
            elif event.event == CREATE:
                known = self._open.get(event.container_id)
                if known is None or event.id - known.event.id > _NEAR:
                    yield from self._end(event.container_id)
                    self._open[event.container_id] = _Attempt(event)
                    self._remember(event.container_id)
                self._open[event.container_id].tapped |= self._is_tapped(event.session)
            elif event.event == VALIDATE and event.container_id in self._open:
                attempt = self._open[event.container_id]
                if attempt.plugins is None:
                    self._validated(attempt, event)
            if len(self._open) > TRACKED_MAX:
                yield from self._end(next(iter(self._open)))
        for container in list(self._open):
            yield from self._end(container)

    def _validated(self, attempt: _Attempt, event: Event) -> None:
        request = self._recording.request(event.id)
        attempt.validation = event
        attempt.plugins = consulted_plugins(request)
        if attempt.plugins is None:
            return
        attempt.owns = any(self._plugin in (owner, owner[3:]) for _, owner in owned_paths(request))
        named = any(self._is_plugin(*one) for one in attempt.plugins)
        if not named and self._last_named is not None:
            self._last_named.gone = event.id
        self._last_named = attempt if named else None

    def _remember(self, container: str) -> None:
        if len(self._known) < TRACKED_MAX:
            self._known.add(container)

    def _is_plugin(self, index: str, name: str) -> bool:
        return self._plugin in (name, plugin_title(index, name))

    def _is_tapped(self, session: int) -> bool:
        return any(one.id == session for one in self._taps)

    def _end(self, container: str) -> Iterator[Creation]:
        attempt = self._open.pop(container, None)
        if attempt is None:
            return
        if self._outcomes.outcome(attempt.event).fate is CreationFate.FAILED:
            return
        presence, evidence, number = self._presence(attempt)
        event = attempt.event
        name = f"{event.namespace}/{event.pod}/{event.container}"
        plugins = (*(plugin_title(*one) for one in attempt.plugins or ()), *self._tapped)
        yield Creation(event.at_ns, name, event.container_id, presence, evidence, number, plugins)

    def _presence(self, attempt: _Attempt) -> tuple[Presence, str, int]:
        event = attempt.event
        if attempt.plugins is not None and attempt.validation is not None:
            number = attempt.validation.id
            if attempt.owns:
                return Presence.CONNECTED, "it changed the container", number
            if any(self._is_plugin(*one) for one in attempt.plugins):
                if attempt.gone and not attempt.tapped:
                    why = f"named to the validator for the last time, see event {attempt.gone}"
                    return Presence.UNKNOWN, f"{why}; it may have ended before", number
                return Presence.CONNECTED, "named to the validator", number
            named = ", ".join(plugin_title(*one) for one in attempt.plugins) or "no plugin"
            return Presence.MISSING, f"the runtime named to the validator: {named}", number
        if attempt.tapped:
            return Presence.CONNECTED, "a tap passed the request on", event.id
        if self._taps:
            around = _around(self._taps, event.at_ns)
            if around is not None:
                why = f"its tap (session {around.id}) passed no CreateContainer on"
            else:
                why = f"{_between(self._taps, event.at_ns)}; it may have connected without a tap"
            return Presence.UNKNOWN, why, event.id
        validator = _around(self._validators, event.at_ns)
        if validator is not None:
            why = f"the request to the validator (session {validator.id}) is missing or malformed"
            return Presence.UNKNOWN, why, event.id
        return Presence.UNKNOWN, "no validator and no tap was connected", event.id

    def _found(self, event: Event) -> Iterator[Creation]:
        """Yield the containers that were created before their Synchronize, unseen."""
        try:
            request = api.SynchronizeRequest.FromString(self._recording.request(event.id))
        except DecodeError:
            return
        pods = {pod.id: f"{pod.namespace}/{pod.name}" for pod in request.pods}
        for container in request.containers:
            if container.id in self._known or self._is_too_old(container.created_at):
                continue
            self._remember(container.id)
            name = f"{pods.get(container.pod_sandbox_id, '?')}/{container.name}"
            why = self._unseen(container.created_at, event)
            yield Creation(
                container.created_at, name, container.id, Presence.UNKNOWN, why, event.id
            )

    def _is_too_old(self, created_ns: int) -> bool:
        return self._since_ns is not None and 0 < created_ns < self._since_ns

    def _unseen(self, created_ns: int, event: Event) -> str:
        gap = _gap_at(self._gaps, created_ns) if created_ns else None
        if gap is not None:
            return f"created in a gap of the recording: {gap.reason}"
        if not created_ns and self._since_ns is not None:
            return f"created at an unknown time, maybe before {moment(self._since_ns)}"
        return f"created before the recorder connected at {clock(event.at_ns)}"


def _gap_at(gaps: list[Gap], at_ns: int) -> Gap | None:
    return next((gap for gap in gaps if gap.from_ns <= at_ns <= gap.to_ns), None)


def _around(sessions: list[Session], at_ns: int) -> Session | None:
    """Return the session that was open at a time; one without a known end counts as open."""
    for one in sessions:
        if one.started_ns <= at_ns and (one.ended_ns is None or at_ns <= one.ended_ns):
            return one
    return None


def _between(taps: list[Session], at_ns: int) -> str:
    before = [one for one in taps if one.ended_ns is not None and one.ended_ns < at_ns]
    if before:
        last = max(before, key=lambda one: one.ended_ns or 0)
        return f"its tap's session {last.id} had ended at {clock(last.ended_ns or 0)}"
    first = min(taps, key=lambda one: one.started_ns)
    return f"its tap's first session {first.id} began later, at {clock(first.started_ns)}"
