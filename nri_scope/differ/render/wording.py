# SPDX-License-Identifier: Apache-2.0
"""Describe steps and rounds in words, with a legend. Nothing is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from nri_scope.events import CONTAINER_STATUS
from nri_scope.nri.events import UNSOLICITED
from nri_scope.recording.display import OUTCOME_SIGNS
from nri_scope.specs import label
from nri_scope.text.quantities import deadline, duration, share_of_deadline

from ..attribution.attributed_changes import (
    EVICTION,
    ChangeStep,
    Claim,
    Evidence,
    NameOf,
    OutcomeKind,
    PluginSpan,
    RoundDiff,
    Shows,
)
from ..attribution.observed_round import CONTINUED
from ..attribution.owner import POD_SPEC_MEANING, Owner, OwnerKind
from .values import place, shown


class DetailWeight(Enum):
    """Importance of a detail, the highest first."""

    TROUBLE = 0
    DOUBT = 1
    REMARK = 2


GLYPHS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
MEANINGS = {
    "?": "asked for; nothing shows whether it took effect",
    "^": "another value is there instead",
    "!": "asked for, but refused or dropped",
}

_NO_PLUGIN = "outside plugins"
"""Text for the time between two connections without a plugin between them."""

_PLURAL = (Evidence.PROBES, Evidence.EVENTS)


def owner(who: Owner) -> str:
    """Describe an owner."""
    match who.who:
        case OwnerKind.RUNTIME:
            return "the runtime"
        case OwnerKind.REQUEST:
            return f"a {who}"
    return str(who)


def by(who: Owner) -> str:
    """Describe an owner as the suffix of a change."""
    return "owner unknown" if who.who is OwnerKind.UNKNOWN else f"by {owner(who)}"


def sources(evidence: Iterable[Evidence]) -> str:
    """Return the names of the evidence."""
    return ", ".join(evidence)


def glyph(step: ChangeStep) -> str:
    """Return the sign of a change, or of a request that is none."""
    return OUTCOME_SIGNS.get(step.outcome.kind) or GLYPHS[step.change.kind]


def requester(step: ChangeStep) -> str:
    """Describe the owner of a change, or of a request, as the suffix of its values."""
    return by(step.owner) if step.is_change else f"asked for {by(step.owner)}"


def outcome(step: ChangeStep) -> str:
    """Name the outcome of a request and its evidence, in a few words."""
    outcome = step.outcome
    event = f" in event {outcome.event}" if outcome.event and outcome.event != step.event else ""
    match outcome.kind:
        case OutcomeKind.REQUESTED:
            return "outcome not known"
        case OutcomeKind.SEEN:
            return f"seen{event}"
        case OutcomeKind.IN_EFFECT:
            return f"in effect{_SOURCES.get(outcome.shown_by, '')}"
        case OutcomeKind.SUPERSEDED if outcome.shown_by is Shows.CHAIN:
            return f"superseded {outcome.reason}"
    return str(outcome.kind)


_SOURCES: dict[Shows | None, str] = {
    Shows.CONFIG: " by config.json",
    Shows.CGROUP: " by the cgroup",
}


def why(step: ChangeStep) -> str:
    """Explain the outcome of a request: its reason and evidence; "" if nothing is to be added."""
    outcome = step.outcome
    if outcome.kind is OutcomeKind.REQUESTED:
        return f"not known whether it took effect: {outcome.reason}" if outcome.reason else ""
    in_chain = outcome.kind is OutcomeKind.SUPERSEDED and outcome.shown_by is Shows.CHAIN
    if step.is_change or not outcome.reason or in_chain:
        return ""
    value = f": {shown(step.change.path, outcome.actual)}" if outcome.actual is not None else ""
    places = {Shows.CRI: " in the spec that was used", Shows.CONFIG: " in config.json"}
    places[Shows.CGROUP] = " in the cgroup"
    where = places.get(outcome.shown_by, "") if outcome.shown_by else ""
    event = f" (event {outcome.event})" if outcome.event and outcome.event != step.event else ""
    return f"{outcome.kind}: {outcome.reason}{value}{where}{event}"


def why_besides(step: ChangeStep, failure: str) -> str:
    """Explain the outcome like `why`; "" if the reason is the ``failure`` of the operation."""
    return "" if failure and step.outcome.reason == failure else why(step)


def details(step: ChangeStep, failure: str = "") -> list[tuple[DetailWeight, str]]:
    """Return the details of a step, each for a line below it.

    ``failure``: the failure of the whole operation, which is not repeated.
    """
    texts: list[tuple[DetailWeight, str]] = []
    if reason := why_besides(step, failure):
        trouble = not step.has_effect and step.outcome.kind is not OutcomeKind.REQUESTED
        weight = DetailWeight.TROUBLE if trouble else DetailWeight.DOUBT
        texts.append((weight, f"! {reason}"))
    texts += ((DetailWeight.DOUBT, f"! {claim(other, step)}") for other in step.disputed)
    if step.note:
        texts.append((DetailWeight.REMARK, f"note: {step.note}"))
    return texts


def claim(other: Claim, step: ChangeStep) -> str:
    """Describe the contradicting claim of another source."""
    parts: list[str] = []
    if other.owner != step.owner and other.owner.who is not OwnerKind.UNKNOWN:
        parts.append(by(other.owner))
    if step.change.kind != "moved" and (other.value != step.change.after or not parts):
        exists = other.value is not None
        parts.append(shown(step.change.path, other.value) if exists else "no value")
    say = "say" if other.evidence in _PLURAL else "says"
    return f"but {other.evidence} {say}: {', '.join(parts) or 'otherwise'}"


def request(step: ChangeStep, of: str = "") -> str:
    """Describe a request as a sentence: who asked for what, and what became of it.

    `of` names the container if it is not the current one.
    """
    return f"{asked(step, of)}: {why(step) or outcome(step)}"


def asked(step: ChangeStep, of: str = "") -> str:
    """Describe who asked for what; `of` as for `request`."""
    return f"{owner(step.owner)} asked {_request_object(step, of)}"


def _request_object(step: ChangeStep, of: str) -> str:
    path, value = step.change.path, step.change.after
    if path == EVICTION:
        reason = f" ({shown('', value)})" if value else ""
        return f"to evict {of or 'the container'}{reason}"
    if not path:
        return f"for an update of {of or 'a container'}"
    where = f" on {of}" if of else ""
    if step.change.kind == "removed":
        return f"to remove {label(path)}{where}"
    if isinstance(value, int) and step.change.kind == "moved":
        return f"to move {label(path)}{where} to {place(value)} place"
    shown_value = f" = {shown(path, value)}" if value is not None else ""
    return f"for {label(path)}{shown_value}{where}"


_WITHOUT_CHAIN = (CONTAINER_STATUS,)
"""Rounds that are not sent to plugins."""
_TITLES = {
    UNSOLICITED: "UpdateContainers, unsolicited",
    CONTAINER_STATUS: "ContainerStatus, reported over CRI",
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


NO_CONTAINER = "no container"
"""The container of an update without an id."""


def place_beside(diff: RoundDiff, container: str, name_of: NameOf) -> tuple[str, str]:
    """Return the heading of requests for another container, ``on`` and its name."""
    is_another = diff.container and container
    return "on another container, " if is_another else "on ", name_of(container) or NO_CONTAINER


def subject(diff: RoundDiff, name_of: NameOf) -> str:
    """Return the name of the container or pod that a round is about; "" for none."""
    if diff.container:
        return name_of(diff.container)
    return f"pod {name_of(diff.pod)}" if diff.pod else ""


def slow(span: PluginSpan) -> bool:
    """Return whether a span took more than half of one plugin's deadline."""
    return span.deadline_ns > 0 and 2 * span.ns > span.deadline_ns


