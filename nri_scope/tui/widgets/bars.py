# SPDX-License-Identifier: Apache-2.0
"""The bars around the views: title, tabs, status and footer."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import many
from nri_scope.text.short_names import short_container

from ..actions import Situation, footer, key_of
from ..store.recording_overview import RecordingKind, RecordingOverview
from ..text.styled_line import folded, line, text_of
from .messages import KeyClicked, TabChosen

_MIN_RUNTIME_COLUMNS = 12
"""Minimum columns of the runtime's name and versions."""
_MIN_NAME_COLUMNS = 6
"""Minimum columns of the runtime's name; with fewer, the NRI version is cut, too."""
_NRI = ", NRI "
_INFERRED = " (inferred)"


def required_facts(facts: RecordingOverview, findings: str = "") -> list[str]:
    """Return the facts that are always shown after the runtime."""
    live = facts.kind is RecordingKind.LIVE
    is_recording = facts.kind is RecordingKind.RECORDING
    parts: list[str] = []
    if facts.growing or not (facts.redacted and is_recording):
        # "redacted" alone leaves space for the number of events on narrow screens.
        parts.append("being recorded" if facts.growing and is_recording else facts.kind.value)
    if facts.redacted:
        parts.append("redacted")
    if lost := lost_words(facts):
        parts.append(lost)
    if findings:
        parts.append(findings)
    if facts.damage:
        parts.append("! damaged")
    if (live or facts.growing) and facts.sessions and not facts.connected:
        parts.append("disconnected, waiting")
    return parts


def optional_facts(facts: RecordingOverview) -> list[str]:
    """Return the facts shown if they fit, in order of importance."""
    parts = [many(facts.events, "event")]
    if facts.sessions > 1:
        parts.append(many(facts.sessions, "session"))
    return parts


def lost_words(facts: RecordingOverview) -> str:
    """Return ``! 2 gaps, 12 lost``; "" if nothing was lost."""
    if not facts.gaps:
        return ""
    gaps = f"! {many(facts.gaps, 'gap')}"
    if not facts.lost:
        return gaps
    return f"{gaps}, {'at least ' if facts.lost_unknown else ''}{facts.lost:,} lost"


def title(facts: RecordingOverview, width: int, findings: str = "", source: str = "") -> str:
    """Format the title in at most ``width`` columns, with the file name at the right if it fits.

    ``source``: what the recording was made from, which is named instead.
    """
    runtime, parts = facts.runtime or "no runtime yet", required_facts(facts, findings)
    room = width - columns("".join(f" · {part}" for part in parts))
    runtime = _cut(runtime, max(_MIN_RUNTIME_COLUMNS, room))
    text = " · ".join([runtime, *parts])
    for part in optional_facts(facts):
        if columns(text) + columns(f" · {part}") > width:
            break
        text += f" · {part}"
    text = safe(text, width)
    name = safe(source or facts.path.name)
    spare = width - columns(text) - columns(name)
    return f"{text}{' ' * spare}{name}" if spare >= 2 else text


def _cut(runtime: str, room: int) -> str:
    """Cut to ``room`` columns, keeping the NRI version if possible:
    ``containerd 2.1.9+unkn…, NRI 0.8.0``.
    """
    if columns(runtime) <= room:
        return runtime
    name, comma, nri = runtime.removesuffix(_INFERRED).rpartition(_NRI)
    if not comma or columns(comma + nri) + _MIN_NAME_COLUMNS > room:
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

    _facts: reactive[RecordingOverview | None] = reactive(None)
    _findings: reactive[str] = reactive("")

    def __init__(self, source: str = "") -> None:
        """Create the title bar; ``source``: see `title`."""
        super().__init__()
        self._source = source

    def show(self, facts: RecordingOverview, findings: str) -> None:
        """Update the facts, and the number of findings."""
        self._facts, self._findings = facts, findings

    def render(self) -> Text:
        """Return the line."""
        if self._facts is None:
            return Text("nri-scope")
        words = title(self._facts, self.size.width, self._findings, self._source)
        return Text(words, no_wrap=True, end="")


_MIN_WORDS_COLUMNS = 8
"""Minimum columns for the words after the tabs."""


