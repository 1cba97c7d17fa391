# SPDX-License-Identifier: Apache-2.0
"""Copy events as YAML, or a command line, to the terminal's clipboard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.filter import Filter
from nri_scope.text.escape import safe

from ..textual_workarounds import begin
from . import Command
from .mark import Chooser, Marker
from .save import as_yaml, chosen_numbers, chosen_words

_PLAIN = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./@%+=:,-]*")
CLIPBOARD_MAX = 48 << 10
"""Maximum bytes of text. Some terminals silently drop more than 74,994 bytes of base64."""


@dataclass
class Copier(Command):
    """Commands that copy to the terminal's clipboard."""

    marker: Marker
    chooser: Chooser
    source: Source | None
    """What the recording was made from, if it is temporary."""

    async def copy(self) -> None:
        """Copy the marked events or the selected one as YAML."""
        await self.chooser.marked_or_selected(self._begin)

    def _begin(self, marked: bool) -> None:
        selected = None if marked else self.views.selected_events
        begin(self.app, partial(self._copy, selected), "copy", exclusive=True)

    def copy_command(self) -> None:
        """Copy the command line that prints the shown events, or shows those of a scenario."""
        if self.context.only_marked:
            self.frame.say("a command line cannot select marked events", problem=True)
            return
        try:
            operations = self.views.events.view.noun == "operation"
            where = self.context.filter()
            if self.source is not None:
                line = pasteable(_with_filter(self.source.command, where))
            else:
                line = command_line(self.path, where, operations=operations)
        except UsageError as error:
            self.frame.say(str(error), problem=True)
            return
        self._to_clipboard(line, "the command line")

    async def _copy(self, selected: Sequence[int] | None) -> None:
        try:
            numbers = await chosen_numbers(self.marker, selected, self.views.events.view)
            text = await self.store.run(
                lambda recording: joined_for_clipboard(as_yaml(recording, numbers, to_paste=True))
            )
        except NriScopeError as error:
            self.frame.say(str(error), problem=True)
            return
        self._to_clipboard(text, chosen_words(numbers, marked=selected is None))

    def _to_clipboard(self, text: str | None, what: str) -> None:
        if text is None or len(text.encode()) > CLIPBOARD_MAX:
            key = self.keymap.first("save_text")
            words = f"too long for the terminal's clipboard; {key} saves it to a file"
            self.frame.say(words, problem=True)
            return
        self.app.copy_to_clipboard(text)
        self.frame.say(f"copied {what}, if your terminal allows it (OSC 52)")


def joined_for_clipboard(texts: Iterable[str]) -> str | None:
    """Join texts; return None if they exceed `CLIPBOARD_MAX`."""
    parts: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode(errors="surrogatepass"))
        if size > CLIPBOARD_MAX:
            return None
        parts.append(text)
    return "".join(parts)


def command_line(path: Path, where: Filter | None, *, operations: bool = False) -> str:
    """Return the command that prints the shown events, or operations. Raises UsageError."""
    words = command_words("log", path, where)
    return pasteable([*words, "--operations"] if operations else words)


def command_words(command: str, path: Path, where: Filter | None) -> list[str]:
    """Return the words of a command line on a file, with a filter."""
    return _with_filter(["nri-scope", command, str(path)], where)


def _with_filter(words: Sequence[str], where: Filter | None) -> list[str]:
    return [*words, "--where", str(where)] if where is not None else list(words)


def _quoted(word: str) -> str:
    """Quote a word for POSIX shells, zsh and fish.

    Unlike `shlex.quote`, handles a leading ``=``, which zsh expands to a program's path, and
    backslashes, which fish interprets within single quotes.
    """
    if _PLAIN.fullmatch(word):
        return word
    return "'" + re.sub(r"['\\]", r"'\\\g<0>'", word) + "'"


def pasteable(words: Sequence[str]) -> str:
    """Return a shell command line of ``words`` that is safe to paste.

    Raises UsageError for control characters: when pasted, they take effect despite the quotes. ^C
    aborts the line, and a line end starts a new command.
    """
    line = " ".join(map(_quoted, words))
    try:
        line.encode()
    except UnicodeEncodeError as error:
        # A file name may contain any bytes, a clipboard only text.
        raise UsageError("the command line is not valid UTF-8 and cannot be copied") from error
    if safe(line) != line:
        raise UsageError(
            "the command line contains control characters and was not copied",
            "change the filter or rename the file",
        )
    return line


class Source(NamedTuple):
    """What a temporary recording was made from."""

    name: str
    """As the title shows it."""
    command: tuple[str, ...]
    """Words of the command that shows it again."""