def over(span: PluginSpan) -> bool:
    """Return whether a span took longer than one plugin's deadline."""
    return 0 < span.deadline_ns < span.ns


def slow_span(span: PluginSpan) -> str:
    """Describe a slow span: its plugins, their total time, and the deadline."""
    plugins = span.owner.plugins
    who = all_of(plugins) if plugins else f"plugins at {span.owner.index}"
    if span.owner.is_unrecorded:
        who = "unrecorded plugins"
    elif not plugins and not span.owner.index:
        who = "the runtime"
    if span.after and span.before:
        who = f"{who} (between {span.after} and {span.before})"
    together = " together" if len(plugins) > 1 else ""
    share = share_of_deadline(span.ns, span.deadline_ns)
    one_plugins = " for one plugin" if over(span) else ""
    return f"{who} took {duration(span.ns)}{together}, {share}{one_plugins}"


def times(spans: Sequence[PluginSpan]) -> str:
    """Describe the time that plugins took, the longest first; "" if unknown."""
    took: dict[str, int] = {}
    for span in spans:
        where = _whereabouts(span.owner)
        took[where] = took.get(where, 0) + max(span.ns, 0)
    longest = sorted(took.items(), key=lambda item: (item[0] == _NO_PLUGIN, -item[1]))
    deadlines = {deadline(span.deadline_ns) for span in spans if span.deadline_ns}
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


