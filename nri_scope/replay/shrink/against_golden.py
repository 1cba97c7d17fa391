# SPDX-License-Identifier: Apache-2.0
"""Compare replies with a golden, also in replays of only some of its events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nri_scope.recording.records import to_json

from ..golden import SESSION, Golden, Key, Mismatch, MismatchKind, entries_of
from ..replies import Reply
from ..result import Replayed
from .failure import Check, crash_of, plugin_checks

_Place = tuple[str, int, str]
"""Plugin, number of the recorded event, and request sent for it."""

_WORDS = {
    MismatchKind.DIFFERS: "the reply differs from the golden",
    MismatchKind.MISSING: "the golden has no such reply",
    MismatchKind.UNUSED: "the reply expected by the golden is missing",
}


class AgainstGolden:
    """Comparison of replays with the golden of a whole recording.

    A golden numbers events: the second update of a container is ``UpdateContainer#2``. In a replay
    of fewer events it may be the first update, but is still compared as the second.
    """

    def __init__(self, golden: Golden, whole: Replayed) -> None:
        """``whole``: a replay of all events. Raises UsageError for another recording's golden."""
        golden.check_origin(whole.origin)
        self.golden = golden
        self._times: dict[_Place, list[int]] = defaultdict(list)
        for reply in whole.replies():
            if reply.event_id:
                self._times[_place(reply)].append(reply.occurrence)
        self._numbers = _numbers_of(whole)

    def checks(self, replayed: Replayed) -> list[Check]:
        """Return the mismatches in order of occurrence, then plugins' failures between events."""
        name_of = replayed.name_of
        replies = list(self.as_in_whole(replayed.replies()))
        first: dict[Key, int] = {}
        for at, reply in enumerate(replies):
            for key in entries_of([reply], name_of):
                first.setdefault(key, at)
        mismatches = sorted(
            self.golden.compare(replies, name_of),
            key=lambda one: first.get(one.key, len(replies)),
        )
        played_ids = {played.event_id for played in replayed.events}
        found: list[Check] = []
        for one in mismatches:
            answer = replies[first[one.key]] if one.key in first else None
            number = answer.event_id if answer is not None else 0
            if one.kind is MismatchKind.UNUSED:
                number = self._numbers.get((one.key.subject, one.key.event), 0)
                if number not in played_ids:
                    # The event is not in this part of the recording.
                    continue
            crash = crash_of(answer) if answer is not None else ""
            found.append(_check(one, number, crash))
        return [*found, *plugin_checks(replayed)]

    def as_in_whole(self, replies: Iterable[Reply]) -> Iterator[Reply]:
        """Yield the replies with their ordinal numbers in the whole recording."""
        counts: Counter[_Place] = Counter()
        for reply in replies:
            place = _place(reply)
            times = self._times.get(place, ()) if reply.event_id else ()
            at = counts[place]
            counts[place] += 1
            yield replace(reply, occurrence=times[at]) if at < len(times) else reply


def key_of(check: Check) -> Key:
    """Return the key of the golden's entry for a check."""
    return Key(check.plugin, check.subject or SESSION, check.event)


def _check(one: Mismatch, event_id: int, crash: str) -> Check:
    key = one.key
    return Check(
        f"golden {one.kind}",
        key.plugin,
        key.event,
        "" if key.subject == SESSION else key.subject,
        _difference(one) + crash,
        event_id,
        text=f"{key}: {_WORDS[one.kind]}",
    )


def _difference(one: Mismatch) -> str:
    """Describe the actual values; the expected ones are the same in each replay."""
    if one.kind is MismatchKind.DIFFERS:
        return to_json([[each.path, each.got] for each in one.differences])
    return to_json(one.got) if one.kind is MismatchKind.MISSING else ""


def _place(reply: Reply) -> _Place:
    return reply.plugin, reply.event_id, reply.event


def _numbers_of(whole: Replayed) -> dict[tuple[str, str], int]:
    """Return event numbers by subject and event, with repetitions named as in goldens."""
    numbers: dict[tuple[str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for played in whole.events:
        if not played.event_id:
            continue
        key = (played.subject or SESSION, played.event)
        counts[key] += 1
        times = counts[key]
        name = played.event if times == 1 else f"{played.event}#{times}"
        numbers[key[0], name] = played.event_id
    return numbers
