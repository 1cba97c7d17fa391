# SPDX-License-Identifier: Apache-2.0
"""Create a redactor for one recording, or for several recordings to be compared."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from nri_scope.recording.reader import Recording

from ..redaction import Redactor, Rules, derive, local_key
from ..redaction.memory_limits import Memory
from ..redaction.user_key import KEY_BYTES
from ..redaction.work_limit import WorkLimit


def redactor_for(
    recording: Recording,
    rules: Rules,
    *,
    stable: bool = False,
    unlinked: bool = False,
    key_folder: Path | None = None,
) -> Redactor:
    """Return a redactor for this recording. Raises UsageError and RecordingError.

    Its key is random and never stored. ``stable``: derive the key from the user's key, so that the
    same recording always gets the same tokens on this machine, even after more events were
    recorded. ``unlinked``: see `Redactor`.
    """
    key = secrets.token_bytes(KEY_BYTES)
    if stable:
        key = derive(local_key(key_folder), identity(recording))
    return Redactor(rules, key, memory=_memory([recording]), unlinked=unlinked)


def redactor_for_comparison(recordings: Sequence[Recording], rules: Rules) -> Redactor:
    """Return a redactor for recordings to be compared. Raises RecordingError.

    Containers with the same namespace, pod and name get the same tokens in all recordings.
    """
    linked: dict[str, str] = {}
    for recording in recordings if len(recordings) > 1 else ():
        for pod in recording.pods():
            linked[pod.id] = "\0".join((pod.namespace, pod.name))
        for container in recording.containers():
            pod_name = "" if container.pod is None else linked.get(container.pod.id, "")
            linked[container.id] = "\0".join((pod_name, container.name))
    key = secrets.token_bytes(KEY_BYTES)
    return Redactor(rules, key, memory=_memory(recordings), linked=linked)


def _memory(recordings: Iterable[Recording]) -> Memory:
    return Memory(work=WorkLimit.of_file(sum(recording.file_size() for recording in recordings)))


def identity(recording: Recording) -> bytes:
    """Return a digest of a recording's first session and first event, which identify it."""
    session = next(iter(recording.sessions()), None)
    event = next(recording.events(), None)
    start = (
        None if session is None else (session.id, session.started_ns, session.plugin),
        None if event is None else (event.id, event.at_ns, event.mono_ns, event.event),
    )
    return hashlib.sha256(repr(start).encode("utf-8", "surrogatepass")).digest()
