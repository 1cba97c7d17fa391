# SPDX-License-Identifier: Apache-2.0
"""``export --verify``: check that a plugin replies to a redacted recording as to the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nri_scope.recording.display import many
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder, writing_to
from nri_scope.replay import chain
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.progress import ReplayListener
from nri_scope.replay.run import Job
from nri_scope.share.extract import Selection, extract

from .replay_job import play

if TYPE_CHECKING:
    from nri_scope.replay.result import PlayedEvent, Replayed

_LISTED = 20
"""Maximum number of differences to list; later ones are mostly consequences of earlier ones."""


class Verified(NamedTuple):
    """Result of comparing two replays."""

    differences: list[str]
    gone: list[str]
    """Plugins that disconnected early in both replays, with the reason; later events were not
    compared."""


def verified(
    original: Path, selection: Selection, bundle: Path, command_line: tuple[str, ...]
) -> Verified:
    """Compare a replay of the selected events with a replay of the bundle made from them.

    Compares the verdict of each reply, the failures, skipped events and dropped requests, and the
    number of changes per event; not the changes themselves, as their values may have been replaced.
    Raises the errors of `replay`.
    """
    plugin_set = PluginSet(plugins=(chain.command(command_line),))
    if selection.is_all:
        before = play(Job(original, plugin_set), ReplayListener())
    else:
        # Only the selected events: a replay of the whole recording may have another result.
        with temporary_folder() as folder:
            part = folder / "r.nriscope.db"
            with writing_to(folder), Recording.open(original) as source:
                extract(source, part, selection)
            before = play(Job(part, plugin_set), ReplayListener())
    after = play(Job(bundle, plugin_set), ReplayListener())
    found = list(_differences(before, after))
    more = len(found) - _LISTED
    listed = [*found[:_LISTED], *([f"and {many(more, 'more difference')}"] if more > 0 else [])]
    both = zip(before.plugins, after.plugins, strict=False)
    return Verified(
        listed, [f"{one.plugin}: {one.gone}" for one, two in both if one.gone and two.gone]
    )


def _differences(before: Replayed, after: Replayed) -> Iterator[str]:
    ours, theirs = _by_key(before), _by_key(after)
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(key), theirs.get(key)
        event = one or other
        assert event is not None
        number = f"event {event.event_id}, {event.event}"
        if one is None or other is None:
            yield f"{number}: occurs only {'after' if one is None else 'before'} redaction"
            continue
        first, second = _outcome(one), _outcome(other)
        if first != second:
            yield f"{number}: {first} before redaction, {second} after it"
    for plugin, again in zip(before.plugins, after.plugins, strict=False):
        if bool(plugin.gone) != bool(again.gone):
            when = "before" if plugin.gone else "after"
            yield f"{plugin.plugin} disconnects only {when} redaction: {plugin.gone or again.gone}"


def _by_key(replayed: Replayed) -> dict[tuple[int, str, int], PlayedEvent]:
    """Return events by number, name, and number of earlier occurrences of the same two."""
    counts: Counter[tuple[int, str]] = Counter()
    found: dict[tuple[int, str, int], PlayedEvent] = {}
    for played in replayed.events:
        key = (played.event_id, played.event)
        found[*key, counts[key]] = played
        counts[key] += 1
    return found


def _outcome(played: PlayedEvent) -> str:
    """Return the outcome of an event as text, without any values."""
    parts = [f"{reply.plugin} {reply.verdict}" for reply in played.replies] or [
        "no plugin received it"
    ]
    parts += [many(len(played.changes), "change")] if played.changes else []
    parts += [f"{len(played.dropped)} dropped"] if played.dropped else []
    parts += [word for word in ("failure", "logged", "skipped") if getattr(played, word)]
    return ", ".join(parts)
