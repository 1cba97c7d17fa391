# SPDX-License-Identifier: Apache-2.0
"""Format quantities and names for display. All results are safe for a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice

from nri_scope.events import Event, OutcomeKind, Role, Session
from nri_scope.nri.request_subject import MALFORMED, OVERSIZED, UNKNOWN
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.text.escape import safe

SHORT_ID = 12
"""Number of displayed characters of an id, as in container tools."""


def duration(ns: int) -> str:
    """Format a duration: ``91µs``, ``3.40ms``, ``2h05m``.

    Digits are truncated, not rounded, so that the filter ``took:52us``, which matches 52 µs up to
    53 µs, finds all durations displayed as ``52µs``.
    """
    if ns < 1000:
        return f"{ns}ns"
    if ns < 1_000_000:
        return f"{ns // 1000}µs"
    if ns < 1_000_000_000:
        return f"{_first_three(ns, 1_000_000)}ms"
    if ns < 60_000_000_000:
        return f"{_first_three(ns, 1_000_000_000)}s"
    minutes, seconds = divmod(ns // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes}m{seconds:02d}s"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h" if days else f"{hours}h{minutes:02d}m"


def deadline(ns: int) -> str:
    """Format a deadline, rounded to its digits: runtimes send slightly less than configured."""
    step = 10_000_000 if ns >= 995_000_000 else 1_000_000
    return duration((ns + step // 2) // step * step)


def share_of_deadline(ns: int, deadline_ns: int) -> str:
    """Compare a time with a deadline: ``99 % of the deadline of 2.00s``."""
    share = "over" if ns > deadline_ns else f"{100 * ns // deadline_ns} % of"
    return f"{share} the deadline of {deadline(deadline_ns)}"


def response_time(took_ns: int) -> str:
    """Format a response time; ``-`` for 0, which means that it was not measured."""
    return duration(took_ns) if took_ns else "-"


def _first_three(ns: int, unit: int) -> str:
    whole, rest = divmod(ns, unit)
    if whole >= 100:
        return str(whole)
    return f"{whole}.{rest * 100 // unit:02d}" if whole < 10 else f"{whole}.{rest * 10 // unit}"


def size(count: int) -> str:
    """Format bytes: ``812 B``, ``4.10 KiB``, ``1.20 GiB``."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 999.5:
            return f"{_three(amount)} {unit}"
    return f"{amount:.0f} TiB"


def _three(amount: float) -> str:
    decimals = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
    return f"{amount:.{decimals}f}"


OUTCOME_SIGNS = {
    OutcomeKind.REFUSED: "!",
    OutcomeKind.DROPPED: "!",
    OutcomeKind.REQUESTED: "?",
    OutcomeKind.SUPERSEDED: "^",
}
"""Signs of requests that no evidence shows as changes, the most important first."""


def outcome_sign(event: Event, number: int = 0) -> str:
    """Return the sign of a request of an event; "" if evidence shows it as a change."""
    if number >= len(event.outcomes):
        return OUTCOME_SIGNS[OutcomeKind.REQUESTED]
    return OUTCOME_SIGNS.get(OutcomeKind(event.outcomes[number]), "")


def changes_words(
    event: Event, path_words: Callable[[str], str], owner_words: Callable[[str], str] = str
) -> str:
    """Say what an event changed, and what else it asked for: ``changed x by a; asked for y by b:
    dropped``.

    Paths of another container than the event's are followed by ``of ns/pod/container``.
    """
    count = event.changes
    parts: list[str] = []
    for some, verb in ((slice(count), "changed"), (slice(count, None), "asked for")):
        if event.changed[some]:
            by = owner_words(", ".join(event.owners_of(some)))
            words = f"{verb} {_of_containers(event, some, path_words)}{by and f' by {by}'}"
            kinds = ", ".join(dict.fromkeys(event.outcomes[some])) if verb != "changed" else ""
            parts.append(f"{words}: {kinds}" if kinds else words)
    return "; ".join(parts)


def _of_containers(event: Event, some: slice, path_words: Callable[[str], str]) -> str:
    """Return the first of some paths of an event, for each of a few containers."""
    targets = event.targets or ("",) * len(event.changed)
    paths: dict[str, list[str]] = {}
    for path, target in zip(event.changed[some], targets[some], strict=True):
        paths.setdefault(target, []).append(path)
    parts = []
    for target, changed in islice(paths.items(), _TARGETS):
        more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
        parts.append(f"{path_words(changed[0])}{more}{of_target(target)}")
    if len(paths) > _TARGETS:
        parts.append(many(len(paths) - _TARGETS, "more container"))
    return ", ".join(parts)


