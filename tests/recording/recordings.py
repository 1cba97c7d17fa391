# SPDX-License-Identifier: Apache-2.0
"""Recordings of captured traffic of real runtimes, made by the real recorder."""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file.heartbeat import Heartbeat, HeartbeatFile, heartbeat_of

FOLDER = Path(__file__).parent.parent / "data" / "captures"
PLUGIN = "00-probe-a"


def captured(capture: str = "containerd-2.1.9") -> Iterator[tuple[str, CapturedCall]]:
    """Yield the calls that the plugins of a capture received after Configure, with replies."""
    with gzip.open(FOLDER / f"{capture}.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if line["method"] != "Configure":
                yield (
                    line["plugin"],
                    CapturedCall(
                        wall_ns=line["at_ns"],
                        mono_ns=line["at_ns"] % 10**15,
                        method=line["method"],
                        request=base64.b64decode(line["request_b64"]),
                        reply=base64.b64decode(line["reply_b64"]),
                        status_code=0,
                        status_message="",
                        took_ns=line["took_ns"],
                        timeout_ns=line["timeout_ns"],
                    ),
                )


def a_start(plugin: str = PLUGIN, started_ns: int = 0) -> SessionStart:
    index, _, name = plugin.partition("-")
    return SessionStart(
        role=Role.LOGGER,
        plugin_name=name,
        plugin_index=index,
        runtime_name="containerd",
        runtime_version="2.1.9+unknown",
        nri_version="0.8.0",
        nri_version_inferred=True,
        mask=0x07FF,
        registration_timeout_ms=5000,
        request_timeout_ms=2000,
        started_ns=started_ns,
    )


def record(
    path: Path,
    *plugins: str,
    capture: str = "containerd-2.1.9",
    more: Callable[[Recorder, int], None] | None = None,
) -> Path:
    """Write a recording with one session for each of ``plugins``, all open at the same time.

    ``more`` may add entries to the last session before the sessions end.
    """
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    session = newest = 0
    for plugin, item in captured(capture):
        if plugin not in (plugins or (PLUGIN,)):
            continue
        newest = item.wall_ns
        if plugin not in sessions:
            sessions[plugin] = recorder.begin_session(a_start(plugin, newest - 1000))
        session = sessions[plugin]
        recorder.capture(session, item)
    if more is not None:
        more(recorder, session)
    for session in sessions.values():
        recorder.end_session(session, "the runtime closed the connection", newest + 10**9)
    recorder.close()
    return path


@contextmanager
def heartbeat_beside(path: Path) -> Iterator[None]:
    """Let a recording look as if a recorder were writing to it in time."""
    file = HeartbeatFile(path)
    file.write(Heartbeat(0, 0, 0, 0, ""))
    an_hour_later = time.time() + 3600
    os.utime(heartbeat_of(path), (an_hour_later, an_hour_later))
    try:
        yield
    finally:
        file.close()
