# SPDX-License-Identifier: Apache-2.0
"""Describe what `blame` shows of a container as a JSON document."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.records import SCHEMA_VERSION, rfc3339
from nri_scope.specs import Absent, is_within

from ..attribution.history import History
from ..render.document import shallow, step_record
from .owned_lines import OwnedLine, lines
from .path_history import path_histories


def document(history: History, path: str = "") -> dict[str, Plain | Iterator[Plain]]:
    """Return the existing lines that have a value, with their owners, and ``changes`` and other
    ``requests`` in order.

    They are iterators: a hostile recording may contain a huge number. With a ``path`` the document
    is its history, and ``began`` contains the initial values.
    """
    result: dict[str, Plain | Iterator[Plain]] = {
        "schema_version": SCHEMA_VERSION,
        "container": {
            "name": history.name,
            "id": history.id,
            "created_event": history.created_event or None,
            "created": history.created and not history.failure,
            "absences": [*history.absences],
            "failure": history.failure,
            "doubt": history.doubt,
            "real_event": history.real_event if history.real is not None else None,
        },
    }
    if path:
        result["path"] = path
        result["began"] = [
            {
                "path": path_history.path,
                "value": shallow(path_history.began),
                "owner": str(history.base_owner),
            }
            for path_history in path_histories(history, path)
            if not isinstance(path_history.began, Absent)
        ]
    steps = history.steps_at(path)
    result["lines"] = (
        _line(line)
        for line in lines(history)
        if line.exists and not line.heading and (not path or is_within(line.path, (path,)))
    )

    def name_of(_id: str) -> str:
        return history.name

    result["changes"] = (step_record(step, name_of) for step in steps if step.is_change)
    result["requests"] = (step_record(step, name_of) for step in steps if not step.is_change)
    result["remarks"] = list(history.remarks)
    result["coverage"] = None if history.coverage is None else history.coverage.record()
    return result


def _line(line: OwnedLine) -> dict[str, Plain]:
    step = line.step
    return {
        "path": line.path,
        "value": shallow(line.value),
        "owner": str(line.owner),
        "index": "" if line.owner is None else line.owner.index,
        "evidence": [str(kind) for kind in line.evidence],
        "event": None if step is None else step.event,
        "at": None if step is None else rfc3339(step.at_ns),
        "before": shallow(line.before),
        "changed": line.changed,
    }
