# SPDX-License-Identifier: Apache-2.0
"""A container's lines and changes as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import SCHEMA_VERSION, rfc3339

from ..attribution.attributed_changes import ChangeStep, PluginRequest
from ..attribution.history import History
from ..records import asked_record, shallow, step_record
from .owned_lines import OwnedLine
from .path_history import PathHistory, asked_for


def document(
    history: History,
    lines: Iterable[OwnedLine],
    pasts: Iterable[PathHistory] | None = None,
    path: str = "",
) -> dict[str, Plain | Iterator[Plain]]:
    """Return present ``lines`` with values, each with its owner, and ``changes`` in order.

    Both are iterators, as a hostile recording may have very many. With `pasts` the document is the
    history of `path`, and ``began`` has the first values.
    """
    told: dict[str, Plain | Iterator[Plain]] = {
        "schema_version": SCHEMA_VERSION,
        "container": {
            "name": history.name,
            "id": history.id,
            "created_event": history.created_event or None,
            "created": history.created and not history.failure,
            "failure": history.failure,
            "doubt": history.doubt,
            "real_event": history.real_event if history.real is not None else None,
        },
    }
    if pasts is None:
        steps: list[ChangeStep] = list(history.steps)
        asked: Sequence[PluginRequest] = history.asked
    else:
        pasts = list(pasts)
        mine = {id(step) for past in pasts for step in past.steps}
        steps = [step for step in history.steps if id(step) in mine]
        asked = asked_for(history, path)
        told["path"] = path
        told["began"] = [
            {
                "path": past.path,
                "value": shallow(past.began),
                "owner": str(history.base_owner),
            }
            for past in pasts
            if past.began_there
        ]
    told["lines"] = (
        _line(line) for line in lines if line.there and not line.heading and _is_in(line.path, path)
    )

    def name_of(_id: str) -> str:
        return history.name

    told["changes"] = (step_record(step, name_of) for step in steps)
    told["asked"] = (asked_record(one, name_of) for one in asked)
    told["remarks"] = list(history.remarks)
    return told


def _is_in(path: str, whole: str) -> bool:
    return not whole or path == whole or path.startswith(f"{whole}/")


def _line(line: OwnedLine) -> dict[str, Plain]:
    step = line.step
    return {
        "path": line.path,
        "value": shallow(line.value),
        "owner": str(line.owner),
        "index": "" if line.owner is None else line.owner.index,
        "evidence": [str(one) for one in line.evidence],
        "event": None if step is None else step.event,
        "at": None if step is None else rfc3339(step.at_ns),
        "before": shallow(line.before),
        "changed": line.changed,
    }
