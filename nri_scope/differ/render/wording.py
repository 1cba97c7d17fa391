# SPDX-License-Identifier: Apache-2.0
"""Words for steps and rounds, shared by text and Markdown. Nothing is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from nri_scope.oci import Change, Json, split
from nri_scope.recording.display import duration
from nri_scope.recording.records import deadline_ms

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
from .values import clipped, shown

_VALUE_MAX = 200
"""Maximum number of characters of a value within a sentence."""


class DetailWeight(Enum):
    """The importance of a detail."""

    TROUBLE = 0
    DOUBT = 1
    REMARK = 2


GLYPHS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
WHOLE = "(the whole spec)"
"""Shown in place of an empty path."""

_NO_PLUGIN = "outside plugins"
"""Used for the time between two connections that have no plugin between them."""

_PLURAL = (Evidence.PROBES, Evidence.EVENTS)


def owner(who: Owner) -> str:
    """Return an owner in words."""
    match who.who:
        case OwnerKind.RUNTIME:
            return "the runtime"
        case OwnerKind.REQUEST:
            return "a CRI request, or the runtime" if who.or_runtime else "a CRI request"
    return str(who)


def by(who: Owner) -> str:
    """Return an owner in words, to be put after a change."""
    return "owner unknown" if who.who is OwnerKind.UNKNOWN else f"by {owner(who)}"


def sources(evidence: Iterable[Evidence]) -> str:
    """Return the names of the evidence."""
    return ", ".join(evidence)


def details(step: ChangeStep) -> list[tuple[DetailWeight, str]]:
    """Return the details of a step, for the lines below it."""
    found: list[tuple[DetailWeight, str]] = []
    if trouble := fate(step):
        found.append((DetailWeight.TROUBLE, f"! {trouble}"))
    found += ((DetailWeight.DOUBT, f"! {claim(other, step)}") for other in step.disputed)
    if step.note:
        found.append((DetailWeight.REMARK, f"note: {step.note}"))
    return found


def fate(step: ChangeStep) -> str:
    """Return how the outcome differs from the request; "" if it is not known to differ."""
    match step.applied:
        case Applied.NO:
            return f"NOT APPLIED: {_not_applied(step.change)}"
        case Applied.DIFFERENTLY:
            actual = _value(step.change.path, step.actual)
            return f"APPLIED DIFFERENTLY: the runtime's spec has {actual}"
    return ""


def _value(path: str, value: Json) -> str:
    return clipped(shown(path, value), _VALUE_MAX)


def _not_applied(change: Change) -> str:
    match change.kind:
        case "added":
            return "the runtime's spec does not have it"
        case "removed":
            return "the runtime's spec still has it"
        case "moved":
            return "the runtime's spec has another order"
    return "the runtime's spec does not have this value"


def claim(other: Claim, step: ChangeStep) -> str:
    """Return the contradicting statement of another source."""
    parts: list[str] = []
    if other.owner != step.owner and other.owner.who is not OwnerKind.UNKNOWN:
        parts.append(by(other.owner))
    if step.change.kind != "moved" and (other.value != step.change.after or not parts):
        there = other.value is not None
        parts.append(_value(step.change.path, other.value) if there else "no such thing")
    say = "say" if other.evidence in _PLURAL else "says"
    return f"but {other.evidence} {say}: {', '.join(parts) or 'otherwise'}"


FATES = {
    RequestFate.NOT_APPLIED: "requested but not applied",
    RequestFate.RESOLVED: "resolved by the runtime",
    RequestFate.UNKNOWN: "not known whether applied",
}


def asked(one: PluginRequest, diff: RoundDiff, name_of: NameOf) -> str:
    """Return a request of a round, with its fate and the reason."""
    of = name_of(one.container) if one.container not in ("", diff.container) else ""
    return f"{FATES[one.fate]}: {request(one, of)}"


def request(one: PluginRequest, of: str = "") -> str:
    """Return the owner, the request and why it was not simply carried out.

    `of` names the container if that is not the current one.
    """
    return f"{owner(one.owner)} asked {_wish(one, of)}: {one.reason}"


def _wish(one: PluginRequest, of: str) -> str:
    if one.path == EVICTION:
        why = f" ({_value('', one.value)})" if one.value else ""
        return f"to evict {of or 'the container'}{why}"
    if not one.path:
        return f"for an update of {of or 'the container'}"
    return f"{_wished(one)}{f' on {of}' if of else ''}"


def _wished(one: PluginRequest) -> str:
    if one.path and one.value == f"-{split(one.path)[-1]}":
        # As in the protocol: a minus before the key.
        return f"to remove {one.path}"
    what = f" {one.path}" if one.path else ""
    value = f" = {_value(one.path, one.value)}" if one.value is not None else ""
    return f"for{what}{value}"


def unnoted(requests: Iterable[PluginRequest], steps: Iterable[ChangeStep]) -> list[PluginRequest]:
    """Return the requests whose reasons are not already in the note of a step."""
    noted = {(step.container, step.change.path, step.note) for step in steps if step.note}
    return [one for one in requests if (one.container, one.path, one.reason) not in noted]


_BESIDE = ("ContainerStatus",)
"""Rounds about which plugins are not asked."""
_TITLES = {
    "UpdateContainers": "UpdateContainers, asked out of turn",
    "ContainerStatus": "ContainerStatus, reported over CRI",
}


def title(diff: RoundDiff) -> str:
    """Return the event's name, or its description."""
    return _TITLES.get(diff.name, diff.name)


