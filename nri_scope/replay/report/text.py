# SPDX-License-Identifier: Apache-2.0
"""Format a replay's result as lines for people."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator

from nri_scope.nri.no_change import is_empty_reply
from nri_scope.oci import sort_mounts
from nri_scope.specs import Change, Json, Spec, differences, label
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import duration, first_names, many, share_of_deadline
from nri_scope.text.short_names import short_container, short_pod
from nri_scope.text.styled_text import Style, styled

from ..replies import Reply, Verdict
from ..result import ContainerResult, PlayedEvent, PrintedLine, Replayed

_EVENT_WIDTH = len("PostUpdatePodSandbox")
_SUBJECT_WIDTH = 28
_BESIDE_SUBJECT = 52
"""Columns for all but the subject, on a terminal."""
_INDENT = " " * 8
_WRAP_WIDTH_MIN = 20
_VALUE_MAX = 60
"""Maximum number of characters of one value on a terminal."""
_PATHS_LISTED = 3
_OK = "ok"
_SIGNS = {"added": ("+", Style.GOOD), "removed": ("-", Style.BAD), "changed": ("~", Style.WARN)}


class ResultFormatter:
    """Formatter of a replay's result.

    ``chain``: show plugins' names, as there are several. ``plugins``: their known names, for the
    width of a column. ``width``: maximum number of columns; None for no limit.
    """

    def __init__(
        self,
        *,
        chain: bool = False,
        plugins: Iterable[str] = (),
        width: int | None = None,
    ) -> None:
        self._name_width = max(map(len, plugins), default=0)
        self._width = width
        self._chain = chain

    # -- events -------------------------------------------------------------------------------

    def event(self, event: PlayedEvent, *, output: bool = True) -> Iterator[str]:
        """Yield a line for each reply, followed by the plugins' output."""
        yield from self._event(event, _SUBJECT_WIDTH)
        if not output:
            return
        yield from map(self.line, event.output)
        if event.output_left_out:
            yield styled(Style.DIM, f"        … and {event.output_left_out} more lines")

    def line(self, line: PrintedLine) -> str:
        """Format a line of a plugin's output."""
        plugin = f"{line.plugin} " if self._chain else ""
        return self._cut(Style.DIM, f"{_INDENT}{plugin}{line.stream}: {line.text}")

    def _cut(self, style: Style, text: str) -> str:
        return styled(style, safe(text, self._width))

    def _event(self, event: PlayedEvent, subject_width: int) -> Iterator[str]:
        number = str(event.event_id) if event.event_id else "+"
        subject = event.subject
        if self._width is not None:
            shorten = short_container if subject.count("/") == 2 else short_pod
            subject = shorten(safe(subject), max(self._width - _BESIDE_SUBJECT, subject_width))
        start = f"{number:>6}  {event.event:<{_EVENT_WIDTH}} {subject:<{subject_width}}"
        if event.fault and (event.replies or not event.subject):
            yield self._cut(Style.WARN, f"        fault: {event.fault}")
        if event.skipped:
            yield from self._wrapped(start, f"not sent: {event.skipped}", Style.DIM)
        if event.note and event.replies:
            yield self._cut(Style.WARN, f"{_INDENT}{event.note}")
        elif event.note:
            yield from self._wrapped(start, event.note)
        for reply in event.replies:
            yield from self._reply(start, event, reply)
        if not event.replies and (event.changes or event.dropped):
            # The request was sent by a plugin.
            changed = [change.plugin for change in event.changes]
            for plugin in dict.fromkeys([*changed, *(loss.plugin for loss in event.dropped)]):
                name = f"{plugin:<{self._name_width}}  " if self._chain else ""
                yield from self._wrapped(
                    f"{start}  {name}{'':>6}", _requested_changes(event, plugin)
                )
        if event.failure:
            has_line = event.skipped or event.note or event.replies or event.changes
            begin = "" if has_line or event.dropped else start
            yield from self._wrapped(begin, f"fails: {event.failure}", Style.BAD)
        if event.logged:
            yield from self._wrapped("", f"logged: {event.logged}", Style.WARN)
        for dropped in event.dropped:
            request = f"requested {label(dropped.path)}: " if dropped.path else ""
            yield from self._wrapped("", f"{dropped.plugin} {request}{dropped.reason}", Style.WARN)

    def _wrapped(self, start: str, text: str, style: Style = Style.PLAIN) -> Iterator[str]:
        """Append ``text`` to ``start``; if they do not fit, wrap them on lines below it."""
        start, text = safe(start), safe(text)
        whole = f"{start}  {text}" if start else f"{_INDENT}{text}"
        if self._width is None or columns(whole) <= self._width:
            yield styled(style, whole)
            return
        if start:
            yield styled(style, safe(start.rstrip(), self._width))
        room = max(self._width - len(_INDENT), _WRAP_WIDTH_MIN)
        for line in textwrap.wrap(text, room, break_on_hyphens=False):
            yield self._cut(style, f"{_INDENT}{line}")

    def _reply(self, start: str, event: PlayedEvent, reply: Reply) -> Iterator[str]:
        # The command of an external plugin may register several.
        several = self._chain or any(other.plugin != reply.plugin for other in event.replies)
        plugin = f"  {reply.plugin:<{self._name_width}}" if several else ""
        if reply.event != event.event:
            # ValidateContainerAdjustment is part of CreateContainer.
            start = start.replace(
                f"{event.event:<{_EVENT_WIDTH}}", "  validation".ljust(_EVENT_WIDTH)
            )
        took = f"{duration(reply.took_ns):>6}"
        is_ok = reply.verdict is Verdict.OK
        text = _summary(event, reply) if is_ok else f"{reply.verdict}: {reply.problem}"
        slow = f"  {share_of_deadline(reply.took_ns, reply.deadline_ns)}" if reply.slow else ""
        style = Style.PLAIN if is_ok and not slow else Style.WARN if is_ok else Style.BAD
        if reply.too_slow:
            text = "" if text == _OK else f"{text}  "
            slow = f"too slow: took more than {duration(reply.max_took_ns)}"
            style = Style.BAD
        yield from self._wrapped(f"{start}{plugin}  {took}", f"{text}{slow}", style)

    # -- containers ---------------------------------------------------------------------------

    def containers(self, replayed: Replayed) -> Iterator[str]:
        """Yield the final state of each container that changed."""
        for container in replayed.containers.values():
            changes_made = container.changes
            if not changes_made and container.created and not container.start_failure:
                continue
            yield ""
            yield self._cut(Style.STRONG, container.name)
            if not container.created:
                why = f": {container.failure}" if container.failure else ""
                yield from self._wrapped("", f"was not created{why}", Style.BAD)
                continue
            if container.start_failure:
                problem = f"is created, and does not start: {container.start_failure}"
                yield from self._wrapped("", problem, Style.BAD)
            for change in changes_made:
                yield self._change(container, change)

    def _change(self, container: ContainerResult, change: Change) -> str:
        owner = container.owner(change.path) if self._chain else ""
        return self.change(change, f"  ({owner})" if owner else "")

    def change(self, change: Change, note: str = "") -> str:
        """Format one change as a line."""
        sign, style = _SIGNS.get(str(change.kind), (">", Style.WARN))
        values = _values(change, _VALUE_MAX if self._width is not None else None)
        return self._cut(style, f"  {sign} {label(change.path)}{values}{note}")

    def differences(self, ours: Replayed, theirs: Replayed, label: str) -> Iterator[str]:
        """Yield the differences of each container, as changes from our chain's to theirs.

        ``label``: how the other chain differs, such as "without 20-b".
        """
        different = list(differing(ours, theirs))
        for name, lines in different:
            yield ""
            yield self._cut(Style.STRONG, f"{name} {label}")
            for line in lines:
                yield self.change(line) if isinstance(line, Change) else f"  {line}"
        if not different:
            yield ""
            yield "both chains result in equal containers"

    # -- summary ------------------------------------------------------------------------------

    def summary(self, replayed: Replayed) -> Iterator[str]:
        """Yield how the plugins ended, and the number of replies by verdict."""
        tally = replayed.tally
        counts = [f"{count} {verdict}" for verdict, count in sorted(tally.counts.items())]
        yield ""
        for plugin in replayed.plugins:
            if plugin.gone:
                when = (
                    f"after event {plugin.gone_after}" if plugin.gone_after else "before any event"
                )
                yield self._cut(Style.BAD, f"{plugin.plugin} disconnected {when}: {plugin.gone}")
            if plugin.deserted and not (plugin.gone and plugin.deserted.endswith(plugin.gone)):
                yield self._cut(Style.BAD, f"{plugin.plugin}: {plugin.deserted}")
            if plugin.started_again and not plugin.deserted:
                text = (
                    f"{plugin.plugin} ended when its connection was closed, and replay started it "
                    f"again ({plugin.started_again}×); runtimes do not: --must-reconnect fails this"
                )
                yield self._cut(Style.WARN, text)
            for process in plugin.left_behind:
                text = f"{plugin.plugin} left a process behind, which was killed: {process}"
                yield self._cut(Style.BAD, text)
            if plugin.ending:
                yield self._cut(Style.DIM, f"{plugin.plugin} {plugin.ending}")
        replies = sum(tally.verdicts.values())
        not_sent = f" ({tally.skipped} more not sent)" if tally.skipped else ""
        text = (
            f"{many(tally.events, 'event')}{not_sent}, "
            f"{replies:,} {'reply' if replies == 1 else 'replies'}"
            f"{': ' if counts else ''}{', '.join(counts)}"
            f" in {duration(replayed.playing_ns)}"
        )
        yield styled(Style.GOOD if replayed.ok else Style.BAD, safe(text, self._width))


