# SPDX-License-Identifier: Apache-2.0
"""Find pods and containers that were created without a plugin.

NRI tells plugins of each other only by requests to validators, which list all connected plugins;
also a plugin whose connection has ended, until the runtime notices with its next request. A tap
shows that its plugin was connected, but not that it was not. Where nothing was recorded that
tells, the answer is unknown. A reply after the deadline counts as none: runtimes go on without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate
from nri_scope.errors import UsageError
from nri_scope.events import PASSIVE_ROLES, Container, Event, Role, Session, Status, plugin_title
from nri_scope.filter import parse, parse_workload
from nri_scope.nri import events as nri
from nri_scope.nri.changes import consulted_plugins, is_named, owned_paths, requirement_of
from nri_scope.nri.events import CREATE, RUN_POD, SYNCHRONIZE, VALIDATE
from nri_scope.nri.plain import Plain
from nri_scope.nri.request_subject import decode_request
from nri_scope.recording.query.container_events import last_events
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.query.lookup import events_about
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.quantities import clock, deadline, duration, moment

_ENDS = nri.POST_CREATE, nri.START, nri.STOP, nri.REMOVE
WHERE = " OR ".join(f"event:{name}" for name in (RUN_POD, CREATE, *_ENDS, SYNCHRONIZE, VALIDATE))
"""Filter of the events that `creations` needs."""
_EVENTS = parse(WHERE)
_DECODED = frozenset({RUN_POD, CREATE, SYNCHRONIZE, VALIDATE})
"""Those whose requests it needs."""
_NEAR = 1_000
"""Maximum distance, in event ids, of a creation and its validation."""
_TRACKED_MAX = 50_000
"""Maximum number of pods and containers that are tracked at a time."""
_EARLIER = 32
"""Number of earlier requests to validators that show which plugins were connected before."""
_NAMED_MAX = 100
"""Maximum number of plugins, one for each index, that earlier requests to validators named."""
_EXPECTATION = re.compile(r"\s*plugin=(\S+)(?:\s+where\s+(.*))?\s*", re.DOTALL)


class PluginPresence(StrEnum):
    """Whether a plugin was connected."""

    CONNECTED = "connected"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Expectation(NamedTuple):
    """A plugin that has to take part in the creation of some pods and containers."""

    plugin: str
    """``name`` or ``NN-name``."""
    text: str = ""
    """The expectation as typed; "" for a plugin that is asked about."""
    matches: Callable[[Any], bool] = lambda _: True
    """Test of a pod or container, see `parse_workload`."""


def parse_expectation(text: str) -> Expectation:
    """Parse ``plugin=NAME [where CONDITION]``. Raises UsageError and FilterError."""
    parts = _EXPECTATION.fullmatch(text)
    if parts is None:
        raise UsageError(f"{text[:80]!r} is no expectation", "write 'plugin=NAME where pod:NAME'")
    return Expectation(parts[1], " ".join(text.split()), parse_workload(parts[2] or ""))


_Found = tuple[PluginPresence, str, int]
"""Whether a plugin was connected, the evidence, and the number of the event that is the evidence.
"""


@dataclass(frozen=True, slots=True)
class Creation:
    """The creation of a pod or a container, as far as one plugin took part."""

    about: Event
    """RunPodSandbox or CreateContainer; for what was created unseen, the Synchronize with it, at
    the time that the runtime names, or 0 if it names none."""
    plugin: str
    """``name`` or ``NN-name``; "" if the annotation that requires plugins is not valid."""
    required_by: str
    """Key of the annotation, or the text of the expectation, that requires it; "" for none."""
    presence: PluginPresence
    evidence: str
    event: int
    """Number of the event that is the evidence."""
    plugins: tuple[str, ...] = ()
    """Plugins that the runtime named to the validator, and those with a tap at any time."""

    @property
    def is_pod(self) -> bool:
        """Whether a pod was created."""
        return not self.about.container_id

    @property
    def is_plugin_seen(self) -> bool:
        """Whether this creation shows that the plugin was connected at any time."""
        return self.presence is PluginPresence.CONNECTED or is_named(self.plugin, self.plugins)

    @property
    def id(self) -> str:
        """Id of the pod or container."""
        return self.about.container_id or self.about.pod_id

    @property
    def name(self) -> str:
        """``namespace/pod`` or ``namespace/pod/container``, without unknown parts."""
        return "/".join(filter(None, (self.about.namespace, self.about.pod, self.about.container)))

    def record(self) -> dict[str, Plain]:
        """Return the creation as a record for JSON."""
        return {
            "created": rfc3339(self.about.at_ns) if self.about.at_ns else None,
            "kind": "pod" if self.is_pod else "container",
            "name": self.name,
            "id": self.id,
            "plugin": self.presence.value,
            "plugin_name": self.plugin,
            "required_by": self.required_by or None,
            "evidence": self.evidence,
            "event": self.event,
        }


def creations(
    recording: Recording,
    plugin: str | None = None,
    since_ns: int | None = None,
    expected: Sequence[Expectation] = (),
) -> Iterator[Creation]:
    """Yield the creations of pods and containers that a recording shows, in its order.

    ``plugin``: ``name`` or ``NN-name``; without it, each creation is yielded once for each plugin
    that an annotation or one of ``expected`` requires. ``since_ns``: time from which the recording
    has events; what was created before is left out. So are creations that failed. Raises
    RecordingError.
    """
    return _Creations(recording, since_ns, [Expectation(plugin)] if plugin else expected).all()


def created_without(recording: Recording, pods: Collection[str]) -> Iterator[Creation]:
    """Return what was created in some pods without a plugin that their annotations require.

    ``pods``: their ids. Raises RecordingError.
    """
    known = (pod for pod in recording.pods() if pod.id in pods)
    among = sorted({number for pod in known for number in events_about(recording, pod)})
    every = _Creations(recording).all(among)
    return (creation for creation in every if creation.presence is PluginPresence.MISSING)


def missed_creations(
    recording: Recording, containers: Collection[Container] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return sentences about the plugins that missed the creation of containers, by their ids.

    Plugins are those that were late, that an annotation requires, or that were connected before.
    ``containers``: None for all. Raises RecordingError.
    """
    reader = _Creations(recording)
    reader.compares = True
    # Without them, no plugin is known to be missing.
    among = None if reader.validators or reader.taps else list[int]()
    if containers is not None and among is None:
        numbers = {number for one in containers for number in events_about(recording, one)}
        if numbers and reader.validators:
            numbers.update(last_events(recording, VALIDATE, min(numbers), _EARLIER))
        among = sorted(numbers)
    sentences: dict[str, tuple[str, ...]] = {}
    for one in reader.all(among):
        if one.presence is PluginPresence.MISSING and not one.is_pod:
            why = f"{one.required_by} requires" if one.required_by else "was connected before"
            words = f"created without {one.plugin}, which {why}: {one.evidence} (event {one.event})"
            sentences[one.id] = (*sentences.get(one.id, ()), words)
    return sentences


