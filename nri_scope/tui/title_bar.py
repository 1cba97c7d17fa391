# SPDX-License-Identifier: Apache-2.0
"""The title: what is shown, whose it is, and what of it was lost."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.store.store import Facts

_LEAST_RUNTIME = 12
"""Columns that are left to the runtime's name, whatever else there is to say."""
_LEAST_NAME = 6
"""Columns of the runtime's own name that are worth more than the version of NRI behind it."""
_NRI = ", NRI "
_INFERRED = " (inferred)"


def needed(facts: Facts, badge: str = "") -> list[str]:
    """Return what has to be said in any case, behind the runtime; ``badge`` first."""
    live = facts.kind == "live"
    being_recorded = facts.kind == "recording" and facts.growing
    parts = [badge] if badge else []
    parts.append("being recorded" if being_recorded else safe(facts.kind))
    if lost := lost_words(facts):
        parts.append(lost)
    if facts.damage:
        parts.append("! damaged")
    if (live or facts.growing) and facts.sessions and not facts.connected:
        parts.append("runtime gone, waiting")
    return parts


def more(facts: Facts) -> list[str]:
    """Return what is said where there is room, the most important first."""
    parts = [f"{facts.events:,} event{'' if facts.events == 1 else 's'}"]
    if facts.sessions > 1:
        parts.append(f"{facts.sessions:,} sessions")
    return parts


def lost_words(facts: Facts) -> str:
    """``! 2 gaps, 12 lost``; "" where nothing was lost."""
    if not facts.gaps:
        return ""
    gaps = f"! {facts.gaps:,} gap{'' if facts.gaps == 1 else 's'}"
    if not facts.lost:
        return gaps
    return f"{gaps}, {'at least ' if facts.lost_unknown else ''}{facts.lost:,} lost"


def title(facts: Facts, width: int, badge: str = "") -> str:
    """One line of at most ``width`` columns; the file's name at the right, where it fits."""
    runtime, parts = facts.runtime or "no runtime yet", needed(facts, badge)
    room = width - columns("".join(f" · {part}" for part in parts))
    runtime = _cut(runtime, max(_LEAST_RUNTIME, room))
    text = " · ".join([runtime, *parts])
    for part in more(facts):
        if columns(text) + columns(f" · {part}") > width:
            break
        text += f" · {part}"
    text = safe(text, width)
    name = safe(facts.path.name)
    spare = width - columns(text) - columns(name)
    return f"{text}{' ' * spare}{name}" if spare >= 2 else text


def _cut(runtime: str, room: int) -> str:
    """``containerd 2.1.9+unkn…, NRI 0.8.0``: what is known of NRI stays as long as anything can."""
    if columns(runtime) <= room:
        return runtime
    name, comma, nri = runtime.removesuffix(_INFERRED).rpartition(_NRI)
    if not comma or columns(comma + nri) + _LEAST_NAME > room:
        return safe(runtime, room)
    return f"{safe(name, room - columns(comma + nri))}{comma}{nri}"


class TitleBar(Widget):
    """The first line of the screen."""

    DEFAULT_CSS = """
    TitleBar { height: 1; background: $primary 30%; color: $foreground; text-style: bold;
               padding: 0 1; }
    TitleBar:ansi { background: ansi_blue; color: ansi_bright_white; }
    TitleBar:nocolor { text-style: reverse; }
    """

    def __init__(self, badge: str = "") -> None:
        """``badge``: a word that is there all the time."""
        super().__init__()
        self._badge = badge
        self._facts: Facts | None = None

    def show(self, facts: Facts) -> None:
        """Other facts."""
        if facts != self._facts:
            self._facts = facts
            self.refresh()

    def render(self) -> Text:
        """Return the line."""
        if self._facts is None:
            return Text("nri-scope")
        return Text(title(self._facts, self.size.width, self._badge), no_wrap=True, end="")