def _summary(event: PlayedEvent, reply: Reply) -> str:
    text = "" if reply.event != event.event else _requested_changes(event, reply.plugin)
    if not text and reply.message is not None and not is_empty_reply(reply.message):
        text = f"no change, in a reply of {reply.message.ByteSize()} bytes"
    return text or _OK


def _requested_changes(event: PlayedEvent, plugin: str) -> str:
    """List the paths that a plugin changes, and the other containers that it updates.

    It only asks for what fails with the event, and for what has a remark of its own.
    """
    own = [made for made in event.changes if made.plugin == plugin]
    paths = [made.change.path for made in own if _is_same(made.container, event.subject)]
    remarked = {made.path for made in event.dropped if made.plugin == plugin}
    asked = [path for path in paths if event.failure or path in remarked]
    others = sorted({made.container for made in own if not _is_same(made.container, event.subject)})
    listed = {
        "changes": [label(path) for path in paths if path not in asked],
        "asks for": [label(path) for path in asked],
        "updates": others,
    }
    return "; ".join(
        f"{verb} {first_names(names, _PATHS_LISTED)}" for verb, names in listed.items() if names
    )


def _is_same(container: str, subject: str) -> bool:
    """Return whether the names are equal, ignoring the number of a container in a result."""
    return container == subject or container.rpartition("#")[0] == subject != ""


