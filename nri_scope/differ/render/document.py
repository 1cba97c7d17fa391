# SPDX-License-Identifier: Apache-2.0
"""Render rounds as JSON. Every key is always present; lists are never null."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from nri_scope.nri.plain import Plain
from nri_scope.recording.records import SCHEMA_VERSION, deadline_ms, rfc3339, to_json

from ..attribution.attributed_changes import ChangeStep, NameOf, RoundDiff, Span
from ..json_records import asked_record, by_record, step_record
from . import wording

_Key = tuple[str, int, str, str]
"""Container id, event, path and kind of a change."""


class JsonRenderer:
    """A `Renderer` of one JSON object at the end or, with ``live``, of one line per round.

    The CRI reports later whether a change was applied. With ``live`` the change is then printed
    again, with ``again`` set; otherwise each change is printed once, in its newest state.
    """

    def __init__(self, *, live: bool, quiet_unchanged: bool) -> None:
        self.changed = False
        self._live = live
        self._quiet = quiet_unchanged
        # Encoded JSON takes much less memory than the values.
        self._events: list[str | bytes] = []
        self._left_out = 0
        self._changes: list[str | bytes] = []
        self._positions: dict[_Key, int] = {}

    def head(self, title: str, details: Sequence[str] = ()) -> Iterator[str]:
        """Yield nothing: JSON has no head."""
        yield from ()

    def round(self, diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
        """Yield one object with ``live``; otherwise store the round for `end`."""
        self.changed = self.changed or bool(wording.fresh(diff, diff.steps))
        if self._live:
            if not (self._quiet and wording.calm(diff)):
                changes: list[Plain] = [_of_round(step, diff, name_of) for step in diff.steps]
                event = event_record(diff, name_of)
                yield to_json({"schema_version": SCHEMA_VERSION, **event, "changes": changes})
            return
        if self._quiet and wording.calm(diff):
            self._left_out += 1
        else:
            self._events.append(_stored(event_record(diff, name_of)))
        for step in diff.steps:
            self._store(step, diff, name_of)

    def end(self) -> Iterator[str]:
        """Yield the whole object; nothing with ``live``."""
        if not self._live:
            yield f'{{"schema_version": {SCHEMA_VERSION}, "changes": ['
            yield from _separated(self._changes)
            yield '], "events": ['
            yield from _separated(self._events)
            yield f'], "left_out": {self._left_out}}}'

    def _store(self, step: ChangeStep, diff: RoundDiff, name_of: NameOf) -> None:
        key = (step.container, step.event, step.change.path, step.change.kind)
        record = {**_of_round(step, diff, name_of), "again": False}
        position = self._positions.get(key)
        if step.event in diff.events or position is None:
            self._positions[key] = len(self._changes)
            self._changes.append(_stored(record))
        else:
            self._changes[position] = _stored(record)


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
        "changed": bool(wording.fresh(diff, diff.steps)),
        "failure": diff.failure,
        "doubt": diff.doubt,
        "asked": [asked_record(one, name_of) for one in diff.asked],
        "spans": [_span(one) for one in diff.spans],
        "remarks": list(diff.remarks),
    }


def _of_round(step: ChangeStep, diff: RoundDiff, name_of: NameOf) -> dict[str, Plain]:
    return {
        **step_record(step, name_of),
        "again": step.event not in diff.events,
        "side_effect": step.container != diff.container,
    }


def _span(one: Span) -> dict[str, Plain]:
    return {
        **by_record(one.owner),
        "after": one.after,
        "before": one.before,
        "took_us": one.ns // 1000,
        "deadline_ms": deadline_ms(one.deadline_ns),
        "slow": wording.slow(one),
        "over_deadline": wording.over(one),
    }
