# SPDX-License-Identifier: Apache-2.0
"""Messages between the responder, which replies or relays, and the writer of the recording.

Orders to the writer (`queue.Order`) are pickled; entries are packed. The writer's reports are
JSON: it decodes untrusted input, and even a compromised writer must not be able to execute code in
the responder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from nri_scope.capture.sink import RecorderCounters, Resume
from nri_scope.errors import NriScopeError, RecordingError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from nri_scope.plugin import Identity
    from nri_scope.share.redaction.rules import Rules

    from .metrics_reader import FirstReading


CRI_HINT = (
    "what the runtime does with replies of plugins is only known where later events show it; in "
    "Kubernetes, --cri asks the runtime"
)
"""Message for recorders that do not query the CRI."""


class Report(IntEnum):
    """Kinds of the writer's reports, in JSON."""

    OPENED = 0
    FAILED = 1
    """The error on opening the file; see `failure_values`."""
    SAID = 2
    """A line for the user."""
    NUMBERED = 3
    """A session is about to begin: its handle, and its number in the file."""
    WRITTEN = 4
    """Progress in the file; see `Progress`."""
    CLOSED = 5
    """The file is complete and closed: the final counters."""


@dataclass(frozen=True, slots=True)
class CriSource:
    """The CRI to query about containers."""

    path: Path
    waits: bool
    """Whether it may be unavailable at first."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of a recording, for its writer."""

    path: Path
    existed: bool
    """Whether the file existed before. If not, it is removed if nothing is recorded."""
    max_size: int | None = None
    """Maximum number of bytes of the recording."""
    max_age: float | None = None
    """Maximum age of events in seconds."""
    where: str | None = None
    """Filter of the events to keep; None keeps all."""
    redact: Rules | None = None
    """Rules for redaction before events are written; None for no redaction."""
    metrics: FirstReading | None = None
    """The first reading of the runtime's metrics; None not to record them."""
    makes_folder: bool = False
    """Whether to create a missing folder."""
    max_folder_size: int | None = None
    """Maximum number of bytes of all recordings in the folder."""
    cri: CriSource | None = None
    """The CRI to query about containers; None not to."""
    validator: tuple[Path, Identity] | None = None
    """Socket and identity of a responder that may be a validator, which the writer deregisters if
    the responder is killed; None if it is none."""


class Progress(NamedTuple):
    """Progress of the writer."""

    counters: RecorderCounters
    processed: list[tuple[int, int]]
    """Handles of the open sessions, each with its number of events processed (written, filtered
    out or lost)."""
    ended: list[int]
    """Handles of sessions whose end is in the file."""
    lost_before: int
    """Number of events found to be lost with an earlier writer that was killed."""
    problem: str = ""
    """Why nothing can be written now; "" after a success."""


def failure_values(error: NriScopeError) -> list[object]:
    """Return the arguments of an error on opening the file, for JSON."""
    return list(error.args) if isinstance(error, RecordingError) else [str(error)]


def error_of(values: list[Any]) -> NriScopeError:
    """Return the error from the result of `failure_values`."""
    return RecordingError(*values) if len(values) > 1 else UsageError(*values)


def encode_report(value: object) -> bytes:
    """Return the payload of a report."""
    return json.dumps(value).encode()


Opening = tuple[RecordingOptions, list[tuple[int, Resume]]]
"""Payload of `Order.OPEN`: the options, and sessions to resume with their handles."""
