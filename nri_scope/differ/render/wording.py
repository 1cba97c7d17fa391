# SPDX-License-Identifier: Apache-2.0
"""Describe steps and rounds in words, for text and Markdown. Nothing is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from nri_scope.recording.display import deadline, duration
from nri_scope.specs import Change, Json, label, split

from ..attribution.attributed_changes import (
    EVICTION,
    Applied,
    ChangeStep,
    Claim,
    Evidence,
    NameOf,
    PluginRequest,
    RequestFate,
    RoundDiff,
    Span,
)
from ..attribution.owner import Owner, OwnerKind
from .values import shown


class DetailWeight(Enum):
    """Importance of a detail, the highest first."""

    TROUBLE = 0
    DOUBT = 1
    REMARK = 2


GLYPHS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}

_NO_PLUGIN = "outside plugins"
"""Text for the time between two connections without a plugin between them."""

_PLURAL = (Evidence.PROBES, Evidence.EVENTS)


def owner(who: Owner) -> str:
    """Describe an owner."""
    match who.who:
        case OwnerKind.RUNTIME:
            return "the runtime"
        case OwnerKind.REQUEST:
            return "a CRI request, or the runtime" if who.or_runtime else "a CRI request"
    return str(who)


def by(who: Owner) -> str:
    """Describe an owner as the suffix of a change."""
    return "owner unknown" if who.who is OwnerKind.UNKNOWN else f"by {owner(who)}"


def sources(evidence: Iterable[Evidence]) -> str:
    """Return the names of the evidence."""
    return ", ".join(evidence)


def details(step: ChangeStep) -> list[tuple[DetailWeight, str]]:
    """Return the details of a step, each for a line below it."""
    found: list[tuple[DetailWeight, str]] = []
    if trouble := fate(step):
        found.append((DetailWeight.TROUBLE, f"! {trouble}"))
    found += ((DetailWeight.DOUBT, f"! {claim(other, step)}") for other in step.disputed)
    if step.note:
        found.append((DetailWeight.REMARK, f"note: {step.note}"))
    return found


def fate(step: ChangeStep) -> str:
    """Describe how the outcome differs from the request; "" if no evidence shows a difference."""
    match step.applied:
        case Applied.NO:
            return f"NOT APPLIED: {_not_applied(step.change)}"
        case Applied.DIFFERENTLY:
            actual = _value(step.change.path, step.actual)
            return f"APPLIED DIFFERENTLY: the runtime's spec has {actual}"
    return ""


def _value(path: str, value: Json) -> str:
    return shown(path, value)


def _not_applied(change: Change) -> str:
    match change.kind:
        case "added":
            return "the runtime's spec does not have it"
        case "removed":
            return "the runtime's spec still has it"
        case "moved":
            return "the runtime's spec has a different order"
    return "the runtime's spec does not have this value"


def claim(other: Claim, step: ChangeStep) -> str:
    """Describe the contradicting claim of another source."""
    parts: list[str] = []
    if other.owner != step.owner and other.owner.who is not OwnerKind.UNKNOWN:
        parts.append(by(other.owner))
    if step.change.kind != "moved" and (other.value != step.change.after or not parts):
        there = other.value is not None
        parts.append(_value(step.change.path, other.value) if there else "no value")
    say = "say" if other.evidence in _PLURAL else "says"
    return f"but {other.evidence} {say}: {', '.join(parts) or 'otherwise'}"


FATES = {
    RequestFate.NOT_APPLIED: "requested but not applied",
    RequestFate.RESOLVED: "resolved by the runtime",
    RequestFate.UNKNOWN: "not known whether applied",
}


def asked(one: PluginRequest, diff: RoundDiff, name_of: NameOf) -> str:
    """Describe a request of a round, with its fate and the reason."""
    of = name_of(one.container) if one.container not in ("", diff.container) else ""
    return f"{FATES[one.fate]}: {request(one, of)}"


def request(one: PluginRequest, of: str = "") -> str:
    """Describe the owner, the request, and why it was not applied as requested.

    `of` names the container if it is not the current one.
    """
    return f"{owner(one.owner)} asked {_request_object(one, of)}: {one.reason}"


def _request_object(one: PluginRequest, of: str) -> str:
    if one.path == EVICTION:
        why = f" ({_value('', one.value)})" if one.value else ""
        return f"to evict {of or 'the container'}{why}"
    if not one.path:
        return f"for an update of {of or 'the container'}"
    return f"{_requested_value(one)}{f' on {of}' if of else ''}"


def _requested_value(one: PluginRequest) -> str:
    if one.path and one.value == f"-{split(one.path)[-1]}":
        # As in the protocol: a minus before the key.
        return f"to remove {label(one.path)}"
    what = f" {label(one.path)}" if one.path else ""
    value = f" = {_value(one.path, one.value)}" if one.value is not None else ""
    return f"for{what}{value}"


def unnoted(requests: Iterable[PluginRequest], steps: Iterable[ChangeStep]) -> list[PluginRequest]:
    """Return the requests whose reason is not in the note of a step."""
    noted = {(step.container, step.change.path, step.note) for step in steps if step.note}
    return [one for one in requests if (one.container, one.path, one.reason) not in noted]


_WITHOUT_CHAIN = ("ContainerStatus",)
"""Rounds that are not sent to plugins."""
_TITLES = {
    "UpdateContainers": "UpdateContainers, unsolicited",
    "ContainerStatus": "ContainerStatus, reported over CRI",
}


def title(diff: RoundDiff) -> str:
    """Return the event's name, with a description if that needs one."""
    return _TITLES.get(diff.name, diff.name)


