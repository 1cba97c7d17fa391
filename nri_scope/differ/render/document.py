# SPDX-License-Identifier: Apache-2.0
"""Rounds as JSON. Every key is always there; lists are never null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.differ.model import Asked, Claim, RoundDiff, Span, Step
from nri_scope.differ.owner import Owner
from nri_scope.oci import Change
from nri_scope.recorder.plain import Plain
from nri_scope.recorder.records import SCHEMA_VERSION, deadline_ms, rfc3339, to_json

from . import words
from .renderer import NameOf

_Key = tuple[str, int, str, str]
"""Container, event, path and kind of a change."""


class JsonRenderer:
    """See `Renderer`. One object in the end, or with ``live`` one of each round, a line each.

    What became of a change is told later. With ``live`` the change is then told again, marked by
    ``again``; else the newest word on it is told once.
    """

    def __init__(self, *, live: bool, quiet_unchanged: bool) -> None:
        self.changed = False
        self._live = live
        self._quiet = quiet_unchanged
        # Text takes much less memory than what it is made of.
        self._events: list[str] = []
        self._changes: list[str] = []
        self._places: dict[_Key, int] = {}

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Nothing: what comes is all there is to know."""
        yield from ()

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """One object with ``live``; else nothing yet."""
        self.changed = self.changed or bool(words.fresh(diff, diff.steps))
        if self._live:
            if not (self._quiet and words.calm(diff)):
                changes: list[Plain] = [step_record(step, diff, name_of) for step in diff.steps]
                event = event_record(diff, name_of)
                yield encoded({"schema_version": SCHEMA_VERSION, **event, "changes": changes})
            return
        if not (self._quiet and words.calm(diff)):
            self._events.append(encoded(event_record(diff, name_of)))
        for step in diff.steps:
            self._keep(step, diff, name_of)

    def end(self) -> Iterator[str]:
        """The whole object."""
        if not self._live:
            yield f'{{"schema_version": {SCHEMA_VERSION}, "changes": ['
            yield from _separated(self._changes)
            yield '], "events": ['
            yield from _separated(self._events)
            yield "]}"

    def _keep(self, step: Step, diff: RoundDiff, name_of: NameOf) -> None:
        key = (step.container, step.event, step.change.path, step.change.kind)
        record = {**step_record(step, diff, name_of), "again": False}
        known = self._places.get(key)
        if step.event in diff.events or known is None:
            self._places[key] = len(self._changes)
            self._changes.append(encoded(record))
        else:
            self._changes[known] = encoded(record)


def _separated(records: Sequence[str]) -> Iterator[str]:
    last = len(records) - 1
    for number, record in enumerate(records):
        yield record if number == last else f"{record},"


def encoded(record: dict[str, Plain]) -> str:
    """One line of JSON; a value that is nested too deeply to be written becomes a word on that."""
    try:
        return to_json(record)
    except RecursionError:
        return to_json({key: _flat(value) for key, value in record.items()})


def _flat(value: Plain) -> Plain:
    try:
        to_json(value)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return value


def event_record(diff: RoundDiff, name_of: NameOf) -> dict[str, Plain]:
    """A round without its changes."""
    return {
        "id": diff.event,
        "event": diff.name,
        "at": rfc3339(diff.at_ns),
        "events": list(diff.events),
        "container": name_of(diff.container) if diff.container else "",
        "container_id": diff.container,
        "pod": name_of(diff.pod) if diff.pod else "",
        "pod_id": diff.pod,
        "seen_by": list(diff.seen_by),
        "missed_by": list(diff.missed_by),
        "chain": list(diff.chain),
        "changed": bool(words.fresh(diff, diff.steps)),
        "failure": diff.failure,
        "asked": [_asked(one, name_of) for one in diff.asked],
        "spans": [_span(one) for one in diff.spans],
        "remarks": list(diff.remarks),
    }


def change_record(change: Change) -> dict[str, Plain]:
    """A change of a spec: RFC 6902's names, and the position where order matters."""
    return {
        "path": change.path,
        "op": words.OPERATIONS[change.kind],
        "before": change.before,
        "after": change.after,
        "position": change.at,
    }


def step_record(step: Step, diff: RoundDiff, name_of: NameOf) -> dict[str, Plain]:
    """A change with all that is known of it."""
    return {
        **change_record(step.change),
        "owner": str(step.owner),
        "index": step.owner.index,
        "owner_detail": owner_record(step.owner),
        "evidence": [str(one) for one in step.evidence],
        "event": step.event,
        "at": rfc3339(step.at_ns),
        "container": name_of(step.container),
        "container_id": step.container,
        "again": step.event not in diff.events,
        "side_effect": step.container != diff.container,
        "applied": None if step.applied is None else str(step.applied),
        "actual": step.actual,
        "disputed": [_claim(one) for one in step.disputed],
        "note": step.note,
    }


def owner_record(who: Owner) -> dict[str, Plain]:
    """An owner, taken apart."""
    return {
        "who": str(who.who),
        "plugins": list(who.plugins),
        "first": who.first,
        "last": who.last,
        "ties": list(who.ties),
        "or_runtime": who.or_runtime,
        "exact": who.exact,
    }


def _claim(one: Claim) -> dict[str, Plain]:
    return {
        "evidence": str(one.evidence),
        "owner": str(one.owner),
        "index": one.owner.index,
        "owner_detail": owner_record(one.owner),
        "value": one.value,
    }


def _asked(one: Asked, name_of: NameOf) -> dict[str, Plain]:
    return {
        "container": name_of(one.container) if one.container else "",
        "container_id": one.container,
        "owner": str(one.owner),
        "index": one.owner.index,
        "owner_detail": owner_record(one.owner),
        "path": one.path,
        "value": one.value,
        "reason": one.reason,
        "evidence": str(one.evidence),
    }


def _span(one: Span) -> dict[str, Plain]:
    return {
        "owner": str(one.owner),
        "index": one.owner.index,
        "owner_detail": owner_record(one.owner),
        "after": one.after,
        "before": one.before,
        "took_us": one.ns // 1000,
        "deadline_ms": deadline_ms(one.deadline_ns),
        "slow": words.slow(one),
    }
