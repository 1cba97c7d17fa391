# SPDX-License-Identifier: Apache-2.0
"""A replay's result as one JSON object.

Two replays of the same events to the same plugins produce identical bytes, except below the key
``times``, which contains durations and the output of plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import SCHEMA_VERSION
from nri_scope.specs import Change

from ..golden import plain_reply
from ..replies import Reply
from ..result import ContainerResult, PlayedEvent, Replayed


def document(replayed: Replayed) -> dict[str, Plain]:
    """Return the JSON object of the whole result."""
    name_of = replayed.name_of
    return {
        "schema_version": SCHEMA_VERSION,
        "source": replayed.source,
        "fingerprint": replayed.fingerprint,
        "profile": replayed.profile,
        "runtime": replayed.title,
        "ok": replayed.ok,
        "failures": list(replayed.failures()),
        "plugins": [asdict(plugin) for plugin in replayed.plugins],
        "events": [_event(event, name_of) for event in replayed.events],
        "containers": {name: _container(one) for name, one in replayed.containers.items()},
        "times": {
            "total_ms": replayed.took_ns // 1_000_000,
            "playing_ms": replayed.playing_ns // 1_000_000,
            "events": [_times(event) for event in replayed.events],
        },
    }


def _event(event: PlayedEvent, name_of: Callable[[str], str]) -> dict[str, Plain]:
    return {
        "id": event.event_id,
        "event": event.event,
        "subject": event.subject,
        "skipped": event.skipped,
        "fault": event.fault,
        "note": event.note,
        "failure": event.failure,
        "logged": event.logged,
        "replies": [_reply(reply, name_of) for reply in event.replies],
        "changes": [
            {"plugin": one.plugin, "container": one.container, **change_record(one.change)}
            for one in event.changes
        ],
        "dropped": [
            {
                "plugin": one.plugin,
                "container": name_of(one.container_id),
                "path": one.path,
                "reason": one.reason,
            }
            for one in event.dropped
        ],
    }


def _reply(reply: Reply, name_of: Callable[[str], str]) -> dict[str, Plain]:
    return {
        "plugin": reply.plugin,
        "event": reply.event,
        "verdict": str(reply.verdict),
        "problem": reply.problem,
        "reply": None if reply.message is None else plain_reply(reply.message, name_of),
    }


def _container(container: ContainerResult) -> dict[str, Plain]:
    return {
        "created": container.created,
        "failure": container.failure,
        "runtime_died": container.runtime_died,
        "start_failure": container.start_failure,
        "changes": [
            {**change_record(change), "plugin": container.owner(change.path)}
            for change in container.changes
        ],
        "spec": container.spec,
    }


def change_record(change: Change) -> dict[str, Plain]:
    """Return the JSON object of one change of an OCI spec."""
    return {
        "kind": change.kind,
        "path": change.path,
        "before": change.before,
        "after": change.after,
    }


def _times(event: PlayedEvent) -> dict[str, Plain]:
    return {
        "id": event.event_id,
        "replies": [
            {
                "plugin": reply.plugin,
                "took_us": reply.took_ns // 1000,
                "deadline_ms": reply.deadline_ns // 1_000_000,
                "slow": reply.slow,
                "too_slow": reply.too_slow,
            }
            for reply in event.replies
        ],
        "output": [
            {"plugin": one.plugin, "stream": one.stream, "text": one.text} for one in event.output
        ],
        "output_left_out": event.output_left_out,
    }
