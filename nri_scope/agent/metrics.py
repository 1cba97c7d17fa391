# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a node's recordings.

Counters begin at 0 when the agent starts, and count what is recorded from then on. No label has
values that pods or containers choose, but for namespaces, on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import nan
from time import monotonic

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
)

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.capture.queue import TOO_FAST
from nri_scope.errors import RecordingError
from nri_scope.events import KILLED, NO_SESSION, NOT_CONNECTED, STALLED, Event, Gap, Status
from nri_scope.nri.changes import absent_plugins, owned_paths
from nri_scope.nri.events import CREATED_ONLY_EVENTS, METHODS, VALIDATE, EventKind
from nri_scope.recording.node_files import MAX_RECORDINGS
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.redaction import NameKind, Redactor

from .node_recordings import FolderError, NodeRecordings, UnchangedContents
from .recorder_status import NO_LOSS, RecorderStatus

_NAMES = {str(event.name) for event in EventKind} | set(METHODS)
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5)
"""Seconds. A passive plugin answers in less than 1 ms; the usual deadline is 2 s."""
_OTHER = "other"
_PLUGINS_MAX = 100
"""Maximum number of plugins that have metrics; the others are counted as ``other``."""
_NAMESPACES_MAX = 1_000
_KINDS_MAX = 50
_WITHOUT_MAX = 10_000
PLUGIN_KEPT_S = 24 * 3600.0
"""Seconds after which a plugin that is gone is forgotten: it may have been removed on purpose."""
_VALUE_MAX = 200
"""Maximum number of characters of a label's value."""


@dataclass(slots=True)
class _Progress:
    """What of a recording was counted."""

    event: int | None
    """Number of the last event that was counted; None: count none of those before now."""
    gaps: set[int] = field(default_factory=set[int])


_GAUGES = {
    "connected": "Whether a recorder is connected to the runtime.",
    "synchronized": "Whether the runtime has sent it all containers.",
    "recorder_heartbeat_age_seconds": "Time since the recorder's last heartbeat.",
    "recorder_queued_entries": "Entries that the recorder has not written yet.",
    "recorder_oldest_unwritten_seconds": "How long the oldest event has waited.",
    "recording_bytes": "Bytes of all recordings.",
    "free_bytes": "Free bytes of the recordings' file system.",
    "unreadable_recordings": "Recordings that cannot be read.",
    "last_event_timestamp_seconds": "Time of the newest event.",
}
"""The present state of the node's recorder and recordings."""


