# SPDX-License-Identifier: Apache-2.0
"""Format events and sessions for display. All results are safe for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from nri_scope.events import Event, OutcomeKind, Role, Session
from nri_scope.nri.request_subject import MALFORMED, OVERSIZED, UNKNOWN
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.text.escape import safe
from nri_scope.text.quantities import SHORT_ID, many
from nri_scope.text.short_names import short_container, short_pod

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


def changes_count(event: Event) -> str:
    """Return the number of an event's changes, ``Δ4``, or of its requests with a sign."""
    return f"{outcome_sign(event) or 'Δ'}{event.count}"


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
            text = f"{verb} {_of_containers(event, some, path_words)}{by and f' by {by}'}"
            kinds = ", ".join(dict.fromkeys(event.outcomes[some])) if verb != "changed" else ""
            parts.append(f"{text}: {kinds}" if kinds else text)
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


def left_out_words(count: int) -> str:
    """Say how many events a part of a recording leaves out."""
    return f"part of a recording: {count:,} event{' was' if count == 1 else 's were'} left out"


def subject(event: Event) -> str:
    """Return the subject of an event: ``ns/pod/container``, with ids for unknown names."""
    if not (event.pod_id or event.pod or event.container_id or event.container):
        return ""
    container = safe(event.container or event.container_id[:SHORT_ID])
    if event.is_alone:
        return container
    pod = safe(event.pod) or f"pod {safe(event.pod_id[:SHORT_ID])}"
    named = f"{safe(event.namespace)}/{pod}" if event.namespace else pod
    return f"{named}/{container}" if container else named


def short_subject(event: Event, named: str, width: int) -> str:
    """Return the `subject` of an event, already formatted, in at most ``width`` columns."""
    is_container = event.container or event.container_id
    return (short_container if is_container else short_pod)(named, width)


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
