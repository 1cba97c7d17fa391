# SPDX-License-Identifier: Apache-2.0
"""Debug by lines of standard input: ``replay --step``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.recording.display import many
from nri_scope.replay.progress import ReplayListener
from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed
from nri_scope.replay.run import Job
from nri_scope.text.escape import safe

from .debugger import Debugger, count_of
from .editor import edit_text, editor_command
from .line_reader import LineReader
from .run_differences import count_words


class LineCommand(NamedTuple):
    """A command of a line."""

    names: tuple[str, ...]
    argument: str
    """Description of the argument; "" for none."""
    help: str


COMMANDS = (
    LineCommand(("n", "next"), "", "send the event; Enter does, too"),
    LineCommand(("c", "continue"), "", "send events up to a breakpoint or the end"),
    LineCommand(("r", "run"), "N", "send events up to event N"),
    LineCommand(("b", "break"), "[FILTER]", "add a breakpoint; without a filter, list them"),
    LineCommand(("clear",), "", "remove all breakpoints"),
    LineCommand(("show",), "", "print the request"),
    LineCommand(
        ("e", "edit"),
        "[PATH=VALUE]",
        "change the request and send it, as in 'e container.env.A=1'; without a change, in $EDITOR",
    ),
    LineCommand(("a", "again"), "", "send the last event again"),
    LineCommand(("s", "skip"), "", "let the event take effect without sending it"),
    LineCommand(
        ("w", "answer"),
        "[YAML]",
        "use this reply without asking the plugin, as in 'answer {adjust: {env: {A: 1}}}'; without "
        "one, in $EDITOR",
    ),
    LineCommand(("back", "p"), "[N]", "go N events back, 1 if omitted: the plugin is started anew"),
    LineCommand(("restart", "R"), "", "start the plugin anew, and stop before this event"),
    LineCommand(("q", "quit"), "", "end the replay"),
    LineCommand(("help", "h", "?"), "", "print this list"),
)


def help_text() -> str:
    """Return the list of commands."""
    width = max(len(_usage(one)) for one in COMMANDS)
    return "\n".join(f"  {_usage(one):<{width}}  {one.help}" for one in COMMANDS)


def _usage(command: LineCommand) -> str:
    names = ", ".join(command.names)
    return f"{names} {command.argument}" if command.argument else names


class LineDebugger(Debugger):
    """A debug session that is controlled by lines."""

    def __init__(
        self,
        job: Job,
        audience: ReplayListener,
        reader: LineReader,
        say: Callable[[str, bool], object],
    ) -> None:
        """Create it. ``say`` prints a text, and a line end if the second argument is true."""
        super().__init__(job)
        self._audience = audience
        self._reader = reader
        self._say = say
        self._stop = asyncio.Event()
        self._error: NriScopeError | None = None
        self._has_begun = False
        self.on_stop = self._stop.set
        self._is_recorded = job.output is not None
        self._commands: dict[str, Callable[[str], Awaitable[object] | object]] = {
            "": lambda _: self.step(),
            "n": lambda _: self.step(),
            "c": lambda _: self.go_on(),
            "r": self.run_to,
            "b": self._break,
            "clear": self._clear,
            "show": lambda _: self._print(self.request_text() or "an empty request"),
            "e": self._edit,
            "a": lambda _: self.again(),
            "s": lambda _: self.skip(),
            "w": self._answer,
            "back": self._back,
            "restart": lambda _: self._restart(),
            "q": lambda _: self._quit(),
            "help": lambda _: self._print(help_text()),
        }

    async def run(self) -> Replayed | None:
        """Return the result; None if the user ended the replay before its end.

        Raises UsageError at the end of the input, and the errors of `replay`.
        """
        replaying = asyncio.create_task(self.session.run())
        try:
            while not replaying.done():
                stop = asyncio.create_task(self._stop.wait())
                await asyncio.wait({replaying, stop}, return_when=asyncio.FIRST_COMPLETED)
                stop.cancel()
                if self._stop.is_set():
                    self._stop.clear()
                    await self._stopped()
            await replaying
            return self.session.result
        finally:
            replaying.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({replaying})

    # -- progress -----------------------------------------------------------------------------

    def began(self, replayed: Replayed) -> None:
        """Print the title once."""
        super().began(replayed)
        if not self._has_begun:
            self._has_begun = True
            self._audience.began(replayed)

    def notice(self, text: str) -> None:
        """Pass the message on."""
        self._audience.notice(text)

    def lost(self, plugin: str, reason: str) -> None:
        """Say it below the prompt, and prompt again; during a request, the event says it."""
        if self.session.is_stopped:
            self._print("")
            super().lost(plugin, reason)
            self._prompt()

    def event(self, played: PlayedEvent) -> None:
        """Print the event, unless it was printed before."""
        super().event(played)
        if not self.session.is_catching_up:
            self._audience.event(played)

    def line(self, line: PrintedLine) -> None:
        """Print a line of output between events."""
        if not self.session.is_catching_up:
            self._audience.line(line)

    def failed(self, error: NriScopeError) -> None:
        """Keep the error."""
        self._error = error
        super().failed(error)

    # -- the conversation ---------------------------------------------------------------------

    async def _stopped(self) -> None:
        """Read commands until one sends an event or starts the plugin anew."""
        if self.failure:
            assert self._error is not None
            if not self.session.is_catching_up:
                raise self._error
            self._print(f"{safe(self.failure)}; restart tries again")
        else:
            found = await self.differences() or []
            if found:
                self._print(count_words(found))
            for difference in found:
                self._print(f"  {difference}")
        while not self._stop.is_set() and (self.session.is_stopped or self.failure):
            self._prompt()
            line = await self._reader.line()
            if line is None:
                if self.is_at_end:
                    self.session.quit()
                    return
                self._print("")
                raise UsageError("--step: standard input has ended", "press Enter for each event")
            if not self._reader.is_terminal:
                # On a terminal, Enter itself ends the line.
                self._print("")
            try:
                await self._perform(line.strip())
            except UsageError as error:
                self._print(safe(str(error)))
            else:
                if not self.session.is_stopped:
                    return

    def _prompt(self) -> None:
        pending = self.pending
        if pending is not None:
            name = f"{pending.event_id or '+'}  {pending.event} {pending.subject}".rstrip()
            to = "" if pending.plugins else " (to no plugin)"
            self._say(f"press Enter for {safe(name)}{to} ", False)
        elif self.failure:
            self._say("restart or q ", False)
        elif self._reader.is_terminal:
            self._say("press Enter to end ", False)

    def _print(self, text: str) -> None:
        self._say(text, True)

    async def _perform(self, line: str) -> None:
        word, _, argument = line.partition(" ")
        command = next((one for one in COMMANDS if word in one.names), None)
        if word and command is None:
            raise UsageError(f"{word[:40]!r} is no command", "help lists the commands")
        if not word and self.is_at_end:
            self.session.quit()
            return
        name = command.names[0] if command is not None else ""
        if command is not None and argument and not command.argument:
            raise UsageError(f"{name} takes no argument", "help lists the commands")
        result = self._commands[name](argument.strip())
        if isinstance(result, Awaitable):
            await result

    async def _quit(self) -> None:
        count = await self.unsent()
        if count:
            self._print(f"{many(count, 'event')} {'was' if count == 1 else 'were'} not sent")
        self.session.quit()

    def _break(self, text: str) -> None:
        if text:
            self.break_on(text)
        words = self.breakpoints.words()
        self._print(f"breakpoints: {safe(words)}" if words else "there are no breakpoints")

    def _clear(self, _: str) -> None:
        self._print(f"{many(self.breakpoints.clear(), 'breakpoint')} removed")

    async def _edit(self, assignment: str) -> None:
        if assignment:
            self.send_changed(assignment)
        else:
            self.send_text(await self._edited(self.request_text(), "request"))

    async def _answer(self, text: str) -> None:
        plugin = self.answering_plugin()
        if not text:
            text = await self._edited(self.answer_template(plugin), "reply")
        self.answer(plugin, text)

    async def _edited(self, text: str, name: str) -> str:
        command = editor_command()
        if not command or not self._reader.is_terminal:
            raise UsageError("there is no editor", "set EDITOR, or write the change on the line")
        edited = await edit_text(command, text, name)
        if edited == text:
            raise UsageError("the text was not changed", "nothing was sent")
        return edited

    def _back(self, text: str) -> None:
        events = count_of(text) if text else 1
        self._check_restart()
        self.back(events)

    def _restart(self) -> None:
        self._check_restart()
        self.restart()

    def _check_restart(self) -> None:
        if self._is_recorded:
            raise UsageError("the replay is being recorded", "leave out -o to go back")
