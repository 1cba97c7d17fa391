# SPDX-License-Identifier: Apache-2.0
"""Find credentials in command lines of containers and hooks, and in scripts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import mount_options, shell_input, shell_words
from .client_options import CLIENTS, GROUP_OPTION_PROGRAMS, ORACLE_CLIENTS, SHELLS, Client, Takes
from .credentials import REFERENCE, redact_keyed, redact_login, replace_credential, replace_keyed
from .key_names import Certainty, certainty_at, names_credential
from .known_values import SECRET_MIN
from .tokens import is_token
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine

_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]*")
_SCRIPT_FLAG = re.compile(r"-[a-zA-Z]*c")
_CLUSTER = re.compile(r"-[#0-9A-Za-z]{1,12}")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)(:[ \t]*)(.+)", re.DOTALL)
_ORACLE_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9_$#]*/)(\"[^\"]+\"|[^@/\s]+)(@.*)?", re.DOTALL)
_NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_CLIENT_NAMES = frozenset(CLIENTS)
# These options take user and password in every program that has them.
_LOGIN_FLAGS = frozenset({"-u", "--user", "--proxy-user"})
_ROUNDS = 4
_LONG_NAMES = words("pass passwd password passphrase pwd token secret auth")
"""Names of options that follow a single dash in some programs."""
_MAX_NESTED = 3
_MAX_POSITIONS = 8
"""Maximum number of words in which a credential is searched for by position."""
_MAX_DEPTH = 4


def redact_arguments(engine: Engine, args: Iterable[str], place: str) -> list[str]:
    """Redact a command line, word by word."""
    words = list(args)
    # A token that replaces a quote or a backslash may change where a word ends.
    for _ in range(_ROUNDS):
        before, words = words, _redact_words(engine, words, place)
        if words == before or engine.is_exhausted():
            break
    return words


def _redact_words(engine: Engine, words: list[str], place: str) -> list[str]:
    scripts = set(_script_indexes(words))
    redacted: list[str] = []
    for number, (word, credential) in enumerate(
        zip(words, redact_credentials(engine, words, place), strict=True)
    ):
        if engine.is_exhausted():
            redacted.append(engine.replace_rest(words[number:], place))
            break
        if credential is not None and credential != word:
            redacted.append(credential)
        elif number in scripts:
            redacted.append(engine.redact_text(redact_script(engine, word, place, 0), place))
        else:
            redacted.append(engine.redact_text(word, place))
    return redacted


def redact_commands(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact credentials in arguments of well-known programs, and in scripts. A finder."""
    is_script = " " in text and (names_client(text) or shell_input.may_feed_input(text))
    return redact_script(engine, text, place, depth) if is_script else text


def names_client(text: str) -> bool:
    """Return whether ``text`` names a program that takes credentials."""
    return not _CLIENT_NAMES.isdisjoint(_NAMES.findall(text))


