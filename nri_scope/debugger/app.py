# SPDX-License-Identifier: Apache-2.0
"""The debugger's screen: events, the content of one, and the plugins' output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import WorkerError

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import spans_of
from nri_scope.tui.terminal import EndSignals, TerminalDriver
from nri_scope.tui.text.styled_line import Source, Span, Style, StyledLine, line
from nri_scope.tui.textual_workarounds import TerminalApp, begin, do_bound
from nri_scope.tui.theme import DEFAULT, themes_of
from nri_scope.tui.widgets import screens
from nri_scope.tui.widgets.bars import StatusLine
from nri_scope.tui.widgets.screens import MainScreen, ReadingScreen

from .debugger import Debugger
from .editor import edit_text, editor_command
from .event_rows import EventRows, pending_lines, sent_lines
from .keys import bindings, help_lines
from .panes import DebuggerKeys, Pane, Question, TextScreen, TitleLine
from .run_differences import count_words
from .watch import Watch

SIDE_BY_SIDE_FROM = 110
"""Minimum columns for the list beside the content; below, it is above."""
LINES_MAX = 20_000
"""Maximum number of lines of one event's content."""
_REFRESH_S = 0.05
"""Minimum seconds between two updates of the screen."""
_QUEUE_MAX = 100

_Command = Callable[[], object]


