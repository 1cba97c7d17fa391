# SPDX-License-Identifier: Apache-2.0
"""Find credentials that shell scripts write to files, or to the standard input of programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .client_options import FILTERS, STDIN_READERS
from .credentials import must_replace, redact_login, replace_credential, replace_encoded
from .key_names import Certainty, certainty_at, certainty_inside
from .shell_words import Command, Word, quoted
from .tokens import is_token
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine

_HINT = re.compile(r"<<|\b(?:echo|printf)\s")
_VARIABLE = re.compile(
    r"\$(?:[A-Za-z_]+|[A-Z_][A-Z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|\([A-Za-z0-9_.-]*\)|[0-9@*#?])"
)
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ECHO_OPTION = re.compile(r"-[neE]{1,3}|--")
_FROM_STDIN = re.compile(r"-[A-Za-z]*S[A-Za-z]*|--stdin")
_WRITE_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>"})
_LOOPS = words("while until for select")
_LEADING_WORDS = _LOOPS | words("if elif then do else { ! time exec command")
"""Words that may precede the name of a program."""
# Documents and programs, whose credentials are recognized by keys.
_DOCUMENT_NAME = re.compile(
    r"(?i)\.(?:sh|bash|py|pl|rb|js|ts|go|rs|c|h|ya?ml|json|toml|ini|cnf|conf|cfg|xml|html?|md|sql"
    r"|service|properties|pub|crt|cer)$"
)
_PUBLIC_FILES = words("/etc/passwd /etc/passwd- /etc/pam.d/passwd")


class _Sink(NamedTuple):
    """A file or a program that takes credentials."""

    key: str
    certainty: Certainty
    variables: Sequence[str] = ()
    """The variables that a line is split into."""
    is_file: bool = False


_Literal = Word | tuple[int, int]
"""A word, or start and end of a here-document."""


@dataclass(slots=True)
class _Group:
    """The commands between parentheses or braces, or in a loop."""

    flowing: list[_Literal] = field(default_factory=list)
    """The text that reaches the end of the current pipeline."""
    written: list[_Literal] = field(default_factory=list)
    """The text that reached the ends of earlier pipelines."""
    is_piped: bool = False
    """Whether the next command reads the output of the last one."""
    reader: _Sink | None = None
    """The variables that a loop reads into."""


def may_feed_input(text: str) -> bool:
    """Return whether a script may pass text to a command or file (quick check)."""
    return _HINT.search(text) is not None


def redact_credentials(
    engine: Engine, text: str, commands: Iterable[Command | str], place: str
) -> dict[int, tuple[int, str]]:
    """Return the replacements in a script, by start: their end and text."""
    changes: dict[int, tuple[int, str]] = {}
    hidden = 0
    for literal, sink in _credential_inputs(commands):
        if isinstance(literal, Word):
            redacted = _redact_input(engine, literal.text, literal.quote, sink, place)
            if redacted is not None and redacted != literal.text:
                changes[literal.start] = literal.end, quoted(redacted, literal.quote)
        elif literal[0] >= hidden:
            # A here-document inside another one is part of the outer one.
            hidden = literal[1]
            for start, end in _values(text, literal, sink):
                redacted = _redact_input(engine, text[start:end], "", sink, place)
                if redacted is not None and redacted != text[start:end]:
                    changes[start] = end, redacted
    return changes


def _values(text: str, document: tuple[int, int], sink: _Sink) -> Iterator[tuple[int, int]]:
    """Yield start and end of a here-document's values: the whole body, or each line."""
    pos, end = document
    body = text[pos:end]
    if body.startswith("#!"):
        # A script.
        return
    for line in [body] if sink.is_file else body.splitlines(keepends=True):
        bare = line.strip()
        if bare:
            start = pos + line.index(bare)
            yield start, start + len(bare)
        pos += len(line)


def _redact_input(engine: Engine, value: str, quote: str, sink: _Sink, place: str) -> str | None:
    if (quote != "'" and _VARIABLE.fullmatch(value) is not None) or is_token(value):
        return None
    # A user has no slash: such a text, for example an argument of printf, is a password.
    if sink.key == "chpasswd" and ":" in value and "/" not in value.partition(":")[0]:
        user, _, password = value.partition(":")
        login = redact_login(engine, value, place, ":")
        return login or f"{user}:{replace_credential(engine, password, place)}"
    fields = value.split(maxsplit=max(len(sink.variables) - 1, 0))
    if len(fields) == len(sink.variables) > 1:
        return " ".join(
            replace_credential(engine, one, place)
            if must_replace(name, one, certainty_at(name))
            else one
            for name, one in zip(sink.variables, fields, strict=True)
        )
    if not must_replace(sink.key, value, sink.certainty):
        return None
    return replace_encoded(engine, value, place)


