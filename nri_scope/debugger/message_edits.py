# SPDX-License-Identifier: Apache-2.0
"""Requests and replies that the user edits, in an editor or on the screen."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe
from nri_scope.tui.textual_workarounds import can_suspend

from .debugger import Debugger
from .editor import edit_text, editor_command
from .panes import TextScreen


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
