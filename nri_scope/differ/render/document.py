# SPDX-License-Identifier: Apache-2.0
"""Render rounds as JSON. Every key is always present; lists are never null."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.recording.query.coverage import Coverage
from nri_scope.recording.reading.records import SCHEMA_VERSION, deadline_ms, rfc3339, to_json
from nri_scope.specs import Change, Json

from ..attribution.attributed_changes import (
    ChangeStep,
    Claim,
    NameOf,
    PluginSpan,
    RequestOutcome,
    RoundDiff,
)
from ..attribution.owner import Owner
from ..render import wording


class JsonRenderer:
    """A `Renderer` of one JSON object at the end or, with ``live``, of one line per round.

    Later events show what became of a request. With ``live`` the request is then printed again,
    with ``again`` set; otherwise each one is printed once, with its final outcome.
    """

    def __init__(self, *, live: bool, quiet_unchanged: bool) -> None:
        self.changed = False
        self._live = live
        self._quiet = quiet_unchanged
        # Encoded JSON takes much less memory than the values.
        self._events: list[str | bytes] = []
        self._left_out = 0
        self._changes: list[str | bytes] = []
        self._requests: list[str | bytes] = []

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield nothing: JSON has no head."""
        yield from ()

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield one object with ``live``; otherwise store the round for `end`."""
        self.changed = self.changed or wording.changes_anything(diff)
        if self._live:
            if diff.settled or not (self._quiet and wording.calm(diff)):
                steps = [(step, False) for step in diff.steps]
                steps += ((step, True) for step in diff.settled)
                records = [(step, _of_round(step, diff, name_of, again)) for step, again in steps]
                changes: list[Plain] = [each for step, each in records if step.is_change]
                requests: list[Plain] = [each for step, each in records if not step.is_change]
                event = event_record(diff, name_of)
                yield to_json(
                    {
                        "schema_version": SCHEMA_VERSION,
                        **event,
                        "changes": changes,
                        "requests": requests,
                    }
                )
            return
        if self._quiet and wording.calm(diff):
            self._left_out += 1
        else:
            self._events.append(_stored(event_record(diff, name_of)))
        for step in diff.steps:
            into = self._changes if step.is_change else self._requests
            into.append(_stored(_of_round(step, diff, name_of, again=False)))

    def end(self, coverage: Coverage | None = None) -> Iterator[str]:
        """Yield the whole object; nothing with ``live``."""
        if not self._live:
            yield f'{{"schema_version": {SCHEMA_VERSION}, "changes": ['
            yield from _separated(self._changes)
            yield '], "requests": ['
            yield from _separated(self._requests)
            yield '], "events": ['
            yield from _separated(self._events)
            yield f'], "left_out": {self._left_out}, '
            yield f'"coverage": {to_json(None if coverage is None else coverage.record())}}}'


_COMPRESSED_MIN = 64 << 10
"""Length from which a record is stored compressed, in characters."""


def _stored(record: Plain) -> str | bytes:
    text = to_json(record)
    return text if len(text) < _COMPRESSED_MIN else zlib.compress(text.encode(), 1)


def _separated(records: Sequence[str | bytes]) -> Iterator[str]:
    last = len(records) - 1
    for number, stored in enumerate(records):
        record = stored if isinstance(stored, str) else zlib.decompress(stored).decode()
        yield record if number == last else f"{record},"


def event_record(diff: RoundDiff, name_of: NameOf) -> dict[str, Plain]:
    """Return a round without its changes."""
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
        "changed": bool(diff.changes),
        "absences": list(diff.absences),
        "failure": diff.failure,
        "doubt": diff.doubt,
        "spans": [_span(span) for span in diff.spans],
        "remarks": list(diff.remarks),
    }


def _of_round(step: ChangeStep, diff: RoundDiff, name_of: NameOf, again: bool) -> dict[str, Plain]:
    return {
        **step_record(step, name_of),
        "again": again,
        "side_effect": step.container != diff.container,
    }


def _span(span: PluginSpan) -> dict[str, Plain]:
    return {
        **by_record(span.owner),
        "after": span.after,
        "before": span.before,
        "took_us": span.ns // 1000,
        "deadline_ms": deadline_ms(span.deadline_ns),
        "slow": wording.slow(span),
        "over_deadline": wording.over(span),
    }


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
        "evidence": [str(evidence) for evidence in step.evidence],
        "event": step.event,
        "at": rfc3339(step.at_ns),
        "container": name_of(step.container) if step.container else "",
        "container_id": step.container,
        "outcome": _outcome(step.outcome),
        "disputed": [_claim(claim) for claim in step.disputed],
        "note": step.note,
    }


def _outcome(outcome: RequestOutcome) -> dict[str, Plain]:
    return {
        "kind": str(outcome.kind),
        "reason": outcome.reason,
        "evidence": None if outcome.shown_by is None else str(outcome.shown_by),
        "event": outcome.event or None,
        "at": rfc3339(outcome.at_ns) if outcome.at_ns else None,
        "actual": shallow(outcome.actual),
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


def _claim(claim: Claim) -> dict[str, Plain]:
    owner, value = by_record(claim.owner), shallow(claim.value)
    return {"evidence": str(claim.evidence), **owner, "value": value}