class NodeMetrics:
    """Metrics of all recordings of a node. Use it in one thread."""

    def __init__(
        self,
        recordings: NodeRecordings,
        status: RecorderStatus,
        redactor: Redactor | None,
        *,
        by_namespace: bool,
    ) -> None:
        """``redactor``: for the names of plugins and namespaces."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._recordings = recordings
        self._status = status
        self._redactor = redactor
        self._by_namespace = by_namespace
        self._progress: dict[tuple[str, int], _Progress] | None = None
        """By name and inode of a recording."""
        self._counted = UnchangedContents[bool]()
        """Recordings of which all was counted."""
        self._plugins: set[str] = set()
        self._absent: dict[str, float | None] = {}
        """Plugins that a request to a validator named, and since when later ones do not."""
        self._without: set[str] = set()
        """Containers whose request to validators does not name a required plugin."""
        self._namespaces: set[str] = set()
        self._kinds: set[str] = set()
        counter = partial(Counter, registry=self.registry)
        of_event = ("event", "namespace") if by_namespace else ("event",)
        self._events = counter("nri_scope_events", "NRI requests recorded.", of_event)
        self._errors = counter(
            "nri_scope_event_errors",
            "NRI requests that were answered with an error, too late or not at all.",
            (*of_event, "status"),
        )
        self._took = Histogram(
            "nri_scope_answer_seconds",
            "Time from a request to the reply of the recording plugin.",
            ("event",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._gaps = counter("nri_scope_gaps", "Intervals that were not recorded.", ("reason",))
        self._lost = counter("nri_scope_events_lost", "Events known to be lost.", ("reason",))
        self._changes = counter(
            "nri_scope_plugin_changes",
            "Changes that plugins asked for, as named in requests to validators.",
            ("plugin", "kind"),
        )
        self._created_without = counter(
            "nri_scope_created_without_required_plugin",
            "Containers created without a plugin that required-plugins.noderesource.dev requires.",
        )
        for reason in GAP_REASONS:
            # A counter that begins at 1 has no increase for Prometheus.
            self._gaps.labels(reason)
            self._lost.labels(reason)
        gauge = partial(Gauge, registry=self.registry)
        self._gauges = {name: gauge(f"nri_scope_{name}", text) for name, text in _GAUGES.items()}
        self._plugin = gauge(
            "nri_scope_plugin_connected",
            "Whether the newest request to a validator names a plugin that an earlier one named.",
            ("plugin",),
        )
        text = "The agent and the runtime of its node."
        self._info = Info("nri_scope_agent", text, registry=self.registry)

    def update(self) -> v1.GetStatusResponse:
        """Count what is new, and return the state of the node. Raises FolderError."""
        try:
            return self._update()
        except FolderError:
            self._gauges["connected"].set(0)
            self._gauges["synchronized"].set(0)
            raise

    def _update(self) -> v1.GetStatusResponse:
        files = self._recordings.all()
        is_first = self._progress is None
        known = self._progress or {}
        # When a recording is removed, one that was left out, as older ones are, may take its place.
        is_older = len(known) >= MAX_RECORDINGS
        self._progress = {}
        self._counted.keep(files)
        for file in files:
            is_older &= file.key not in known
            progress = known.get(file.key) or _Progress(None if is_first or is_older else 0)
            # Kept also if the rest cannot be read.
            self._progress[file.key] = progress
            if self._counted.get(file):
                continue
            with suppress(RecordingError), Recording.open(file.path) as recording:
                self._count(recording, progress)
                self._counted.put(file, True)
        status = self._status.read()
        self._set(status)
        return status

    def _count(self, recording: Recording, progress: _Progress) -> None:
        # A gap up to now, without an id, may end without a loss.
        gaps = {gap.id: gap for gap in recording.gaps() if gap.id and gap.reason not in NO_LOSS}
        _, newest = event_range(recording)
        if progress.event is None:
            progress.event, progress.gaps = newest, set(gaps)
        elif 0 < newest < progress.event:
            # Another recording has the same name and inode.
            progress.event, progress.gaps = 0, set()
        for event in recording.events(after_id=progress.event):
            progress.event = event.id
            self._count_event(recording, event)
        for gap in gaps.values():
            if gap.id not in progress.gaps:
                self._count_gap(gap)
        progress.gaps = set(gaps)

    def _count_event(self, recording: Recording, event: Event) -> None:
        name = event.event if event.event in _NAMES else _OTHER
        labels = [name]
        if self._by_namespace:
            namespace = event.namespace
            if self._redactor is not None:
                namespace = self._redactor.name(NameKind.NAMESPACE, namespace)
            labels.append(_bounded(namespace, self._namespaces, _NAMESPACES_MAX))
        self._events.labels(*labels).inc()
        self._took.labels(name).observe(event.took_ns / 1e9)
        if event.status != Status.OK:
            self._errors.labels(*labels, event.status).inc()
        request = recording.request(event.id) if event.event == VALIDATE and not event.mark else b""
        for path, owner in owned_paths(request):
            if self._redactor is not None:
                owner = self._redactor.name(NameKind.PLUGIN, owner)
            plugin = _bounded(owner, self._plugins, _PLUGINS_MAX)
            kind = _bounded(kind_of(path), self._kinds, _KINDS_MAX)
            self._changes.labels(plugin, kind).inc()

        if absent_plugins(request) and len(self._without) < _WITHOUT_MAX:
            self._without.add(event.container_id)
        elif event.container_id in self._without and event.event != VALIDATE:
            # A validator may have refused the container.
            self._without.remove(event.container_id)
            self._created_without.inc(event.event in CREATED_ONLY_EVENTS)

    def _count_gap(self, gap: Gap) -> None:
        reason = gap_reason(gap.reason)
        self._gaps.labels(reason).inc()
        self._lost.labels(reason).inc(max(0, gap.lost or 0))

    def _set(self, status: v1.GetStatusResponse) -> None:
        recordings = status.recordings
        age = queued = unwritten = nan
        for one in recordings:
            if one.recording_now:
                queued, age = one.queued, (status.now_ns - one.heartbeat_ns) / 1e9
                unwritten = (status.now_ns - (one.unwritten_since_ns or status.now_ns)) / 1e9
        values = {
            "connected": any(one.connected for one in recordings),
            "synchronized": any(one.synchronized for one in recordings),
            "recorder_heartbeat_age_seconds": age,
            "recorder_queued_entries": queued,
            "recorder_oldest_unwritten_seconds": unwritten,
            "recording_bytes": status.recorded_bytes,
            "free_bytes": status.free_bytes,
            "unreadable_recordings": sum(bool(one.problem) for one in recordings),
            "last_event_timestamp_seconds": max((one.newest_ns for one in recordings), default=0)
            / 1e9,
        }
        for name, value in values.items():
            self._gauges[name].set(value)
        self._set_plugins(recordings)
        sessions = [one.session for one in recordings if one.session is not None]
        info = {"version": status.version, "node": status.node}
        if sessions:
            newest = max(sessions, key=lambda session: session.started_ns)
            names = ("runtime_version", "nri_version")
            info |= {
                "runtime": newest.runtime_name,
                **{name: getattr(newest, name) for name in names},
            }
        self._info.info({name: value[:_VALUE_MAX] for name, value in info.items()})

    def _set_plugins(self, recordings: Sequence[v1.RecordingStatus]) -> None:
        validated = [one for one in recordings if one.connected and one.plugins_at_ns]
        if not validated:
            return
        newest = max(validated, key=lambda recording: recording.plugins_at_ns)
        named = {_bounded(plugin, self._plugins, _PLUGINS_MAX) for plugin in newest.plugins}
        now = monotonic()
        self._absent |= dict.fromkeys(named - {_OTHER})
        for plugin, since in list(self._absent.items()):
            if plugin in named:
                self._plugin.labels(plugin).set(1)
            elif since is None or now < since + PLUGIN_KEPT_S:
                self._absent[plugin] = since or now
                self._plugin.labels(plugin).set(0)
            else:
                del self._absent[plugin]
                self._plugin.remove(plugin)


_GAPS = {
    TOO_FAST: "too_fast",
    KILLED: "recorder_killed",
    NOT_CONNECTED: "not_connected",
    NO_SESSION: "not_connected",
    STALLED: "recorder_stalled",
}
"""By the beginning of the reason in a recording."""
GAP_REASONS = (*dict.fromkeys(_GAPS.values()), _OTHER)
"""Values for the reason of a gap."""


def gap_reason(reason: str) -> str:
    """Return one of a few values for the reason of a gap."""
    return next((_GAPS[begin] for begin in _GAPS if reason.startswith(begin)), _OTHER)


def kind_of(path: str) -> str:
    """Return the kind of field of an OCI path, such as "env" for ``/process/env/FOO``."""
    parts = path.split("/")[1:]
    first = parts[0] if parts else ""
    return parts[1] if first in ("process", "linux") and len(parts) > 1 else first or _OTHER


def _bounded(value: str, known: set[str], most: int) -> str:
    value = value[:_VALUE_MAX]
    if value not in known:
        if len(known) >= most:
            return _OTHER
        known.add(value)
    return value