def by_container(steps: Iterable[ChangeStep]) -> list[tuple[str, list[ChangeStep]]]:
    """Group steps by container id, in order of appearance."""
    found: dict[str, list[ChangeStep]] = {}
    for step in steps:
        found.setdefault(step.container, []).append(step)
    return list(found.items())


def subject(diff: RoundDiff, name_of: NameOf) -> str:
    """Return the name of the container or pod that a round is about; "" for none."""
    if diff.container:
        return name_of(diff.container)
    return f"pod {name_of(diff.pod)}" if diff.pod else ""


def slow(span: Span) -> bool:
    """Return whether a span took more than half of one plugin's deadline."""
    return span.deadline_ns > 0 and 2 * span.ns > span.deadline_ns


def over(span: Span) -> bool:
    """Return whether a span took longer than one plugin's deadline."""
    return 0 < span.deadline_ns < span.ns


def slow_span(one: Span) -> str:
    """Describe a slow span: its plugins, their total time, and the deadline."""
    plugins = one.owner.plugins
    who = all_of(plugins) if plugins else f"plugins at {one.owner.index}"
    if one.owner.is_unrecorded:
        who = "unrecorded plugins"
    elif not plugins and not one.owner.index:
        who = "the runtime"
    if one.after and one.before:
        who = f"{who} (between {one.after} and {one.before})"
    together = " together" if len(plugins) > 1 else ""
    took, limit = f"{who} took {duration(one.ns)}{together}", deadline(one.deadline_ns)
    if not over(one):
        return f"{took}, over half of the deadline of {limit}"
    if len(plugins) == 1:
        return f"{took}, over its deadline of {limit}: the runtime did not wait for the reply"
    return f"{took}, over the deadline of {limit} for one plugin"


def times(spans: Sequence[Span]) -> str:
    """Describe the time that plugins took, the longest first; "" if unknown."""
    took: dict[str, int] = {}
    for one in spans:
        where = _whereabouts(one.owner)
        took[where] = took.get(where, 0) + max(one.ns, 0)
    longest = sorted(took.items(), key=lambda item: (item[0] == _NO_PLUGIN, -item[1]))
    deadlines = {deadline(one.deadline_ns) for one in spans if one.deadline_ns}
    limit = f"; deadline {deadlines.pop()} per plugin" if len(deadlines) == 1 else ""
    return f"{', '.join(f'{duration(ns)} {where}' for where, ns in longest)}{limit}"


def _whereabouts(who: Owner) -> str:
    if who.plugins:
        return f"in {all_of(who.plugins)}"
    if who.is_unrecorded:
        return "between connections"
    return f"in {who.index}" if who.index else _NO_PLUGIN


def all_of(plugins: Sequence[str]) -> str:
    """Join names: ``10-a, 20-b and 30-c``."""
    *others, last = plugins
    return f"{', '.join(others)} and {last}" if others else last


def chain(diff: RoundDiff) -> list[tuple[str, tuple[str, ...]]]:
    """Return labelled lists of the plugins that received the event; [] for a CRI answer."""
    if diff.name in _WITHOUT_CHAIN:
        return []
    if diff.chain and set(diff.seen_by) <= set(diff.chain):
        seen = set(diff.seen_by)
        names = (name if name in seen else f"{name} (not observed)" for name in diff.chain)
        return [("chain: ", tuple(names))]
    found = [("seen by ", diff.seen_by), ("chain: ", diff.chain)]
    return [(name, plugins) for name, plugins in found if plugins]


def fresh(diff: RoundDiff, steps: Iterable[ChangeStep]) -> list[ChangeStep]:
    """Return the steps that belong to this round, not to an earlier one."""
    return [step for step in steps if step.event in diff.events]


def judged(diff: RoundDiff) -> list[ChangeStep]:
    """Return the steps of earlier rounds that this round reports as applied or not."""
    return [step for step in diff.steps if step.event not in diff.events]


def failed(steps: Iterable[ChangeStep]) -> list[ChangeStep]:
    """Return the steps that were not applied as requested."""
    return [step for step in steps if step.applied in (Applied.NO, Applied.DIFFERENTLY)]


def verdict(steps: Sequence[ChangeStep], *, ran: bool = True) -> str:
    """Describe how many of the judged steps were applied; "" for no steps.

    If the container never `ran`, the changes are in its spec only.
    """
    if not steps:
        return ""
    applied_count = sum(step.applied is Applied.YES for step in steps)
    if not ran:
        counts = f"{applied_count} of {len(steps)}"
        return f"{counts} earlier changes are in the spec; the container never ran"
    if applied_count < len(steps):
        return f"{applied_count} of {len(steps)} earlier changes were applied"
    if applied_count == 1:
        return "the earlier change was applied"
    return f"all {applied_count} earlier changes were applied"


def left_out(count: int) -> str:
    """Describe the number of omitted rounds for which `calm` is true."""
    them = "it" if count == 1 else "them"
    return f"{count:,} without a change left out (--all shows {them})"


def calm(diff: RoundDiff) -> bool:
    """Return whether a round has no change, failure or delay to print."""
    return not (
        fresh(diff, diff.steps)
        or failed(judged(diff))
        or diff.asked
        or diff.failure
        or diff.doubt
        or any(map(slow, diff.spans))
    )
