# SPDX-License-Identifier: Apache-2.0
"""Convert the differ's findings to plain values for JSON. No key is missing, no list is null."""

from __future__ import annotations

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import rfc3339
from nri_scope.specs import Change, Json

from .attribution.attributed_changes import ChangeStep, Claim, NameOf, Outcome
from .attribution.owner import Owner

OPERATIONS = {"added": "add", "removed": "remove", "changed": "replace", "moved": "move"}
"""Operations of RFC 6902, by kind of change."""

MAX_DEPTH = 24
"""Maximum depth of printed objects and arrays. Fields of a spec have a few levels at most."""


def change_record(change: Change) -> dict[str, Plain]:
    """Return a change of a spec. ``position`` is null if order does not matter."""
    return {
        "path": change.path,
        "op": OPERATIONS[change.kind],
        "before": shallow(change.before),
        "after": shallow(change.after),
        "position": change.position,
    }


def step_record(step: ChangeStep, name_of: NameOf) -> dict[str, Plain]:
    """Return a change with its owner, evidence, event and outcome."""
    return {
        **change_record(step.change),
        **by_record(step.owner),
        "evidence": [str(one) for one in step.evidence],
        "event": step.event,
        "at": rfc3339(step.at_ns),
        "container": name_of(step.container) if step.container else "",
        "container_id": step.container,
        "outcome": _outcome(step.outcome),
        "disputed": [_claim(one) for one in step.disputed],
        "note": step.note,
    }


def _outcome(one: Outcome) -> dict[str, Plain]:
    return {
        "kind": str(one.kind),
        "reason": one.reason,
        "evidence": None if one.shown_by is None else str(one.shown_by),
        "event": one.event or None,
        "at": rfc3339(one.at_ns) if one.at_ns else None,
        "actual": shallow(one.actual),
    }


def by_record(owner: Owner) -> dict[str, Plain]:
    """Return an owner as text, its index, and its fields."""
    detail: dict[str, Plain] = {
        "who": str(owner.who),
        "plugins": list(owner.plugins),
        "first": owner.first,
        "last": owner.last,
        "ties": list(owner.ties),
        "or_runtime": owner.or_runtime,
        "exact": owner.exact,
    }
    return {"owner": str(owner), "index": owner.index, "owner_detail": detail}


def shallow(value: Json, depth: int = 0) -> Plain:
    """Return the value, with "…" in place of objects and arrays deeper than `MAX_DEPTH`."""
    if not isinstance(value, dict | list) or not value:
        return value
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {name: shallow(each, depth + 1) for name, each in value.items()}
    return [shallow(each, depth + 1) for each in value]


def _claim(one: Claim) -> dict[str, Plain]:
    return {"evidence": str(one.evidence), **by_record(one.owner), "value": shallow(one.value)}