@dataclass(slots=True)
class _Attempt:
    """A creation whose end is not read yet."""

    event: Event
    required: Mapping[str, str] = field(default_factory=dict[str, str])
    """The plugins that it requires, each with what requires it."""
    validation: Event | None = None
    """A request to its validators that is not malformed."""
    plugins: tuple[str, ...] = ()
    """``NN-name`` of the plugins in that request."""
    owners: frozenset[str] = frozenset()
    """Plugins that it names as owners of fields."""
    tapped: dict[int, Event] = field(default_factory=dict[int, Event])
    """The requests that taps passed on, by session."""
    named_before: frozenset[str] = frozenset()
    """Plugins that earlier requests to validators named."""
    next: _Attempt | None = None
    """The next creation with a request to validators."""


class _Creations:
    compares = False
    """Whether to examine each plugin that was late, or was named to validators before."""

    def __init__(
        self,
        recording: Recording,
        since_ns: int | None = None,
        expected: Sequence[Expectation] = (),
    ) -> None:
        self._recording = recording
        self._since_ns = since_ns
        self._expected = expected
        self._annotations = all(expectation.text for expectation in expected)
        """Whether annotations require plugins, too: not if one plugin is asked about."""
        sessions = recording.sessions()
        self.taps = [session for session in sessions if session.role == Role.TAP]
        self._passive = {session.plugin for session in sessions if session.role in PASSIVE_ROLES}
        bit = nri.EventKind.ValidateContainerAdjustment.bit
        self.validators = [session for session in sessions if session.mask & bit]
        self._gaps = recording.gaps()
        self._outcomes = Creations(recording)
        self._named: frozenset[str] = frozenset()
        """Plugins that requests to validators named so far."""
        self._validated: _Attempt | None = None
        """The newest creation with a request to validators."""
        self._open: dict[str, _Attempt] = {}
        """By id of the pod or container."""
        self._known: set[str] = set()
        """Ids whose creation was seen, or that were found by Synchronize."""

    def all(self, among: Sequence[int] | None = None) -> Iterator[Creation]:
        """Yield all creations. ``among``: ids of the only events to read."""
        for event, request, _ in self._recording.exchanges(
            where=_EVENTS, among=among, needed=lambda event: event.event in _DECODED
        ):
            subject = event.container_id or event.pod_id
            if event.event == SYNCHRONIZE:
                yield from self._listed(event, request)
            elif event.event in (CREATE, RUN_POD):
                if event.event == CREATE and among is None:
                    yield from self._unannounced(event, request)
                known = self._open.get(subject)
                if known is None or event.id - known.event.id > _NEAR:
                    yield from self._end(subject)
                    pod = decode_request(event.method, request).pod
                    self._open[subject] = _Attempt(event, self._required(event, pod))
                    self._is_new(subject)
                if any(tap.id == event.session for tap in self.taps):
                    self._open[subject].tapped[event.session] = event
            elif event.event == VALIDATE:
                self._validate(self._open.get(subject) or _Attempt(event), event, request)
            if len(self._open) > _TRACKED_MAX:
                yield from self._end(next(iter(self._open)))
        for subject in list(self._open):
            yield from self._end(subject)

    def _validate(self, attempt: _Attempt, event: Event, request: bytes) -> None:
        consulted = consulted_plugins(request)
        if attempt.validation is not None or consulted is None:
            return
        attempt.validation = event
        attempt.plugins = tuple(plugin_title(*plugin) for plugin in consulted)
        attempt.owners = frozenset(owner for _, owner in owned_paths(request))
        attempt.named_before = self._named
        if len(self._named) < _NAMED_MAX:
            self._named |= frozenset(attempt.plugins) - self._passive
        if self._validated is not None:
            self._validated.next = attempt
        self._validated = attempt

    def _is_new(self, subject: str) -> bool:
        """Remember a pod or container; return whether it was not known before."""
        if subject in self._known or len(self._known) >= _TRACKED_MAX:
            return False
        self._known.add(subject)
        return True

    def _end(self, subject: str) -> Iterator[Creation]:
        attempt = self._open.pop(subject, None)
        if attempt is None:
            return
        event = attempt.event
        is_pod = event.event == RUN_POD
        if not is_pod and self._outcomes.outcome(event).fate is OperationFate.FAILED:
            return
        plugins = {**attempt.required}
        if self.compares:
            late = [one.plugin for one in attempt.tapped.values() if one.status == Status.TIMEOUT]
            for title in (*late, *sorted(attempt.named_before)):
                if not any(is_named(plugin, [title]) for plugin in plugins):
                    plugins[title] = ""
        for plugin, by in plugins.items():
            taps = [tap for tap in self.taps if is_named(plugin, [tap.plugin])]
            runs_pods = any(tap.subscribes_to(nri.EventKind.RunPodSandbox) for tap in taps)
            if runs_pods or not (is_pod and taps):
                presence = self._presence(attempt, plugin, by, taps)
                plugins_seen = *attempt.plugins, *(tap.plugin for tap in self.taps)
                yield Creation(event, plugin, by, *presence, plugins_seen)

    def _required(self, event: Event, pod: api.PodSandbox | None) -> dict[str, str]:
        """Return the plugins that a pod or container requires, each with what requires it.

        ``event`` has the names and ids. ``pod``: None if its message is malformed.
        """
        annotations: Mapping[str, str] = {} if pod is None else pod.annotations
        texts = [text for key, value in annotations.items() for text in (key, f"{key}={value}")]
        of_pod = {"event": "", "plugin": "", "annotations": texts}
        workload = SimpleNamespace(**asdict(event) | of_pod) if self._expected else None
        plugins = {one.plugin: one.text for one in self._expected if one.matches(workload)}
        requirement = requirement_of(annotations, event.container) if self._annotations else None
        if requirement is not None:
            required = ("",) if requirement.plugins is None else requirement.plugins
            plugins |= dict.fromkeys(required, requirement.annotation)
        return plugins

    def _presence(self, attempt: _Attempt, plugin: str, by: str, taps: list[Session]) -> _Found:
        # Imported here, as the first screen of the interface does not need redaction.
        from nri_scope.share.redaction.tokens import is_token

        event = attempt.event
        if not plugin or is_token(plugin):
            return PluginPresence.UNKNOWN, f"{by} is redacted, or no list of plugins", event.id
        tapped = next((attempt.tapped[tap.id] for tap in taps if tap.id in attempt.tapped), None)
        if tapped is not None and tapped.status == Status.TIMEOUT:
            why = f"its reply missed the deadline of {deadline(tapped.timeout_ns)}"
            return PluginPresence.MISSING, f"{why}: the runtime went on without it", tapped.id
        if attempt.validation is not None:
            return self._by_validator(attempt, attempt.validation, plugin, tapped)
        if tapped is not None:
            return PluginPresence.CONNECTED, "a tap passed the request on", tapped.id
        why = "no validator and no tap was connected"
        if taps and (tap := _around(taps, event.at_ns)) is not None:
            why = f"its tap (session {tap.id}) passed no {event.event} on"
        elif taps:
            why = f"{_between(taps, event.at_ns)}; it may have connected without a tap"
        elif event.event == RUN_POD:
            why = "validators are not asked about pods, and it has no tap"
        elif (validator := _around(self.validators, event.at_ns)) is not None:
            why = f"the request to the validator (session {validator.id}) is missing or malformed"
        return PluginPresence.UNKNOWN, why, event.id

    def _by_validator(
        self, attempt: _Attempt, validation: Event, plugin: str, tapped: Event | None
    ) -> _Found:
        """Return what the request to the validator proves."""
        number, next_one = validation.id, attempt.next
        took_ns = validation.at_ns - attempt.event.at_ns
        if is_named(plugin, attempt.owners):
            return PluginPresence.CONNECTED, "it changed the container", number
        if not is_named(plugin, attempt.plugins):
            named = ", ".join(attempt.plugins) or "no plugin"
            return PluginPresence.MISSING, f"the runtime named to the validator: {named}", number
        doubt, later = "", next_one and next_one.validation
        if next_one and later and not is_named(plugin, next_one.plugins):
            doubt = f" for the last time, see event {later.id}; it may have ended before"
        elif 0 < attempt.event.timeout_ns <= took_ns:
            doubt = f", but a plugin took {duration(took_ns)}, which is more than its deadline: "
            doubt += "it may be this one"
        if doubt and tapped is None:
            return PluginPresence.UNKNOWN, f"named to the validator{doubt}", number
        return PluginPresence.CONNECTED, "named to the validator", number

    def _unannounced(self, event: Event, request: bytes) -> Iterator[Creation]:
        """Yield a pod that came in neither Synchronize nor RunPodSandbox of a tapped plugin.

        ``event``: a CreateContainer in it, with its request.
        """
        runs_pods = nri.EventKind.RunPodSandbox
        tap = next((tap for tap in self.taps if tap.id == event.session), None)
        if tap is None or tap.synced_ns is None or not tap.subscribes_to(runs_pods):
            return
        gaps = [gap for gap in self._gaps if gap.session in (None, tap.id)]
        if any(tap.started_ns <= gap.to_ns and gap.from_ns <= event.at_ns for gap in gaps):
            return
        if event.pod_id and not event.is_alone and self._is_new(event.pod_id):
            why = f"neither Synchronize nor {RUN_POD} of its tap (session {tap.id}) contained it"
            about = replace(event, container="", container_id="")
            pod = decode_request(event.method, request).pod
            for plugin, by in self._required(event, pod).items():
                if is_named(plugin, [tap.plugin]):
                    missing = PluginPresence.MISSING, why, event.id
                    yield Creation(about, plugin, by, *missing, (tap.plugin,))

    def _listed(self, event: Event, encoded: bytes) -> Iterator[Creation]:
        """Yield the pods and containers that were created before their Synchronize, unseen."""
        request = decode_request(event.method, encoded).message
        if not isinstance(request, api.SynchronizeRequest):
            return
        pods = {pod.id: pod for pod in request.pods}
        newest_first = sorted(request.containers, key=lambda one: one.created_at, reverse=True)
        oldest = {one.pod_sandbox_id: one.created_at for one in newest_first if one.created_at}
        # The runtime names no time of a pod, which is older than its containers.
        created = [(pod, api.Container(created_at=oldest.get(pod.id, 0))) for pod in request.pods]
        created += [(pods.get(one.pod_sandbox_id, _NO_POD), one) for one in request.containers]
        for pod, one in created:
            created_ns = one.created_at
            is_old = self._since_ns is not None and 0 < created_ns < self._since_ns
            if self._is_new(one.id or pod.id) and not is_old:
                of_pod = {"namespace": pod.namespace, "pod": pod.name, "pod_id": pod.id}
                own: dict[str, Any] = {"container": one.name, "container_id": one.id}
                about = replace(event, at_ns=created_ns, **own | of_pod)
                unknown = PluginPresence.UNKNOWN, self._why_unseen(created_ns, event), event.id
                for plugin, by in self._required(about, pod).items():
                    yield Creation(about, plugin, by, *unknown)

    def _why_unseen(self, created_ns: int, event: Event) -> str:
        for gap in self._gaps if created_ns else ():
            if not gap.is_left_out and gap.from_ns <= created_ns <= gap.to_ns:
                return f"created in a gap of the recording: {gap.reason}"
        if not created_ns and self._since_ns is not None:
            return f"created at an unknown time, maybe before {moment(self._since_ns)}"
        return f"created before the recorder connected at {clock(event.at_ns)}"


_NO_POD = api.PodSandbox(name="?")


def _around(sessions: list[Session], at_ns: int) -> Session | None:
    """Return the session that was open at a time; one without a known end counts as open."""
    for session in sessions:
        if session.started_ns <= at_ns and (session.ended_ns is None or at_ns <= session.ended_ns):
            return session
    return None


def _between(taps: list[Session], at_ns: int) -> str:
    before = [tap for tap in taps if tap.ended_ns is not None and tap.ended_ns < at_ns]
    if before:
        last = max(before, key=lambda tap: tap.ended_ns or 0)
        return f"its tap's session {last.id} had ended at {clock(last.ended_ns or 0)}"
    first = min(taps, key=lambda tap: tap.started_ns)
    return f"its tap's first session {first.id} began later, at {clock(first.started_ns)}"