def _credential_inputs(commands: Iterable[Command | str]) -> Iterator[tuple[_Literal, _Sink]]:
    """Yield each text passed to a file or program that takes credentials, once."""
    groups = [_Group()]
    for command in commands:
        group = groups[-1]
        if command == "(":
            groups.append(_Group())
        elif command == ")":
            _close_group(groups)
            # Redirections may follow.
            groups[-1].is_piped = True
        elif isinstance(command, str):
            group.is_piped = command in {"|", "|&"} or (group.is_piped and command == "\n")
        else:
            yield from _read_command(command, groups)


def _read_command(command: Command, groups: list[_Group]) -> Iterator[tuple[_Literal, _Sink]]:
    plain = [word for word in command.words if not word.redirect]
    first = plain[0].text if plain else ""
    inputs: list[_Literal] = [word for word in command.words if word.redirect == "<<<"]
    inputs += command.documents
    is_end = first in {"}", "done"}
    if is_end:
        reader = groups[-1].reader
        _close_group(groups)
        if reader is not None:
            yield from ((literal, reader) for literal in inputs)
        inputs = []
    group = groups[-1]
    if not is_end and not group.is_piped:
        group.written = _concatenated(group.written, group.flowing)
        group.flowing = []
    group.is_piped = False
    pos = 0
    while pos < len(plain) and (
        plain[pos].text in _LEADING_WORDS or _ASSIGNED.fullmatch(plain[pos].text)
    ):
        pos += 1
    program = plain[pos].text.rpartition("/")[2] if pos < len(plain) else first
    arguments = plain[pos + 1 :]
    sink = _credential_reader(program, [word.text for word in arguments])
    if first in _LOOPS or first == "{":
        groups.append(_Group(reader=sink))
    group.flowing += inputs
    if sink is not None:
        yield from ((literal, sink) for literal in group.flowing)
    if program in {"echo", "printf"}:
        group.flowing = list(_echo_arguments(program, arguments))
    elif sink is not None or (program and program not in FILTERS and not is_end):
        group.flowing = []
    file = _written_file(command.words)
    if file is not None:
        yield from ((literal, file) for literal in group.flowing)
        group.flowing = []


def _close_group(groups: list[_Group]) -> None:
    """End a group: the output of its commands becomes the output of the enclosing group."""
    if len(groups) == 1:
        return
    group = groups.pop()
    groups[-1].flowing = _concatenated(
        group.written, _concatenated(group.flowing, groups[-1].flowing)
    )


def _concatenated(one: list[_Literal], other: list[_Literal]) -> list[_Literal]:
    """Return both lists as one, without a copy of the longer one."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    longer += shorter
    return longer


def _echo_arguments(program: str, arguments: Sequence[Word]) -> Iterator[Word]:
    texts = [word for word in arguments if _ECHO_OPTION.fullmatch(word.text) is None]
    if program == "printf" and len(texts) > 1 and "%" in texts[0].text:
        texts = texts[1:]
    yield from texts


def _credential_reader(program: str, arguments: Sequence[str]) -> _Sink | None:
    """Return the sink if a program reads a credential from its standard input, otherwise None."""
    if program == "read":
        names = [word for word in arguments if _NAME.fullmatch(word)]
        certainty = max(map(certainty_at, names), default=Certainty.NONE)
        return _Sink(names[-1], certainty, names) if certainty is not Certainty.NONE else None
    redacted = {program, *arguments}
    for key in STDIN_READERS & redacted:
        return _Sink("chpasswd" if "chpasswd" in redacted else key, Certainty.SURE)
    if program == "sudo" and any(map(_FROM_STDIN.fullmatch, arguments)):
        return _Sink(program, Certainty.SURE)
    if "-" in arguments[-1:] and not redacted.isdisjoint({"secret", "login"}):
        # docker secret create NAME -
        return _Sink(program, Certainty.SURE)
    return None


def _written_file(command: Sequence[Word]) -> _Sink | None:
    """Return the sink if a command writes to a file of credentials, otherwise None."""
    is_tee = False
    for word in command:
        if word.redirect in _WRITE_OPERATORS or (is_tee and not word.redirect):
            certainty = _certainty_of_file(word.text)
            if certainty is not Certainty.NONE:
                return _Sink(word.text.rpartition("/")[2], certainty, is_file=True)
        is_tee = is_tee or (not word.redirect and word.text in {"tee", "sponge"})
    return None


def _certainty_of_file(path: str) -> Certainty:
    folder, _, name = path.rpartition("/")
    if path in _PUBLIC_FILES or _DOCUMENT_NAME.search(name) is not None:
        return Certainty.NONE
    return certainty_at(name, certainty_inside(folder.rpartition("/")[2]))
