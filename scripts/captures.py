# SPDX-License-Identifier: Apache-2.0
"""Convert captures of real runtimes (``tests/data/captures``) to recordings."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import TypedDict, cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.runtime_setup import nri_version_of
from nri_scope.recorder.writer import Recorder

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "captures"

ENDS = "the capture ends here"
NEXT = "the plugin is launched again"


class Line(TypedDict):
    """One request and its reply, as described in the README of the captures."""

    at_ns: int
    plugin: str
    method: str
    timeout_ns: int
    request_b64: str
    reply_b64: str
    took_ns: int


def record_capture(name: str, path: Path) -> None:
    """Write a recording with a session for each plugin: a probe if it is passive, else a tap."""
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    at_ns = 0
    for line in _lines(FOLDER / f"{name}.jsonl.gz"):
        request, reply = map(base64.b64decode, (line["request_b64"], line["reply_b64"]))
        at_ns = line["at_ns"]
        if line["method"] == "Configure":
            if line["plugin"] in sessions:
                recorder.end_session(sessions[line["plugin"]], NEXT, at_ns)
            sessions[line["plugin"]] = recorder.begin_session(_start(line, request, reply))
        recorder.capture(
            sessions[line["plugin"]],
            CapturedCall(
                wall_ns=at_ns,
                # Captures contain the wall clock only.
                mono_ns=at_ns,
                method=line["method"],
                request=request,
                reply=reply,
                status_code=0,
                status_message="",
                took_ns=line["took_ns"],
                timeout_ns=line["timeout_ns"],
            ),
        )
    for session in sessions.values():
        recorder.end_session(session, ENDS, at_ns)
    recorder.close()


def _lines(file: Path) -> list[Line]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [cast("Line", json.loads(line)) for line in lines]


def _start(line: Line, request: bytes, reply: bytes) -> SessionStart:
    configure = api.ConfigureRequest.FromString(request)
    version, inferred = nri_version_of(configure)
    index, _, name = line["plugin"].partition("-")
    return SessionStart(
        role=Role.PROBE if name.startswith("probe-") else Role.TAP,
        plugin_name=name,
        plugin_index=index,
        runtime_name=configure.runtime_name,
        runtime_version=configure.runtime_version,
        nri_version=str(version or ""),
        nri_version_inferred=inferred,
        mask=api.ConfigureResponse.FromString(reply).events,
        registration_timeout_ms=configure.registration_timeout,
        request_timeout_ms=configure.request_timeout,
        started_ns=line["at_ns"],
    )
