# SPDX-License-Identifier: Apache-2.0
"""Recordings for tests of formats: one with every kind of data, one hostile."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.event_messages import status_request
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.formats import FORMATS
from nri_scope.survey.foreground import analysed
from tests.recording.traffic import NOW, a_container, a_pod, a_start, an_item, lifecycle

SAMPLES = sorted((Path(__file__).parents[3] / "recordings").glob("*.nriscope.db"))
SECOND = 10**9
BEGIN = next(lifecycle(1)).wall_ns
"""Wall clock time of the first event of `varied`, in ns."""
END = BEGIN + SECOND
"""Wall clock time of the last event of `varied`, in ns."""
CONTAINER = a_container(a_pod(1), "app-0").id
POD = a_pod(1).id
TRACE_CONTEXT = (
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tracestate", "congo=t61rcWkgMzE"),
)
"""ttRPC metadata of event 8 of `varied`."""
SPEC = json.dumps({"runtimeSpec": {"ociVersion": "1.1.0"}}).encode()


def exported(
    path: Path, name: str, numbers: Iterable[int] | None = None, *, outcomes: bool = True
) -> bytes:
    """Return a recording in a format."""
    stream = io.BytesIO()
    with Recording.open(path) as recording:
        FORMATS[name].write(recording, numbers, stream, analysed if outcomes else None)
    return stream.getvalue()


def a_start_without_end(role: Role, name: str) -> SessionStart:
    """Return the start of a session that never ends."""
    return SessionStart(
        role=role,
        plugin_name=name,
        plugin_index="",
        runtime_name="",
        runtime_version="",
        nri_version="",
        nri_version_inferred=False,
        mask=0,
        registration_timeout_ms=0,
        request_timeout_ms=0,
        started_ns=NOW,
    )


def varied(path: Path) -> Path:
    """Record a pod's life at two plugins, one failure, gaps, a note and an answer of the CRI.

    Events 1 to 22 are from the two plugins in turn, event 23 is Shutdown, 24 is from the CRI.
    """
    recorder = Recorder.open(path)
    first = recorder.begin_session(a_start("10-first"))
    second = recorder.begin_session(a_start("90-second"))
    for number, item in enumerate(lifecycle(1)):
        recorder.capture(first, item)
        if number == 3:
            item = item._replace(metadata=TRACE_CONTEXT)
        if number == 4:
            item = item._replace(status_code=4, status_message="too late", reply=b"")
        recorder.capture(second, item._replace(wall_ns=item.wall_ns + 1_000_000))
    recorder.capture(first, an_item("Shutdown", b"", wall_ns=END))
    recorder.end_session(first, "shut down", END + SECOND)
    cri = recorder.begin_session(a_start_without_end(Role.CRI, "cri"))
    recorder.capture(
        cri,
        an_item(
            CONTAINER_STATUS, status_request(CONTAINER), SPEC, wall_ns=END, service=CRI_SERVICE
        ),
    )
    recorder.note_gap(second, BEGIN + SECOND // 20, BEGIN + SECOND // 10, "the queue was full", 7)
    recorder.note_gap(None, END + SECOND, END + 2 * SECOND, "nothing ran", None)
    recorder.note(first, BEGIN + SECOND // 20, "look here")
    recorder.close()
    return path


HOSTILE = (
    "a\0b",
    "\x1b]0;title\x07\x9b5m",
    '"},{"x":"',
    "'; DROP TABLE events; --",
    "<script>alert(1)</script>",
    "\u202egpj",
    "🐳\uffff",
    "x" * 100_000,
    "",
)
"""Names of pods and containers."""


def hostile(path: Path) -> Path:
    """Record hostile texts in all fields, invalid JSON and impossible times."""
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start("10-first"))
    for number, text in enumerate(HOSTILE):
        pod = api.PodSandbox(id=f"{number}{text}", name=text, namespace=text, uid=text)
        pod.annotations[text] = text
        container = api.Container(id=f"c{number}{text}", pod_sandbox_id=pod.id, name=text)
        container.env.append(text)
        request = api.CreateContainerRequest(pod=pod, container=container)
        recorder.capture(session, an_item("CreateContainer", request, b"\xff\xfe"))
        recorder.capture(
            session,
            an_item("StopContainer", request, status_code=2, status_message=f"{text}\ud800"),
        )
    recorder.capture(session, an_item("CreateContainer", b"\xff\x00", b"\xff"))
    recorder.capture(session, an_item("Future\0Event", b"\x80", b"\x81"))
    cri = recorder.begin_session(a_start_without_end(Role.CRI, "cri"))
    for reply in (
        rb'{"half": "\ud800", "\udc00": 1, "whole": "\ud83d\udc33"}',
        b'{"number": 1e999, "least": -1e999, "large": 123456789012345678901234567890}',
        b'{"deep": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"nul": "\\u0000"}',
        b"no JSON",
    ):
        recorder.capture(
            cri, an_item(CONTAINER_STATUS, status_request("c" * 64), reply, service=CRI_SERVICE)
        )
    recorder.note_gap(session, NOW + SECOND, NOW, "\0 from after to", -(2**62))
    recorder.note(None, NOW, "\0\x1b[2J")
    recorder.close()
    with closing(sqlite3.connect(path)) as connection:
        texts = json.dumps(["/process/env/\ud800\0", "\x1b[2J"])
        connection.execute("UPDATE event SET changed = ?, owners = ? WHERE id = 1", (texts, texts))
        connection.execute(f"UPDATE event SET at_ns = {-(2**63)} WHERE id = 2")
        connection.execute(f"UPDATE event SET at_ns = {2**63 - 1}, took_ns = {2**62} WHERE id = 3")
        connection.execute(f"UPDATE event SET took_ns = {-(2**62)} WHERE id = 4")
        connection.execute("UPDATE event SET status_code = -7 WHERE id = 5")
        connection.execute("UPDATE event SET session = 99 WHERE id = 6")
        connection.execute("UPDATE gap SET session = 98")
        connection.commit()
    return path