def _values(change: Change, most: int | None) -> str:
    before, after = _value(change.before, most), _value(change.after, most)
    match str(change.kind):
        case "added":
            return f" = {after}"
        case "removed":
            return f" (was {before})"
        case "moved":
            return " moved"
    return f" {before} → {after}"


def _value(json_value: Json, most: int | None) -> str:
    """Format a JSON value on one line, cut to ``most`` characters if it is longer."""
    text = json.dumps(json_value, ensure_ascii=False)
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def differing(ours: Replayed, theirs: Replayed) -> Iterator[tuple[str, list[Change | str]]]:
    """Yield the containers that differ between two chains, with their differences."""
    for name in dict.fromkeys([*ours.containers, *theirs.containers]):
        first, second = ours.containers.get(name), theirs.containers.get(name)
        either = next((result for result in (first, second) if result is not None), None)
        if either is not None and either.existed:
            # A chain without it did not change it.
            if changes := differences(_spec(first, either), _spec(second, either)):
                yield name, list(changes)
        elif first is None or second is None or first.created != second.created:
            by_other = second is not None and second.created
            yield name, [f"is created with {'the other' if by_other else 'this'} chain only"]
        elif bool(first.start_failure) != bool(second.start_failure):
            yield (
                name,
                [f"starts with {'this' if second.start_failure else 'the other'} chain only"],
            )
        elif first.created and (changes := differences(_spec(first, first), _spec(second, second))):
            yield name, list(changes)


def _spec(result: ContainerResult | None, counterpart: ContainerResult) -> Spec:
    # A runtime sorts all mounts if one is adjusted, which is not a difference of the chains.
    return sort_mounts(counterpart.before if result is None else result.spec)