class DebuggerApp(TerminalApp, inherit_bindings=False):
    """Screen of a debug session. ``run`` returns when the user quits."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()
    ENABLE_COMMAND_PALETTE = False
    CSS = (
        screens.CSS
        + """
    #body { height: 1fr; layout: vertical; }
    #body > .events { height: 2fr; }
    #body > .content { height: 3fr; border-top: solid $primary; }
    #body > .output { height: 1fr; min-height: 4; border-top: solid $primary; }
    #body.-wide { layout: grid; grid-size: 2 2; grid-columns: 1fr 1fr; grid-rows: 3fr 1fr; }
    #body.-wide > .events { height: 100%; row-span: 2; border-right: solid $primary; }
    #body.-wide > .content { height: 100%; border-top: none; }
    #body.-wide > .output { height: 100%; }
    """
    )

    def __init__(
        self,
        debugger: Debugger,
        *,
        title: str = "",
        theme: str = "",
        colors: str = "truecolor",
        watch: Watch | None = None,
    ) -> None:
        """Create it. ``title``: words at the right of the title, such as the file's name."""
        super().__init__(driver_class=TerminalDriver)
        themes = themes_of(colors)
        for each in themes.values():
            self.register_theme(each)
        self.theme = theme if theme in themes else "ansi" if theme else DEFAULT
        self._debugger = debugger
        self._words = title
        self._watch = watch
        self._queue: list[_Command] = []
        """Commands of keys that were pressed while an event was being sent."""
        self._is_editing = False
        """Whether the terminal belongs to an editor."""
        self._is_dirty = True
        self._follows = True
        """Whether the content is that of the pending event, wherever the cursor is."""
        self._notice: list[StyledLine] = []
        """Lines shown in place of the content, such as errors of a build."""
        self._differences: list[str] = []
        self._is_compared = False
        """Whether the user expects to hear that nothing differs."""
        self._drafts: dict[str, str] = {}
        """Edited texts that were refused, by what was edited, to continue with."""
        debugger.on_change = self._changed
        debugger.on_stop = self._stopped

    # -- its parts ----------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """Return the main screen."""
        return MainScreen()

    def compose(self) -> ComposeResult:
        """Compose the panes."""
        self._title_line = TitleLine()
        self._list = Pane(cursor=True, classes="events")
        self._content = Pane(classes="content", empty="starting …")
        self._output = Pane(classes="output", empty="no output of the plugin yet")
        self._question, self._status = Question(), StatusLine()
        yield self._title_line
        yield Container(self._list, self._content, self._output, id="body")
        yield self._question
        yield self._status
        yield DebuggerKeys()

    def on_mount(self) -> None:
        """Start the replay, and watch files."""
        self._signals = EndSignals(self.exit)
        self._output.border_title = "output"
        self.screen.set_focus(self._list)
        self._lay_out(self.size.width)
        self._replaying = begin(self, self._replay, "replay")
        if self._watch is not None:
            begin(self, self._build_on_save, "watch")
        self.set_interval(_REFRESH_S, self._refresh_if_dirty)

    async def on_unmount(self) -> None:
        """Wait until the plugin has ended, and restore the handlers of signals."""
        self._debugger.session.quit()
        with suppress(WorkerError):
            await self._replaying.wait()
        self._signals.restore()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the width."""
        self._lay_out(event.size.width)

    def _lay_out(self, width: int) -> None:
        self.query_one("#body").set_class(width >= SIDE_BY_SIDE_FROM, "-wide")
        self._changed()

    async def _replay(self) -> None:
        session = self._debugger.session
        try:
            await session.run()
        finally:
            session.quit()

    # -- drawing ------------------------------------------------------------------------------

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if not self._is_editing:
            super()._display(screen, renderable)

    def _changed(self) -> None:
        self._is_dirty = True

    def _refresh_if_dirty(self) -> None:
        if self._is_dirty and not self._is_editing and self.screen_stack:
            self._is_dirty = False
            self._show()

    def _show(self) -> None:
        one = self._debugger
        rows = EventRows(one, max(20, self._list.scrollable_content_region.width))
        # Only the user's moves choose another event.
        with self._list.prevent(Pane.Moved):
            self._list.show(rows, keep_position=True)
            if self._follows:
                self._list.go_to_with_next(len(one.sent))
        self._show_content()
        printed = [_output_line(each.plugin, each.stream, each.text) for each in one.output]
        at_end = self._output.top + self._output.size.height >= len(self._output.source)
        self._output.show(printed, keep_position=True)
        if at_end or self.focused is not self._output:
            self._output.go_to(len(printed) - 1)
        self._title_line.show(self._title_words(), self._words)
        self._status.words = self._status_words()

    def _show_content(self) -> None:
        one = self._debugger
        index = len(one.sent) if self._follows else self._list.cursor
        if self._notice:
            lines: Source = self._notice
        elif index < len(one.sent):
            lines = list(islice(sent_lines(one.sent[index]), LINES_MAX))
        else:
            width = max(20, self._content.scrollable_content_region.width)
            lines = list(islice(pending_lines(one, width), LINES_MAX))
        if lines != self._content.source:
            self._content.show(lines)

    def _title_words(self) -> str:
        one = self._debugger
        plugins = [f"{name} pid {pid}" for name, pid in one.processes]
        if not plugins and one.pending is not None:
            plugins = list(one.pending.plugins)
        return " · ".join(["debug", *plugins])

    def _status_words(self) -> str:
        one = self._debugger
        parts: list[str] = []
        if one.failure:
            parts.append(_failure_words(one))
        elif one.session.is_catching_up:
            parts.append("replaying to the same point …")
        elif not one.session.is_stopped and one.pending is not None:
            parts.append("waiting for the plugin; Esc stops at the next event")
        if words := one.breakpoints.words():
            parts.append(f"breaks: {words}")
        if self._watch is not None:
            parts.append("watching")
        sent = one.sent_before_kept + len(one.sent)
        return " · ".join([f"{sent:,} sent", *parts])

    def _say(self, text: str, *, problem: bool = False) -> None:
        self._status.say(safe(text), problem=problem)

    # -- progress -----------------------------------------------------------------------------

    def _stopped(self) -> None:
        self._follows = True
        self._changed()
        begin(self, self._debugger.read_upcoming, "upcoming", exclusive=True)
        begin(self, self._compare, "differences")
        if self._debugger.failure:
            self._queue.clear()
            # The reason is shown in place of an event's content.
            self._say(_failure_words(self._debugger), problem=True)
        elif self._queue:
            # Not at once, as the session has not noted the stop yet.
            self.call_later(self._run_queued)

    async def _compare(self) -> None:
        found = await self._debugger.differences()
        if found is None:
            return
        self._differences = found
        if found:
            self._say(f"{count_words(found)}; Esc closes", problem=True)
            self.action_differences()
        elif self._is_compared:
            self._say("all replies equal those of the run before")

    async def _build_on_save(self) -> None:
        assert self._watch is not None
        while True:
            try:
                await self._watch.saved()
                self._say(f"building: {self._watch.command}")
                result = await self._watch.build()
            except UsageError as error:
                self._say(str(error), problem=True)
                return
            if result.is_ok:
                self.action_restart()
                continue
            self._say(
                f"the build failed, {result.problem}; the plugin is the one before", problem=True
            )
            title = line(f"{self._watch.command}: {result.problem}", Style.STRONG)
            self._notice = [title, *(line(text, Style.BAD) for text in result.lines)]
            self._changed()

    # -- keys ---------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Handle a key completely before the next one, which may belong to an opened input."""
        if isinstance(event, events.Key) and not event.is_forwarded and self.screen_stack:
            is_typed = isinstance(self.focused, Input | TextArea)
            if self._question.is_open and not event.is_printable:
                # The key may close the line: wait until all text typed before has been processed.
                await self._question.ready()
                is_typed = False
            if not is_typed:
                if not self._question.is_open:
                    self._status.clear_message()
                if await do_bound(self, event.key):
                    return
        await super().on_event(event)

    def _run(self, command: _Command) -> None:
        """Run a command now, or at the next stop; show its error."""
        if not self._debugger.session.is_stopped and not self._debugger.failure:
            if len(self._queue) < _QUEUE_MAX:
                self._queue.append(command)
            return
        self._notice = []
        try:
            result = command()
        except NriScopeError as error:
            self._queue.clear()
            self._say(str(error), problem=True)
        else:
            if isinstance(result, Awaitable):
                begin(self, partial(self._finish, result), "edit")
        self._changed()

    async def _finish(self, work: Awaitable[object]) -> None:
        try:
            await work
        except NriScopeError as error:
            self._say(str(error), problem=True)
        self._changed()
        self._run_queued()

    def _run_queued(self) -> None:
        if self._queue and self._debugger.session.is_stopped:
            self._run(self._queue.pop(0))

    def action_step(self) -> None:
        """Send the next event."""
        self._run(self._debugger.step)

    def action_go_on(self) -> None:
        """Send events up to a breakpoint."""
        self._run(self._debugger.go_on)

    def action_again(self) -> None:
        """Send the last event again."""
        self._run(self._debugger.again)

    def action_skip(self) -> None:
        """Skip the event."""
        self._run(self._debugger.skip)

    def action_run_to(self) -> None:
        """Ask for the number of an event."""
        self._ask("run to event", lambda text: self._run(lambda: self._debugger.run_to(text)))

    def action_break_on(self) -> None:
        """Ask for a filter."""
        self._ask("break on", self._break_on)

    def _break_on(self, text: str) -> None:
        try:
            self._debugger.break_on(text)
        except NriScopeError as error:
            self._say(str(error), problem=True)

    def action_clear_breakpoints(self) -> None:
        """Remove all breakpoints."""
        self._say(f"{self._debugger.breakpoints.clear()} breakpoints removed")
        self._changed()

    def action_go_back(self) -> None:
        """Go one event back."""
        self._restart(self._debugger.back)

    def action_back_by(self) -> None:
        """Ask for a number of events to go back."""
        self._ask("events to go back", self._back_by)

    def _back_by(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
            self._say(f"{text!r} is not a number of events; write for example 2", problem=True)
            return
        self._restart(lambda: self._debugger.back(int(text)))

    def action_restart(self) -> None:
        """Start the plugin anew."""
        self._restart(self._debugger.restart, is_compared=True)

    def _restart(self, command: _Command, *, is_compared: bool = False) -> None:
        # Also while the plugin does not reply.
        self._queue.clear()
        self._is_compared = is_compared
        self._notice, self._follows = [], True
        command()
        self._changed()

    def action_pause(self) -> None:
        """Close the input or the notice, or stop at the next event."""
        self._queue.clear()
        if self._question.is_open:
            self._question.close()
        elif self._notice:
            self._notice = []
        else:
            self._debugger.session.pause()
        self._changed()

    def action_edit(self) -> None:
        """Edit the request and send it."""
        self._run(self._edit)

    async def _edit(self) -> None:
        text = self._debugger.request_text()
        await self._edited("request", text, self._debugger.send_text)

    def action_answer(self) -> None:
        """Write the reply."""
        self._run(self._answer)

    def _answer(self) -> Awaitable[None] | None:
        plugin = self._debugger.answering_plugin()
        pending = self._debugger.pending
        if pending is None or len(pending.plugins) == 1:
            return self._answer_for(plugin)
        self._ask(
            "reply in place of",
            lambda text: self._run(lambda: self._answer_for(self._debugger.answering_plugin(text))),
            plugin,
        )
        return None

    async def _answer_for(self, plugin: str) -> None:
        text = self._debugger.answer_template(plugin)
        await self._edited("reply", text, lambda edited: self._debugger.answer(plugin, edited))

    async def _edited(self, what: str, text: str, use: Callable[[str], object]) -> None:
        """Let the user edit a text, and use it; keep it if it is refused."""
        pending = self._debugger.pending
        begun = self._drafts.pop(what, text)
        edited = await self._text_from_user(what, begun)
        if edited is None:
            return
        if edited == begun:
            raise UsageError("the text was not changed", "nothing was sent")
        try:
            if self._debugger.pending is not pending:
                raise UsageError("the plugin was restarted meanwhile")
            use(edited)
        except UsageError as error:
            if edited != text:
                self._drafts[what] = edited
                key = "e" if what == "request" else "w"
                raise UsageError(str(error), f"{key} continues with the edited text") from error
            raise
        self._drafts.clear()

    async def _text_from_user(self, what: str, text: str) -> str | None:
        command = editor_command()
        driver = self._driver
        if not command or driver is None or not driver.can_suspend:
            pending = self._debugger.pending
            name = "" if pending is None else f" of {pending.event} {safe(pending.subject)}"
            return await self.push_screen_wait(TextScreen(f"{what}{name}", text))
        with self.suspend():
            self._is_editing = True
            try:
                return await edit_text(command, text, what)
            finally:
                self._is_editing = False

    def action_differences(self) -> None:
        """Show what differed after the last restart."""
        if not self._differences:
            self._say("nothing differed after the last restart")
            return
        title = line("before → now", Style.STRONG)
        self._notice = [title, *(spans_of(text) for text in self._differences)]
        self._changed()

    def action_focus_next_pane(self) -> None:
        """Focus the next pane."""
        panes: list[Widget] = [self._list, self._content, self._output]
        at = panes.index(self.focused) if self.focused in panes else -1
        self.screen.set_focus(panes[(at + 1) % len(panes)])

    def action_wrap(self) -> None:
        """Wrap long lines, or not."""
        for pane in (self._content, self._output):
            pane.wrap = not pane.wrap

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(ReadingScreen("Keys of the debugger", help_lines()))

    async def action_quit(self) -> None:
        """End the plugin and quit."""
        self.exit()

    def _ask(self, label: str, accept: Callable[[str], object], text: str = "") -> None:
        self._question.ask(label, accept, text)

    @on(Pane.Moved)
    def _moved(self, event: Pane.Moved) -> None:
        if event.lines is self._list:
            self._follows = event.index == len(self._debugger.sent)
            self._show_content()


def _failure_words(debugger: Debugger) -> str:
    return f"{debugger.failure_words}: R starts it again"


def _output_line(plugin: str, stream: str, text: str) -> StyledLine:
    words = Span(text, Style.WARN if stream == "stderr" else Style.PLAIN)
    return (Span(f"{plugin} ", Style.DIM), words)
