# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of rows that are not there, and why; the words of the status line."""

from __future__ import annotations

from dataclasses import dataclass

from nri_scope.errors import RecordingError
from nri_scope.recorder.display import many
from nri_scope.recorder.escape import safe
from nri_scope.tui.keymap import Keymap
from nri_scope.tui.store.markers import GapMarker
from nri_scope.tui.store.store import Facts
from nri_scope.tui.store.view import View


@dataclass(frozen=True, slots=True)
class Work:
    """What goes on while people wait."""

    part: float | None = None
    """How much of the recording a filter has looked through, 0 to 1; None: no filter is at work."""
    searching: str = ""
    """The text that is being searched for."""
    searched: float = 0.0
    """How much was searched, 0 to 1."""
    busy: str = ""
    """What else is done with the recording, and how far it is."""
    recorder: str = ""
    """What the recorder of this program told last, where it has one."""
    recorder_ended: bool = False


def in_place_of_rows(
    facts: Facts, view: View, narrowed: str, work: Work, keymap: Keymap
) -> tuple[str, ...]:
    """Lines to show where the list has no row at all: the first says what, the others why."""
    if view.length:
        return ()
    if work.part is not None:
        return (
            f"Looking through the recording … {work.part:.0%}",
            f"for {narrowed}" if narrowed else "",
            f"{keymap.first('stop')} stops it",
        )
    if narrowed and facts.events:
        return (
            "0 matches",
            f"{_none_of(facts.events)} {narrowed}",
            f"{keymap.first('filter')} changes the filter, {keymap.first('back')} goes back, "
            f"{keymap.first('clear_filter')} shows everything",
        )
    if not view.complete:
        return ("Reading …",)
    return _no_event(facts, work)


def _none_of(events: int) -> str:
    return "The only event does not match" if events == 1 else f"None of {events:,} events matches"


def _no_event(facts: Facts, work: Work) -> tuple[str, ...]:
    if facts.damage:
        return ("Nothing of this recording can be read", facts.damage)
    if work.recorder_ended:
        return ("No event was recorded", safe(work.recorder))
    if facts.kind == "live":
        return (
            "No event yet",
            safe(work.recorder)
            or "Waiting for the runtime: what it does with pods and containers appears here.",
        )
    if facts.growing:
        return (
            "No event yet",
            "Waiting for what is being recorded into this file.",
        )
    return ("This recording has no events", "Nothing happened while it was made.")


def status_words(
    view: View, position: int | None, listing: str, narrowed: str, work: Work, marked: int = 0
) -> str:
    """``following · 12 of 1,234 · 2 marked · 34 matches: ns:shop``: the line below the list.

    ``position``: of the cursor; None where the list is not what is shown. ``marked``: how many
    events are, which is what keys act on.
    """
    parts = [listing] if listing else []
    if view.length and position is not None:
        parts.append(f"{position + 1:,} of {view.length:,}")
    if marked:
        parts.append(f"{marked:,} marked")
    if work.part is not None:
        parts.append(f"looking through the recording: {work.part:.0%}, {_matches(view)} so far")
    elif narrowed:
        parts.append(f"{_matches(view)}: {narrowed}")
    if work.recorder_ended:
        parts.append(f"recording is over: {safe(work.recorder)}")
    if work.busy:
        parts.insert(0, work.busy)
    if work.searching:
        far = f" {work.searched:.0%}" if work.searched else ""
        parts.append(f"searching for {safe(work.searching, 40)} …{far}")
    return " · ".join(parts)


def _matches(view: View) -> str:
    matches = f"{view.events:,} match{'' if view.events == 1 else 'es'}"
    gaps = sum(isinstance(one, GapMarker) for one in view.between)
    # They are rows, too: what the cursor counts has to add up.
    return f"{matches}, {many(gaps, 'gap')}" if gaps else matches


def trouble_words(error: Exception) -> str:
    """Return what is wrong. Not with which file: the title names it, and paths leave no room for
    more.
    """
    if not isinstance(error, RecordingError):
        return str(error)
    return f"{error.problem}; {error.hint}" if error.hint else error.problem
