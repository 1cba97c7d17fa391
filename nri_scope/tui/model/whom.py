# SPDX-License-Identifier: Apache-2.0
"""Whom an event is about, without reading all pods and containers that there are."""

from __future__ import annotations

from collections.abc import Sequence

from nri_scope.recorder.model import Container, Pod
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import CONTAINER_COLUMNS, container_of, pod_of
from nri_scope.recorder.sound import sound

_CONTAINERS = f"SELECT {CONTAINER_COLUMNS} FROM container AS c LEFT JOIN pod AS p ON p.key = c.pod"


def container_of_event(recording: Recording, event_id: int) -> Container | None:
    """None where it is about none, or is gone. Raises RecordingError."""
    return _one(
        recording,
        f"{_CONTAINERS} WHERE c.key = (SELECT container FROM event WHERE id = ?)",
        event_id,
    )


def containers_by_key(recording: Recording, keys: Sequence[int]) -> list[Container]:
    """Those that there are, in the order of their keys. Raises RecordingError."""
    found = (_one(recording, f"{_CONTAINERS} WHERE c.key = ?", key) for key in sorted(set(keys)))
    return [one for one in found if one is not None]


def pod_of_event(recording: Recording, event_id: int) -> Pod | None:
    """None where it is about none, or is gone. Raises RecordingError."""
    with sound(recording):
        row = recording.connection.execute(
            "SELECT key, id, namespace, name, uid FROM pod "
            "WHERE key = (SELECT pod FROM event WHERE id = ?)",
            (event_id,),
        ).fetchone()
        return None if row is None else pod_of(row)


def _one(recording: Recording, query: str, number: int) -> Container | None:
    with sound(recording):
        row = recording.connection.execute(query, (number,)).fetchone()
        return None if row is None else container_of(row)
