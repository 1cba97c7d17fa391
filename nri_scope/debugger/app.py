# SPDX-License-Identifier: Apache-2.0
"""The debugger's screen: events, the content of one, and the plugins' output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea
from textual.worker import WorkerError

from nri_scope.errors import NriScopeError
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many
from nri_scope.text.styled_text import spans_of
from nri_scope.tui.terminal import EndSignals, TerminalDriver
from nri_scope.tui.text.styled_line import Style, StyledLine, line
from nri_scope.tui.textual_workarounds import TerminalApp, begin, do_bound
from nri_scope.tui.theme import DEFAULT, themes_of
from nri_scope.tui.widgets import screens
from nri_scope.tui.widgets.bars import StatusLine
from nri_scope.tui.widgets.filter_bar import text_processed
from nri_scope.tui.widgets.screens import MainScreen, ReadingScreen

from .debugger import Debugger, count_words
from .event_rows import (
    EventRows,
    content_lines,
    output_line,
    restart_words,
    status_words,
    title_words,
)
from .message_edits import MessageEdits
from .panes import DebuggerKeys, InputLine, Pane, Panes, TitleLine, bindings, help_lines, inserts

_REFRESH_S = 0.05
"""Minimum seconds between two updates of the screen."""
_QUEUE_MAX = 100

_Command = Callable[[], object]


class DebuggerApp(TerminalApp, inherit_bindings=False):
    """Screen of a debug session. ``run`` returns when the user quits."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()
    ENABLE_COMMAND_PALETTE = False
    CSS = screens.CSS

    def __init__(
        self,
        debugger: Debugger,
        *,
        title: str = "",
        colors: str = "truecolor",
    ) -> None:
        """Create it. ``title``: words at the right of the title, such as the file's name."""
        super().__init__(driver_class=TerminalDriver)
        for each in themes_of(colors).values():
            self.register_theme(each)
        self.theme = DEFAULT
        self._debugger = debugger
        self._words = title
        self._queue: list[_Command] = []
        """Commands of keys that were pressed while an event was being sent."""
        self._is_dirty = True
        self._follows = True
        """Whether the content is that of the pending event, wherever the cursor is."""
        self._notice: list[StyledLine] = []
        """Lines shown in place of the content: what differs from the run before."""
        self._differences: list[str] = []
        self._is_compared = False
        """Whether the user expects to hear that nothing differs."""
        self._edits = MessageEdits(self, debugger)
        debugger.on_change = self._changed
        debugger.on_stop = self._stopped
        for name, action in self._actions().items():
            # Textual looks up the actions of keys as attributes of the app.
            setattr(self, f"action_{name}", action)

    # -- its parts ----------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """Return the main screen."""
        return MainScreen()

    def compose(self) -> ComposeResult:
        """Compose the panes."""
        self._title_line = TitleLine()
        self._panes = Panes()
        self._list, self._content = self._panes.events, self._panes.content
        self._question, self._status = InputLine(), StatusLine()
        yield self._title_line
        yield self._panes
        yield self._question
        yield self._status
        yield DebuggerKeys()

    def on_mount(self) -> None:
        """Start the replay."""
        self._signals = EndSignals(self.exit)
        self.screen.set_focus(self._list)
        self._lay_out(self.size.width)
        self._replaying = begin(self, self._replay, "replay")
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
        self._panes.lay_out(width)
        self._changed()

    async def _replay(self) -> None:
        session = self._debugger.session
        try:
            await session.run()
        finally:
            session.quit()

    # -- drawing ------------------------------------------------------------------------------

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if not self._edits.has_terminal:
            super()._display(screen, renderable)

    def _changed(self) -> None:
        self._is_dirty = True

    def _refresh_if_dirty(self) -> None:
        if self._is_dirty and not self._edits.has_terminal and self.screen_stack:
            self._is_dirty = False
            self._show()

    def _show(self) -> None:
        debugger = self._debugger
        rows = EventRows(debugger, max(20, self._list.scrollable_content_region.width))
        # Only the user's moves choose another event.
        with self._list.prevent(Pane.Moved):
            self._list.show(rows, keep_position=True)
            if self._follows:
                self._list.go_to_with_next(len(debugger.sent))
        self._show_content()
        self._panes.show_output([output_line(each) for each in debugger.output])
        self._title_line.words = title_words(debugger), self._words
        self._status.words = status_words(debugger)

    def _show_content(self) -> None:
        debugger = self._debugger
        index = len(debugger.sent) if self._follows else self._list.cursor
        width = max(20, self._content.scrollable_content_region.width)
        lines = self._notice or content_lines(debugger, index, width)
        if lines != self._content.source:
            self._content.show(lines)

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
            self._say(restart_words(self._debugger), problem=True)
        elif self._queue:
            # Not at once, as the session has not noted the stop yet.
            self.call_later(self._run_queued)

    async def _compare(self) -> None:
        differences = await self._debugger.differences()
        if differences is None:
            return
        self._differences = differences
        if differences:
            self._say(f"{count_words(differences)}; Esc closes", problem=True)
            self._show_differences()
        elif self._is_compared:
            self._say("all replies equal those of the run before")

    # -- keys ---------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Handle a key completely before the next one, which may belong to an opened input."""
        if isinstance(event, events.Key) and not event.is_forwarded and self.screen_stack:
            field = self.focused if isinstance(self.focused, Input | TextArea) else None
            if field is not None and not inserts(field, event):
                # Its action would come late: run it here, after the text that was typed before.
                await text_processed(field)
                field = None
            if field is None:
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

    def _actions(self) -> dict[str, Callable[[], object]]:
        """Return what each of `KEYS` does, except to quit."""
        debugger, run, restart = self._debugger, self._run, self._restart

        def ask(label: str, accept: Callable[[str], object]) -> Callable[[], None]:
            return lambda: self._question.ask(label, self._attempted(accept))

        return {
            "step": partial(run, debugger.step),
            "go_on": partial(run, debugger.go_on),
            "edit": partial(run, self._edits.edit_request),
            "answer": partial(run, self._answer),
            "go_back": partial(restart, debugger.back),
            "break_on": ask("break on", debugger.break_on),
            "help": lambda: self.push_screen(ReadingScreen("Keys of the debugger", help_lines())),
            "again": partial(run, debugger.again),
            "skip": partial(run, debugger.skip),
            "run_to": ask("run to event", lambda text: run(lambda: debugger.run_to(text))),
            "restart": partial(restart, debugger.restart, is_compared=True),
            "clear_breakpoints": self._clear_breakpoints,
            "differences": self._show_differences,
            "pause": self._pause,
            "focus_next_pane": lambda: self._panes.focus_next(),
            "wrap": lambda: self._panes.toggle_wrap(),
        }

    def _clear_breakpoints(self) -> None:
        self._say(f"{many(self._debugger.breakpoints.clear(), 'breakpoint')} removed")
        self._changed()

    def _attempted(self, command: Callable[[str], object]) -> Callable[[str], None]:
        """Return the command with its errors as messages."""

        def attempt(text: str) -> None:
            try:
                command(text)
            except NriScopeError as error:
                self._say(str(error), problem=True)

        return attempt

    def _restart(self, command: _Command, *, is_compared: bool = False) -> None:
        # Also while the plugin does not reply.
        self._queue.clear()
        self._is_compared = is_compared
        self._notice, self._follows = [], True
        command()
        self._changed()

    def _pause(self) -> None:
        """Close the input or the notice, or stop at the next event."""
        self._queue.clear()
        if self._question.is_open:
            self._question.close()
        elif self._notice:
            self._notice = []
        else:
            self._debugger.session.pause()
        self._changed()

    def _answer(self) -> Awaitable[None] | None:
        plugin = self._debugger.answering_plugin()
        pending = self._debugger.pending
        if pending is None or len(pending.plugins) == 1:
            return self._edits.write_reply(plugin)
        self._question.ask(
            "reply in place of", lambda text: self._run(lambda: self._answer_for(text)), plugin
        )
        return None

    def _answer_for(self, name: str) -> Awaitable[None]:
        return self._edits.write_reply(self._debugger.answering_plugin(name))

    def _show_differences(self) -> None:
        """Show what differed after the last restart."""
        if not self._differences:
            self._say("nothing differed after the last restart")
            return
        title = line("before → now", Style.STRONG)
        self._notice = [title, *(spans_of(text) for text in self._differences)]
        self._changed()

    async def action_quit(self) -> None:
        """End the plugin and quit."""
        self.exit()

    @on(Pane.Moved)
    def _moved(self, event: Pane.Moved) -> None:
        if event.lines is self._list:
            self._follows = event.index == len(self._debugger.sent)
            self._show_content()
