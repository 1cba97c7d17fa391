# SPDX-License-Identifier: Apache-2.0
"""A container's lines and changes as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.differ.history import History
from nri_scope.differ.model import Asked, Claim, Step
from nri_scope.differ.render.document import change_record, owner_record
from nri_scope.oci import Json
from nri_scope.recorder.plain import Plain
from nri_scope.recorder.records import SCHEMA_VERSION, rfc3339

from .lines import Line
from .past import Past
from .yamlvalue import MAX_DEPTH


def document(
    history: History, lines: Iterable[Line], pasts: Iterable[Past] | None = None, path: str = ""
) -> dict[str, Plain]:
    """``lines`` that are there and have a value, each with its owner; and ``changes`` in order.

    With `pasts` it is the history of `path`: with ``began``, what there was at first.
    """
    told: dict[str, Plain] = {
        "schema_version": SCHEMA_VERSION,
        "container": {
            "name": history.name,
            "id": history.id,
            "created_event": history.created_event or None,
            "failure": history.failure,
            "real_event": history.real_event if history.real is not None else None,
        },
    }
    if pasts is None:
        steps: list[Step] = list(history.steps)
        asked = history.asked
    else:
        pasts = list(pasts)
        mine = {id(step) for past in pasts for step in past.steps}
        steps = [step for step in history.steps if id(step) in mine]
        asked = [one for one in history.asked if _is_in(one.path, path)]
        told["path"] = path
        told["began"] = [
            {
                "path": past.path,
                "value": _shallow(past.began),
                "owner": str(history.base_owner),
            }
            for past in pasts
            if past.began_there
        ]
    told["lines"] = [
        _line(line) for line in lines if line.there and not line.heading and _is_in(line.path, path)
    ]
    told["changes"] = [_step(step, history) for step in steps]
    told["asked"] = [_asked(one) for one in asked]
    told["remarks"] = list(history.remarks)
    return told


def _is_in(path: str, whole: str) -> bool:
    return not whole or path == whole or path.startswith(f"{whole}/")


def _line(line: Line) -> dict[str, Plain]:
    step = line.step
    return {
        "path": line.path,
        "value": _shallow(line.value),
        "owner": str(line.owner),
        "index": "" if line.owner is None else line.owner.index,
        "evidence": [str(one) for one in line.evidence],
        "event": None if step is None else step.event,
        "at": None if step is None else rfc3339(step.at_ns),
        "before": _shallow(line.before),
        "changed": line.changed,
    }


def _step(step: Step, history: History) -> dict[str, Plain]:
    change = change_record(step.change)
    return {
        **change,
        "before": _shallow(step.change.before),
        "after": _shallow(step.change.after),
        "owner": str(step.owner),
        "index": step.owner.index,
        "owner_detail": owner_record(step.owner),
        "evidence": [str(one) for one in step.evidence],
        "event": step.event,
        "at": rfc3339(step.at_ns),
        "container": history.name,
        "container_id": history.id,
        "applied": None if step.applied is None else str(step.applied),
        "actual": _shallow(step.actual),
        "disputed": [_claim(one) for one in step.disputed],
        "note": step.note,
    }


def _claim(one: Claim) -> dict[str, Plain]:
    return {
        "evidence": str(one.evidence),
        "owner": str(one.owner),
        "index": one.owner.index,
        "owner_detail": owner_record(one.owner),
        "value": _shallow(one.value),
    }


def _asked(one: Asked) -> dict[str, Plain]:
    return {
        "owner": str(one.owner),
        "index": one.owner.index,
        "owner_detail": owner_record(one.owner),
        "path": one.path,
        "value": _shallow(one.value),
        "reason": one.reason,
        "evidence": str(one.evidence),
    }


def _shallow(value: Json, depth: int = 0) -> Plain:
    """The value; what a stranger nested deeper than JSON writers go is cut."""
    if not isinstance(value, dict | list) or not value:
        return value
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {name: _shallow(each, depth + 1) for name, each in value.items()}
    return [_shallow(each, depth + 1) for each in value]