def by_container(steps: Iterable[ChangeStep]) -> list[tuple[str, list[ChangeStep]]]:
    """Return the steps of each container, by its id, in order of appearance."""
    found: dict[str, list[ChangeStep]] = {}
    for step in steps:
        found.setdefault(step.container, []).append(step)
    return list(found.items())


def subject(diff: RoundDiff, name_of: NameOf) -> str:
    """Return the container or pod that a round is about; "" for none."""
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
    """Return the plugins of a span, the time they took together, and the deadline."""
    plugins = one.owner.plugins
    who = all_of(plugins) if plugins else f"plugins at {one.owner.index}"
    if not plugins and not one.owner.index:
        who = "the runtime"
    if one.after and one.before:
        who = f"{who} (between {one.after} and {one.before})"
    together = " together" if len(plugins) > 1 else ""
    took, limit = f"{who} took {duration(one.ns)}{together}", deadline(one.deadline_ns)
    if not over(one):
        return f"{took}, over half of the deadline of {limit}"
    if len(plugins) == 1:
        return f"{took}, its whole deadline of {limit}: the runtime did not wait for its answer"
    return f"{took}, longer than the {limit} that each plugin has"


def deadline(ns: int) -> str:
    """Return a deadline to the nearest millisecond: runtimes send slightly less than configured."""
    return duration((deadline_ms(ns) or 0) * 1_000_000)


def times(spans: Sequence[Span]) -> str:
    """Return the time that plugins took, the longest first; "" if that is unknown."""
    took: dict[str, int] = {}
    for one in spans:
        where = _whereabouts(one.owner)
        took[where] = took.get(where, 0) + max(one.ns, 0)
    longest = sorted(took.items(), key=lambda item: (item[0] == _NO_PLUGIN, -item[1]))
    deadlines = {deadline(one.deadline_ns) for one in spans if one.deadline_ns}
    each = f"; each plugin has {deadlines.pop()}" if len(deadlines) == 1 else ""
    return f"{', '.join(f'{duration(ns)} {where}' for where, ns in longest)}{each}"


def _whereabouts(who: Owner) -> str:
    if who.plugins:
        return f"in {all_of(who.plugins)}"
    return f"in {who.index}" if who.index else _NO_PLUGIN


def all_of(plugins: Sequence[str]) -> str:
    """Return names as in ``10-a, 20-b and 30-c``."""
    *others, last = plugins
    return f"{', '.join(others)} and {last}" if others else last


def chain(diff: RoundDiff) -> list[tuple[str, tuple[str, ...]]]:
    """Return lists of the plugins asked, each with a label; [] for a round from CRI."""
    if diff.name in _BESIDE:
        return []
    if diff.chain and set(diff.seen_by) <= set(diff.chain):
        seen = set(diff.seen_by)
        told = (name if name in seen else f"{name} (unseen)" for name in diff.chain)
        return [("chain: ", tuple(told))]
    found = [("seen by ", diff.seen_by), ("chain: ", diff.chain)]
    return [(name, plugins) for name, plugins in found if plugins]


def fresh(diff: RoundDiff, steps: Iterable[ChangeStep]) -> list[ChangeStep]:
    """Return the steps that this round shows for the first time."""
    return [step for step in steps if step.event in diff.events]


def judged(diff: RoundDiff) -> list[ChangeStep]:
    """Return the steps of earlier rounds whose outcome this round shows."""
    return [step for step in diff.steps if step.event not in diff.events]


def failed(steps: Iterable[ChangeStep]) -> list[ChangeStep]:
    """Return the steps that were not applied as requested."""
    return [step for step in steps if step.applied in (Applied.NO, Applied.DIFFERENTLY)]


def verdict(steps: Sequence[ChangeStep], *, ran: bool = True) -> str:
    """Return how many of the judged steps were applied, in words; "" for no steps.

    If the container never `ran`, the changes are only in its spec.
    """
    if not steps:
        return ""
    good = sum(step.applied is Applied.YES for step in steps)
    if not ran:
        return f"{good} of {len(steps)} earlier changes are in the spec, which was never run"
    if good < len(steps):
        return f"{good} of {len(steps)} earlier changes were applied"
    return "the earlier change was applied" if good == 1 else f"all {good} earlier changes applied"


def calm(diff: RoundDiff) -> bool:
    """Return whether a round has nothing that needs a line of its own."""
    return not (
        fresh(diff, diff.steps)
        or failed(judged(diff))
        or diff.asked
        or diff.failure
        or diff.doubt
        or any(map(slow, diff.spans))
    )