class TabLine(Widget):
    """Tabs followed by words: ``[1 Events] 2 Containers …  > ns/pod/container``.

    A click on a tab sends `TabChosen`.
    """

    DEFAULT_CSS = """
    TabLine { height: 1; background: $surface; color: $text-muted; padding: 0 1; }
    """

    def __init__(
        self, tabs: Mapping[str, str], *, padded: bool = False, lead: str = " ", style: str = ""
    ) -> None:
        """Create the tab line. ``tabs`` maps names to labels.

        ``padded``: pad labels so that selecting a tab does not move the others. ``lead`` and
        ``style``: prefix and style of the words.
        """
        super().__init__()
        self._tabs = tabs
        self._lead = lead
        self._style = style
        self._around = " {} " if padded else "{}"
        self._between = "" if padded else " "
        self.chosen = next(iter(tabs))
        """The name of the chosen tab."""
        self.words = ""

    def show(self, chosen: str, words: str) -> None:
        """Update the chosen tab and the words."""
        if (chosen, words) != (self.chosen, self.words):
            self.chosen, self.words = chosen, words
            self.refresh()

    def render(self) -> Text:
        """Draw the tabs and the words, cut to the width."""
        text = Text(no_wrap=True, end="")
        for name, label in self._labels().items():
            text.append(label, style="bold" if name == self.chosen else "")
            text.append(self._between)
        room = self.size.width - columns(text.plain) - len(self._lead)
        if self.words and room > _MIN_WORDS_COLUMNS:
            what, space, name = safe(self.words).rpartition(" ")
            name = short_container(name, max(room - columns(what + space), 1))
            text.append(f"{self._lead}{safe(what + space + name, room)}", style=self._style)
        return text

    def _labels(self) -> dict[str, str]:
        """Return the labels; only the keys of unselected tabs if the words would not fit."""
        labels = {name: self._label(name, label) for name, label in self._tabs.items()}
        width = sum(columns(label + self._between) for label in labels.values())
        if self.words and width + columns(self._lead + self.words) > self.size.width:
            return {
                name: self._label(name, label if name == self.chosen else label.split(" ")[0])
                for name, label in self._tabs.items()
            }
        return labels

    def _label(self, name: str, label: str) -> str:
        # Brackets, because nothing may depend on colour alone.
        return f"[{label}]" if name == self.chosen else self._around.format(label)

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked tab."""
        end = self.styles.padding.left
        for name, label in self._labels().items():
            end += columns(label + self._between)
            if event.x < end:
                self.post_message(TabChosen(name))
                return


FRESH_SECONDS = 6.0
"""Minimum seconds for which a message stays visible."""
_LINES = 3
"""Maximum lines of a message."""


class StatusLine(Widget):
    """One line about the list, temporarily replaced by a message of up to three lines.

    A message is wrapped rather than cut, because its end says what to do.
    """

    DEFAULT_CSS = """
    StatusLine { height: auto; min-height: 1; max-height: 3; padding: 0 1;
                 background: $panel; color: $foreground; }
    StatusLine.-problem { color: $text-warning; text-style: bold; }
    """

    words: reactive[str] = reactive("")
    message: reactive[str] = reactive("", layout=True)
    _message_at = 0.0

    def say(self, text: str, *, problem: bool = False) -> None:
        """Show the message ``text`` until the next action."""
        self.message = f"! {text}" if problem else text
        self._message_at = monotonic()
        self.set_class(problem, "-problem")

    def clear_message(self, *, unless_fresh: bool = False) -> None:
        """Remove the message; with ``unless_fresh``, only after `FRESH_SECONDS`."""
        if unless_fresh and monotonic() - self._message_at < FRESH_SECONDS:
            return
        self.message = ""
        self.remove_class("-problem")

    def render(self) -> Text:
        """Return the message, or the line about the list."""
        return Text("\n".join(self._lines(max(1, self.size.width))), no_wrap=True, end="")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the message."""
        return len(self._lines(max(1, width)))

    def _lines(self, width: int) -> list[str]:
        text = safe(self.message)
        if columns(text) <= width:
            return [text or safe(self.words, width)]
        lines = [text_of(each) for each in folded(line(text), width, 0)]
        if len(lines) > _LINES:
            lines[_LINES - 1 :] = [safe("".join(lines[_LINES - 1 :]), width)]
        return lines


class KeyLine(Widget):
    """The footer: the keys worth showing now."""

    DEFAULT_CSS = """
    KeyLine { height: 1; background: $background; color: $text-muted; padding: 0 1; }
    """

    now: reactive[Situation] = reactive(Situation())
    """The situation for which it shows keys."""

    def render(self) -> Text:
        """Draw as many keys as fit."""
        text = Text(no_wrap=True, end="")
        for name, label in dict(footer(self.now)).items():
            key = key_of(name)
            if columns(text.plain) + columns(f"{key} {label}") > self.size.width:
                break
            meta = Style(meta={"key": name})
            text.append(key, style=meta + Style(bold=True))
            text.append(f" {label}", style=meta).append("  ")
        return text

    def on_click(self, event: events.Click) -> None:
        """Press the clicked key."""
        if name := event.style.meta.get("key"):
            self.post_message(KeyClicked(name))
