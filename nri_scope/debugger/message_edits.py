# SPDX-License-Identifier: Apache-2.0
"""Requests and replies that the user edits, in an editor or on the screen."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from textual.app import App

from nri_scope.errors import UsageError, reason_of
from nri_scope.process.child import describe_exit
from nri_scope.text.escape import safe
from nri_scope.text.yaml_reader import MAX_BYTES
from nri_scope.tui.textual_workarounds import can_suspend

from .debugger import Debugger
from .panes import TextScreen


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of ``$VISUAL`` or ``$EDITOR``; [] if neither is set.

    Raises UsageError if it has unbalanced quotes.
    """
    text = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"$EDITOR is no command: {text}", "close its quotes") from None


async def edit_text(command: list[str], text: str, name: str) -> str:
    """Return the text as the editor saved it. Raises UsageError.

    The terminal belongs to the editor until then: ^C does not interrupt this program. Other tasks,
    such as the connections of plugins, go on.
    """
    # A request may contain secrets: the folder is private.
    with tempfile.TemporaryDirectory(prefix="nri-scope-") as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*command, str(path))
        except OSError as error:
            problem = f"{command[0]}: {reason_of(error)}"
            raise UsageError(problem, "set EDITOR to another one") from error
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        finally:
            signal.signal(signal.SIGINT, former)
        if code:
            problem = f"{command[0]} ended with {describe_exit(code)}"
            raise UsageError(problem, "nothing was sent")
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise UsageError(f"the text is larger than {MAX_BYTES >> 20} MiB")
            return content.decode()
        except (OSError, UnicodeDecodeError) as error:
            words = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise UsageError(f"the edited text cannot be read: {words}") from error


class MessageEdits:
    """Edits of the pending event's messages; texts that were refused can be edited further."""

    def __init__(self, app: App[None], debugger: Debugger) -> None:
        self._app = app
        self._debugger = debugger
        self._drafts: dict[str, str] = {}
        """Texts that were refused, by what was edited."""
        self.has_terminal = False
        """Whether the terminal belongs to an editor."""

    async def edit_request(self) -> None:
        """Let the user edit the request, and send it. Raises UsageError."""
        text = self._debugger.request_text()
        await self._edit("request", text, self._debugger.send_text)

    async def write_reply(self, plugin: str) -> None:
        """Let the user write a reply in the plugin's place, and use it. Raises UsageError."""
        text = self._debugger.answer_template(plugin)
        await self._edit("reply", text, lambda edited: self._debugger.answer(plugin, edited))

    async def _edit(self, what: str, text: str, use: Callable[[str], object]) -> None:
        """Let the user edit a text, and use it; keep it if it is refused."""
        pending = self._debugger.pending
        begun = self._drafts.pop(what, text)
        edited = await self._from_user(what, begun)
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

    async def _from_user(self, what: str, text: str) -> str | None:
        command = editor_command()
        if not command or not can_suspend(self._app):
            pending = self._debugger.pending
            name = "" if pending is None else f" of {pending.event} {safe(pending.subject)}"
            return await self._app.push_screen_wait(TextScreen(f"{what}{name}", text))
        with self._app.suspend():
            self.has_terminal = True
            try:
                return await edit_text(command, text, what)
            finally:
                self.has_terminal = False