def changes_anything(diff: RoundDiff) -> bool:
    """Return whether a round has a change, or a request that may have become one."""
    return any(step.has_effect for step in diff.steps)


def left_out(count: int) -> str:
    """Describe the number of omitted rounds for which `calm` is true."""
    them = "it" if count == 1 else "them"
    return f"{count:,} without a change left out (--all shows {them})"


def calm(diff: RoundDiff) -> bool:
    """Return whether a round has no change, failure, lost plugin or delay to print."""
    lost = any(remark.endswith(CONTINUED) for remark in diff.remarks)
    shown = diff.steps or diff.failure or diff.doubt or diff.absences or lost
    return not (shown or any(map(slow, diff.spans)))


class Legend:
    """Collector of owners and evidence, which explains each once."""

    def __init__(self) -> None:
        self._range = ""
        self._later = False
        """Whether the evidence for that range is later events, not two connections."""
        self._choice = ""
        self._origin = ""
        self._ties: set[str] = set()
        self._evidence: set[Evidence] = set()
        self._glyphs: set[str] = set()

    def add_round(self, diff: RoundDiff, *, live: bool = False) -> None:
        """Add the owners, evidence and outcomes of a round; ``live``: of settled requests, too."""
        for step in (*diff.steps, *(diff.settled if live else ())):
            self.add_step(step)

    def add_step(self, step: ChangeStep) -> None:
        """Add the owners, evidence and outcome of a request."""
        self.add(step.owner, step.evidence)
        for other in step.disputed:
            self.add(other.owner, (other.evidence,))
        self._glyphs.add(glyph(step))

    def add(self, who: Owner, evidence: Iterable[Evidence]) -> None:
        """Add an owner and its evidence."""
        self._evidence.update(evidence)
        self._ties.update(who.ties)
        if who.who is OwnerKind.SPEC or who.or_spec:
            self._origin = who.origin
        if who.who is not OwnerKind.ONE_OF:
            return
        if who.plugins:
            self._choice = self._choice or str(who)
        elif who.index and (not self._range or (self._later and not who.or_runtime)):
            # Prefer a range between two connections as the example to one from later events.
            self._range, self._later = f"one of {who.index}", who.or_runtime

    def lines(self) -> list[str]:
        """Return the explanations; [] for none."""
        texts: list[str] = []
        if self._range:
            where = (
                "with one of these indices" if self._later else "between two observed connections"
            )
            texts.append(f"{self._range}: a plugin {where}; which one is unknown")
        if self._choice:
            texts.append(f"{self._choice}: one or more of these plugins; which is unknown")
        if self._origin:
            texts.append(f"{self._origin}: {POD_SPEC_MEANING}")
        if self._ties:
            indices = " or ".join(sorted(self._ties))
            texts.append(
                f"if there is another plugin at {indices}, it may have made the change: "
                "plugins with equal indices have no defined order"
            )
        texts += (f"{key} {what}" for key, what in MEANINGS.items() if key in self._glyphs)
        if "?" in self._glyphs and Evidence.CRI not in self._evidence:
            texts.append("a recorder with --cri asks the runtime what took effect")
        if self._evidence:
            known = [f"{each}: {each.meaning}" for each in Evidence if each in self._evidence]
            texts.append(f"evidence: {'; '.join(known)}")
        return texts