_TARGETS = 3
"""Maximum number of containers whose changed paths are listed in one line."""


def of_target(target: str) -> str:
    """Name the container of a request as a suffix; "" for the event's own one."""
    return f" of {safe(target, 200)}" if target else ""


def first_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def many(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 event``, ``2,000 events``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def left_out_words(count: int) -> str:
    """Say how many events a part of a recording leaves out."""
    return f"part of a recording: {count:,} event{' was' if count == 1 else 's were'} left out"


def clock(at_ns: int) -> str:
    """Format the local time of day, with milliseconds."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{_local(seconds)[1]}.{rest // 1_000_000:03d}"


def day(at_ns: int) -> str:
    """Format the local date, with the time zone's offset from UTC."""
    return _local(at_ns // 1_000_000_000)[0]


class Days:
    """Separator lines for a list of local times, one before each new day."""

    def __init__(self) -> None:
        self._day = ""

    @property
    def begun(self) -> bool:
        """Whether a line was returned before."""
        return bool(self._day)

    def turn(self, at_ns: int) -> list[str]:
        """Return one line if the day differs from that of the previous call; else an empty list."""
        before, self._day = self._day, day(at_ns)
        if self._day == before:
            return []
        return [f"── {self._day[:10]}, times at UTC{self._day[11:]}"]


def moment(at_ns: int) -> str:
    """Format the local date and time, to the second, with the offset from UTC."""
    date, at = _local(at_ns // 1_000_000_000)
    return f"{date[:10]} {at}{date[10:]}"


def span(first_ns: int, last_ns: int) -> str:
    """Format two local times: ``2026-01-31 14:05:00.123 to 14:06:00.000, UTC+01:00``.

    The date and the offset from UTC are repeated only if they differ.
    """
    first, last = day(first_ns), day(last_ns)
    if first == last:
        return f"{first[:10]} {clock(first_ns)} to {clock(last_ns)}, UTC{first[11:]}"
    begin = f"{first[:10]} {clock(first_ns)}"
    end = f"{last[:10]} {clock(last_ns)}, UTC{last[11:]}"
    return f"{begin} to {end}" if first[11:] == last[11:] else f"{begin}, UTC{first[11:]} to {end}"


# Events occur in bursts, mostly within the same second.
@lru_cache(maxsize=8)
def _local(seconds: int) -> tuple[str, str]:
    local = time.localtime(seconds)
    zone = time.strftime("%z", local)
    return (
        f"{time.strftime('%Y-%m-%d', local)} {zone[:3]}:{zone[3:]}",
        time.strftime("%H:%M:%S", local),
    )


def subject(event: Event) -> str:
    """Return the subject of an event: ``ns/pod/container``, with ids for unknown names."""
    if not (event.pod_id or event.pod or event.container_id or event.container):
        return ""
    pod = safe(event.pod) or f"pod {safe(event.pod_id[:SHORT_ID])}"
    named = f"{safe(event.namespace)}/{pod}" if event.namespace else pod
    if not (event.container_id or event.container):
        return named
    return f"{named}/{safe(event.container or event.container_id[:SHORT_ID])}"


def mark_words(mark: str) -> str:
    """Return a phrase for an event's mark, the reason why its request was not decoded."""
    return _MARKS.get(mark) or safe(mark)


_MARKS = {
    MALFORMED: "malformed request, kept raw",
    OVERSIZED: "request that is too large, kept raw",
    UNKNOWN: "unknown method or service, kept raw",
}


OF_SCENARIO = " (a scenario, not observed)"
"""Remark on the runtime of a scenario."""


def runtime(session: Session) -> str:
    """Return a session's runtime: ``containerd 1.7.24, NRI 0.6.1 (inferred)``; without the NRI
    version for a CRI session. An unknown runtime has a remark, unless its plugins are of NRI 0.1;
    so has the runtime of a scenario, which was not observed.
    """
    text = safe(runtime_words(session.runtime_name, session.runtime_version)) or "unknown runtime"
    if session.role == Role.CRI:
        return text
    if not session.nri_version:
        return f"{text}, NRI unknown{runtime_remark(session.runtime_name)}"
    inferred = " (inferred)" if session.nri_version_inferred else ""
    if session.role == Role.SCENARIO:
        inferred = OF_SCENARIO
    remark = "" if session.role == Role.V01 else runtime_remark(session.runtime_name)
    return f"{text}, NRI {safe(session.nri_version)}{inferred}{remark}"
