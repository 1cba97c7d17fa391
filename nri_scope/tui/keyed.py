# SPDX-License-Identifier: Apache-2.0
"""When keys do what they do: before the next one is looked at."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from nri_scope.tui.acting import Acting
from nri_scope.tui.textual_gaps import do_bound
from nri_scope.tui.widgets.board import Board, BoardLines
from nri_scope.tui.widgets.text_line import TextLine

_POINTED = (events.MouseDown, events.MouseScrollDown, events.MouseScrollUp)


class Keyed(Acting, inherit_bindings=False):
    """An app whose keys may come as fast as a connection that stood still lets them."""

    async def on_event(self, event: events.Event) -> None:
        """Keys do what they do before the next one is looked at.

        Textual sends a key to the widget with the focus first, and by the time that it comes back
        the next ones are under way: what somebody types fast after the key that opens a line would
        not go into that line, and what comes behind the one that closes it would.
        """
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.status.hush()
            if await self._is_done(event):
                return
        elif isinstance(event, _POINTED):
            self.status.hush()
        await super().on_event(event)

    async def _is_done(self, key: events.Key) -> bool:
        """Do what the key does, unless it is to be typed; whether it does anything."""
        if isinstance(self.focused, TextLine) and not key.is_printable:
            # It may close the line, and is about all of it.
            await self.bar.ready()
        elif isinstance(self.focused, Input):
            return False
        elif isinstance(self.focused, BoardLines) and isinstance(self.current, Board):
            # What was typed right behind the key of a view is for its lines.
            await self.current.ready()
        return await do_bound(self, key.key)
