# SPDX-License-Identifier: Apache-2.0
"""The title: what is shown, whose it is, and what of it was lost."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from nri_scope.recorder.escape import columns, safe
from nri_scope.tui.model.store import Facts

_KIND = {"live": "live", "recording": "recording", "replay": "replay", "tap": "tap"}


def title_parts(facts: Facts) -> list[str]:
    """The most important first; later ones are left out where there is no room."""
    kind = _KIND.get(facts.kind, safe(facts.kind))
    if facts.kind != "live" and facts.growing:
        kind += ", being written"
    parts = [facts.runtime or "no runtime yet", kind]
    if lost := lost_words(facts):
        parts.append(lost)
    if facts.damage:
        parts.append("! damaged")
    if (facts.kind == "live" or facts.growing) and facts.sessions and not facts.connected:
        parts.append("runtime gone, waiting")
    parts.append(f"{facts.events:,} event{'' if facts.events == 1 else 's'}")
    if facts.sessions > 1:
        parts.append(f"{facts.sessions:,} sessions")
    return parts


def lost_words(facts: Facts) -> str:
    """``! 2 gaps, 12 events lost``; "" where nothing was lost."""
    if not facts.gaps:
        return ""
    gaps = f"! {facts.gaps:,} gap{'' if facts.gaps == 1 else 's'}"
    if not facts.lost:
        return gaps
    at_least = "at least " if facts.lost_unknown else ""
    return f"{gaps}, {at_least}{facts.lost:,} event{'' if facts.lost == 1 else 's'} lost"


def title(facts: Facts, width: int) -> str:
    """One line of at most ``width`` columns; the file's name at the right, where it fits."""
    parts = title_parts(facts)
    while len(parts) > 1 and columns(" · ".join(parts)) > width:
        parts.pop()
    text = safe(" · ".join(parts), width)
    name = safe(facts.path.name)
    spare = width - columns(text) - columns(name)
    return f"{text}{' ' * spare}{name}" if spare >= 2 else text


class TitleBar(Widget):
    """The first line of the screen."""

    DEFAULT_CSS = """
    TitleBar { height: 1; background: $primary 30%; color: $foreground; text-style: bold;
               padding: 0 1; }
    TitleBar:ansi { background: ansi_blue; color: ansi_bright_white; }
    TitleBar:nocolor { text-style: reverse; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: Facts | None = None

    def show(self, facts: Facts) -> None:
        """Other facts."""
        if facts != self._facts:
            self._facts = facts
            self.refresh()

    def render(self) -> Text:
        """The line."""
        if self._facts is None:
            return Text("nri-scope")
        return Text(title(self._facts, self.size.width), no_wrap=True, end="")