def redact_script(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact a shell script."""
    if not engine.is_on("credential-keys") or depth > _MAX_DEPTH:
        return text
    parsed = list(shell_words.commands(text))
    changes = shell_input.redact_credentials(engine, text, parsed, place)
    pieces: list[str] = []
    pos = 0
    for command in parsed:
        if isinstance(command, str):
            continue
        replacements = redact_credentials(engine, [word.text for word in command.words], place)
        for word, credential in zip(command.words, replacements, strict=True):
            if word.start in changes:
                continue
            if credential is not None and credential != word.text:
                changes[word.start] = word.end, shell_words.quoted(credential, word.quote)
                continue
            if len(word.parts) > 1 and len(word.text) > 7:
                # 'it'"'"'s' is one text.
                redacted = engine.redact_text(word.text, place, depth + 1)
                if redacted != word.text:
                    changes[word.start] = word.end, shell_words.quoted(redacted, word.parts[0].mark)
                    continue
            for part in word.parts:
                redacted = (
                    engine.redact_text(part.text, place, depth + 1)
                    if len(part.text) > 7
                    else part.text
                )
                if redacted != part.text:
                    changes[part.start] = part.end, shell_words.quoted(redacted, part.mark)
    for start, (end, redacted) in sorted(changes.items()):
        if start >= pos:
            pieces += text[pos:start], redacted
            pos = end
    return "".join((*pieces, text[pos:]))


def _script_indexes(words: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of words that shells run as scripts."""
    shell_at = -1
    for number, word in enumerate(words):
        if word.rpartition("/")[2] in SHELLS:
            shell_at = number
        elif shell_at >= 0 and _SCRIPT_FLAG.fullmatch(words[number - 1]) is not None:
            yield number
            shell_at = -1


def redact_credentials(engine: Engine, words: Sequence[str], place: str) -> list[str | None]:
    """Return for each word its redacted form if it is or contains a credential, otherwise None."""
    redacted: list[str | None] = [None] * len(words)
    if (
        not engine.is_on("credential-keys")
        and not engine.rules.user_rules
        and not engine.is_on("nodes")
    ):
        return redacted
    client: Client | None = None
    program = flag = ""
    takes_group = False
    options = _NO_OPTIONS
    plain = [number for number, word in enumerate(words) if not word.startswith("-")]
    for number, word in enumerate(words):
        if not word or is_token(word):
            flag = ""
            continue
        redacted[number] = _redact_word(engine, word, flag, options, place, takes_group=takes_group)
        if (
            redacted[number] is None
            and number > 1
            # aws configure set aws_secret_access_key …
            and (words[number - 2] == "set" or options.get(words[number - 2]) is Takes.NAMED)
        ):
            redacted[number] = redact_keyed(engine, words[number - 1], word, place)
        name = word.rpartition("/")[2]
        if name in CLIENTS and not flag:
            client, program, takes_group = CLIENTS[name], name, name in GROUP_OPTION_PROGRAMS
            options = client.options if not client.within else _NO_OPTIONS
        elif client is not None and program in ORACLE_CLIENTS and not word.startswith("-"):
            redacted[number] = _redact_oracle_login(engine, word, place) or redacted[number]
        elif client is not None and word in client.within:
            options = client.options
        elif takes_group and not flag and word[0] != "-":
            before = words[number - 1].rpartition("/")[2]
            takes_group = word in GROUP_OPTION_PROGRAMS[program] and (
                before in {program, *GROUP_OPTION_PROGRAMS[program]}
            )
        flag = word if _FLAG.fullmatch(word) and redacted[number] is None else ""
        if client is not None:
            _redact_positions(engine, words, plain, number, client, redacted, place)
    return redacted


def _redact_positions(
    engine: Engine,
    words: Sequence[str],
    plain: Sequence[int],
    number: int,
    client: Client,
    redacted: list[str | None],
    place: str,
) -> None:
    """Replace words that are credentials due to their position after the word at ``number``.

    ``plain``: the indexes of the words that are not options.
    """
    positions = client.words.get(words[number].rpartition("/")[2])
    if positions is None:
        return
    begin = bisect_right(plain, number)
    further: Sequence[int]
    if words[number] == "use":
        # net use Z: \\server\share PASSWORD /user:NAME
        near = plain[begin : begin + _MAX_POSITIONS]
        share = next((pos for pos in near[:2] if words[pos].startswith("\\")), len(words))
        further = [pos for pos in near if pos > share and words[pos][0] not in "/*"]
    elif -1 in positions:
        further = plain[max(begin, len(plain) - 1) :]
    else:
        further = plain[begin : begin + _MAX_POSITIONS]
    for position in positions:
        if len(further) >= abs(position):
            pos = further[position - 1 if position > 0 else position]
            word = words[pos]
            if redacted[pos] is None and not is_token(word) and not REFERENCE.fullmatch(word):
                key, equals, value = word.partition("=")
                redacted[pos] = (
                    f"{key}={replace_credential(engine, value, place)}"
                    if equals and value and names_credential(key)
                    else replace_credential(engine, word, place)
                )


def _redact_word(
    engine: Engine,
    word: str,
    flag: str,
    options: dict[str, Takes],
    place: str,
    *,
    takes_group: bool,
) -> str | None:
    if flag and (not _FLAG.fullmatch(word) or _is_dashed_credential(flag, word)):
        takes = options.get(flag)
        if takes is None and options and _CLUSTER.fullmatch(flag):
            takes = options.get(f"-{flag[-1]}")
        if takes is not None and takes is not Takes.GLUED:
            return _redact_value(engine, takes, word, place)
        redacted = redact_keyed(engine, flag.lstrip("-"), word, place)
        if redacted is None and flag in _LOGIN_FLAGS and not takes_group:
            redacted = redact_login(engine, word, place, ":")
        if redacted is not None:
            return redacted
    if word[0] in "-/" and options:
        redacted = _redact_joined(engine, options, word, place)
        if redacted is not None:
            return redacted
    if takes_group and word.partition("=")[0] in _LOGIN_FLAGS:
        return None
    return _redact_assignment(engine, word, place, _MAX_NESTED)


def _redact_joined(engine: Engine, options: dict[str, Takes], word: str, place: str) -> str | None:
    """Redact an option and its value in one word; return None if there is no credential."""
    sign = ":" if word[0] == "/" else "="
    key, _, value = word.partition(sign)
    takes = options.get(key)
    if value and takes is not None and (sign == ":" or key.startswith("--") or len(key) > 2):
        redacted = _redact_value(engine, takes, value, place)
        return None if redacted is None else f"{key}{sign}{redacted}"
    if sign == ":":
        return None
    for length in 2, 3:
        takes = options.get(word[:length])
        rest = word[length:]
        if takes is not None and rest and rest[0] not in "=-" and not word.startswith("--"):
            if length > 2 and takes is not Takes.GLUED:
                return None
            if takes is Takes.SECRET and (rest.isdigit() or word in options):
                return None
            if word[1:] in _LONG_NAMES:
                # influx -password …
                return None
            redacted = _redact_value(engine, takes, rest, place)
            return None if redacted is None else word[:length] + redacted
    return None


def _redact_value(engine: Engine, takes: Takes, value: str, place: str) -> str | None:
    if not value or is_token(value) or REFERENCE.fullmatch(value) is not None:
        return None
    match takes:
        case Takes.LOGIN | Takes.CERTIFICATE:
            return redact_login(engine, value, place, ":")
        case Takes.PERCENT:
            return redact_login(engine, value, place, "%")
        case Takes.COMMA:
            return redact_login(engine, value, place, ",")
        case Takes.SOURCE:
            if value.startswith("pass:") and len(value) > len("pass:"):
                secret = value.removeprefix("pass:")
                return (
                    None
                    if is_token(secret)
                    else "pass:" + replace_credential(engine, secret, place)
                )
            return None
        case Takes.HEADER:
            return _redact_header(engine, value, place)
        case Takes.NAMED:
            return None
        case Takes.MOUNT:
            redacted = mount_options.redact_credentials(engine, value, place)
            return None if redacted == value else redacted
        case Takes.COOKIE:
            return replace_credential(engine, value, place) if "=" in value else None
        case Takes.ASSIGNED:
            key, equals, secret = value.partition("=")
            if not equals or not secret or is_token(secret):
                return None
            return f"{key}={replace_credential(engine, secret, place)}"
        case _:
            return replace_credential(engine, value, place)


def _redact_header(engine: Engine, text: str, place: str) -> str | None:
    """Redact an HTTP header; return None if there is no credential."""
    found = _HEADER.fullmatch(text)
    if found is None or certainty_at(found[1]) is Certainty.NONE:
        return None
    value = found[3]
    return (
        None
        if is_token(value)
        else found[1] + found[2] + replace_keyed(engine, found[1], value, place)
    )


def _redact_oracle_login(engine: Engine, word: str, place: str) -> str | None:
    found = _ORACLE_LOGIN.fullmatch(word)
    if found is None or is_token(found[2]):
        return None
    return found[1] + replace_credential(engine, found[2], place) + (found[3] or "")


def _redact_assignment(engine: Engine, word: str, place: str, nested: int) -> str | None:
    """Redact ``--key=value``, ``NAME=value``, ``--env=NAME=value``; None without credentials."""
    for pattern in _OPTION, _ASSIGNED:
        option = pattern.fullmatch(word)
        if option is None:
            continue
        redacted = redact_keyed(engine, option[1].lstrip("-"), option[2], place)
        if redacted is None and option[1] in _LOGIN_FLAGS:
            redacted = redact_login(engine, option[2], place, ":")
        if redacted is None and nested:
            redacted = _redact_assignment(engine, option[2], place, nested - 1)
        if redacted is not None:
            return f"{option[1]}={redacted}"
    return None


def _is_dashed_credential(flag: str, arg: str) -> bool:
    """Return whether ``arg`` is more likely the credential expected by ``flag`` than an option."""
    return (
        names_credential(flag.lstrip("-"))
        and len(arg) >= SECRET_MIN
        and any(c.isdigit() for c in arg)
        and not arg.startswith("--")
    )


_NO_OPTIONS: dict[str, Takes] = {}
