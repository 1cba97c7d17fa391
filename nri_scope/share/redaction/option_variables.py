# SPDX-License-Identifier: Apache-2.0
"""Redact variables with options or settings, such as ``JAVA_OPTS``, ``RUST_LOG``, part by part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import commands
from .harmless import is_plain, is_plain_path
from .key_names import Certainty, certainty_at
from .known_values import Strength
from .tokens import is_token

if TYPE_CHECKING:
    from .engine import Engine

_MAX_LENGTH = 4_096
_OPTIONS_NAME = re.compile(
    r"(?i)(?:.*_)?(?:[a-z]*opts?|options?|[a-z]*flags|args|arguments|params|parameters)"
)
_OPTION = re.compile(
    r"-XX:[+-]?[A-Za-z0-9]{1,60}|-{1,2}[A-Za-z][A-Za-z.+-]{0,60}(?:[0-9]{1,10}[A-Za-z]?)?"
)
# -Djava.net.preferIPv4Stack=true
_OPTION_NAME = re.compile(
    r"-[D-][A-Za-z][A-Za-z._-]{0,60}(?:[0-9]{1,2}[A-Za-z._-]{1,30}){0,3}[0-9]{0,2}"
)
# -javaagent:/opt/agent.jar
_COLON = re.compile(r"(-[A-Za-z]{1,30}:|-[A-Z])(/.*)", re.DOTALL)
_PAIR = re.compile(r"([^=]{1,200})=(.*)", re.DOTALL)
_NAME = re.compile(
    r"[A-Za-z_*][A-Za-z_]{0,30}[0-9]{0,2}(?:(?:::|[._:/@*-])[A-Za-z_*][A-Za-z_]{0,30}[0-9]{0,2}){0,12}"
)
_WORD = re.compile(r"[a-z]{1,14}|[A-Z]{1,14}|[A-Z][a-z]{1,13}")
_SEPARATOR = re.compile(r"([ \t\n]+|[,;])")


def redact_option_variable(engine: Engine, name: str, value: str, place: str) -> str | None:
    """Redact options or settings; return None if the value is neither."""
    if len(value) > _MAX_LENGTH:
        return None
    if _OPTIONS_NAME.fullmatch(name) is not None and value.lstrip()[:1] in {"-", "+"}:
        return _redact_options(engine, value, place)
    return _redact_settings(engine, value, place) if "=" in value else None


def _redact_options(engine: Engine, value: str, place: str) -> str | None:
    pieces = re.split(r"(\s+)", value)
    words = pieces[::2]
    credentials = commands.redact_credentials(engine, words, place)
    for number, word in enumerate(words):
        credential = credentials[number]
        if credential is not None:
            pieces[2 * number] = credential
            continue
        pair = _PAIR.fullmatch(word)
        option = pair[1] if pair is not None else word
        colon = _COLON.fullmatch(word) if pair is None else None
        if colon is not None:
            pieces[2 * number] = colon[1] + _redact_part(engine, colon[2], place)
            continue
        redacted = (
            word
            if not word
            or _OPTION.fullmatch(option) is not None
            or (pair is not None and _OPTION_NAME.fullmatch(option) is not None)
            or is_token(option)
            else _redact_part(engine, word, place)
        )
        if redacted == word and pair is not None:
            redacted = f"{option}={_redact_part(engine, pair[2], place)}"
        pieces[2 * number] = redacted
    return engine.redact_text("".join(pieces), place)


def _redact_part(engine: Engine, value: str, place: str) -> str:
    """Return one value of several: unchanged if plain, otherwise replaced."""
    if (
        not value
        or is_token(value)
        or is_plain(value)
        or is_plain_path(value)
        or _WORD.fullmatch(value) is not None
        or engine.known.is_visible(value, engine.scope.pod)
    ):
        return value
    return engine.replace_whole("env-values", value, Strength.PRIVATE, place)


def _redact_settings(engine: Engine, value: str, place: str) -> str | None:
    """Redact ``info,foo=debug``: names with plain values, and single plain values."""
    pieces = _SEPARATOR.split(value)
    for number in range(0, len(pieces), 2):
        piece = pieces[number]
        pair = _PAIR.fullmatch(piece)
        if pair is None:
            if piece and not is_plain(piece) and not is_token(piece):
                return None
            continue
        if _NAME.fullmatch(pair[1]) is None:
            return None
        if certainty_at(pair[1]) is not Certainty.NONE:
            # The text after a comma may be part of the credential.
            return None
        if not (is_plain(pair[2]) or is_token(pair[2])) or not pair[2]:
            return None
    return engine.redact_text(value, place)
