# SPDX-License-Identifier: Apache-2.0
"""Find credentials in command lines of containers and hooks, and in scripts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import mount_options, shell_input, shell_words
from .client_options import CLIENTS, GROUPS, ORACLE, SHELLS, Client, Takes
from .credentials import REFERENCE, keyed_text, login, put, put_for
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
_ORACLE = re.compile(r"([A-Za-z][A-Za-z0-9_$#]*/)(\"[^\"]+\"|[^@/\s]+)(@.*)?", re.DOTALL)
_NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_KNOWN = frozenset(CLIENTS)
# These options take user and password in every program that supports them.
_LOGINS = frozenset({"-u", "--user", "--proxy-user"})
_ROUNDS = 4
_LONG_NAMES = words("pass passwd password passphrase pwd token secret auth")
"""Names of options that follow a single dash in some programs."""
_NESTED = 3
_NEAR = 8
"""The number of words after which a position is no longer asked for."""
_DEEPEST = 4


def arguments(engine: Engine, args: Iterable[str], place: str) -> list[str]:
    """Redact a command line, word by word."""
    words = list(args)
    # A token that replaces a quote or a backslash may change where a word ends.
    for _ in range(_ROUNDS):
        before, words = words, _arguments(engine, words, place)
        if words == before or engine.is_spent():
            break
    return words


def _arguments(engine: Engine, words: list[str], place: str) -> list[str]:
    scripts = set(_scripts(words))
    given: list[str] = []
    for number, (word, credential) in enumerate(
        zip(words, credentials(engine, words, place), strict=True)
    ):
        if engine.is_spent():
            given.append(engine.rest(words[number:], place))
            break
        if credential is not None and credential != word:
            given.append(credential)
        elif number in scripts:
            given.append(engine.text(script(engine, word, place, 0), place))
        else:
            given.append(engine.text(word, place))
    return given


def commands(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact credentials in arguments of well-known programs, and in scripts. A finder."""
    is_script = " " in text and (names_client(text) or shell_input.hands_over(text))
    return script(engine, text, place, depth) if is_script else text


def names_client(text: str) -> bool:
    """Return whether ``text`` names a program that takes credentials."""
    return not _KNOWN.isdisjoint(_NAMES.findall(text))


def script(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact a shell script."""
    if not engine.is_on("credential-keys") or depth > _DEEPEST:
        return text
    parsed = list(shell_words.commands(text))
    changes = shell_input.credentials(engine, text, parsed, place)
    pieces: list[str] = []
    at = 0
    for command in parsed:
        if isinstance(command, str):
            continue
        told = credentials(engine, [word.text for word in command.words], place)
        for word, credential in zip(command.words, told, strict=True):
            if word.start in changes:
                continue
            if credential is not None and credential != word.text:
                changes[word.start] = word.end, shell_words.quoted(credential, word.quote)
                continue
            if len(word.parts) > 1 and len(word.text) > 7:
                # 'it'"'"'s' is one text.
                given = engine.text(word.text, place, depth + 1)
                if given != word.text:
                    changes[word.start] = word.end, shell_words.quoted(given, word.parts[0].mark)
                    continue
            for part in word.parts:
                given = (
                    engine.text(part.text, place, depth + 1) if len(part.text) > 7 else part.text
                )
                if given != part.text:
                    changes[part.start] = part.end, shell_words.quoted(given, part.mark)
    for start, (end, given) in sorted(changes.items()):
        if start >= at:
            pieces += text[at:start], given
            at = end
    return "".join((*pieces, text[at:]))


def _scripts(words: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of words that shells run as scripts."""
    shell_at = -1
    for number, word in enumerate(words):
        if word.rpartition("/")[2] in SHELLS:
            shell_at = number
        elif shell_at >= 0 and _SCRIPT_FLAG.fullmatch(words[number - 1]) is not None:
            yield number
            shell_at = -1


def credentials(engine: Engine, words: Sequence[str], place: str) -> list[str | None]:
    """Return for each word its redacted form if it is or contains a credential, otherwise None."""
    given: list[str | None] = [None] * len(words)
    if not engine.is_on("credential-keys") and not engine.rules.rules and not engine.is_on("nodes"):
        return given
    client: Client | None = None
    program = flag = ""
    takes_group = False
    options = _NONE
    plain = [number for number, word in enumerate(words) if not word.startswith("-")]
    for number, word in enumerate(words):
        if not word or is_token(word):
            flag = ""
            continue
        given[number] = _word(engine, word, flag, options, place, takes_group=takes_group)
        if (
            given[number] is None
            and number > 1
            # aws configure set aws_secret_access_key …
            and (words[number - 2] == "set" or options.get(words[number - 2]) is Takes.NAMED)
        ):
            given[number] = keyed_text(engine, words[number - 1], word, place)
        name = word.rpartition("/")[2]
        if name in CLIENTS and not flag:
            client, program, takes_group = CLIENTS[name], name, name in GROUPS
            options = client.options if not client.within else _NONE
        elif client is not None and program in ORACLE and not word.startswith("-"):
            given[number] = _oracle(engine, word, place) or given[number]
        elif client is not None and word in client.within:
            options = client.options
        elif takes_group and not flag and word[0] != "-":
            before = words[number - 1].rpartition("/")[2]
            takes_group = word in GROUPS[program] and (before in {program, *GROUPS[program]})
        flag = word if _FLAG.fullmatch(word) and given[number] is None else ""
        if client is not None:
            _positions(engine, words, plain, number, client, given, place)
    return given


def _positions(
    engine: Engine,
    words: Sequence[str],
    plain: Sequence[int],
    number: int,
    client: Client,
    given: list[str | None],
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
        near = plain[begin : begin + _NEAR]
        share = next((at for at in near[:2] if words[at].startswith("\\")), len(words))
        further = [at for at in near if at > share and words[at][0] not in "/*"]
    elif -1 in positions:
        further = plain[max(begin, len(plain) - 1) :]
    else:
        further = plain[begin : begin + _NEAR]
    for position in positions:
        if len(further) >= abs(position):
            at = further[position - 1 if position > 0 else position]
            word = words[at]
            if given[at] is None and not is_token(word) and not REFERENCE.fullmatch(word):
                key, equals, value = word.partition("=")
                given[at] = (
                    f"{key}={put(engine, value, place)}"
                    if equals and value and names_credential(key)
                    else put(engine, word, place)
                )


def _word(
    engine: Engine,
    word: str,
    flag: str,
    options: dict[str, Takes],
    place: str,
    *,
    takes_group: bool,
) -> str | None:
    if flag and (not _FLAG.fullmatch(word) or _is_no_option(flag, word)):
        takes = options.get(flag)
        if takes is None and options and _CLUSTER.fullmatch(flag):
            takes = options.get(f"-{flag[-1]}")
        if takes is not None and takes is not Takes.GLUED:
            return _taken(engine, takes, word, place)
        given = keyed_text(engine, flag.lstrip("-"), word, place)
        if given is None and flag in _LOGINS and not takes_group:
            given = login(engine, word, place, ":")
        if given is not None:
            return given
    if word[0] in "-/" and options:
        given = _glued(engine, options, word, place)
        if given is not None:
            return given
    if takes_group and word.partition("=")[0] in _LOGINS:
        return None
    return _assigned(engine, word, place, _NESTED)


def _glued(engine: Engine, options: dict[str, Takes], word: str, place: str) -> str | None:
    """Redact an option and its value in one word; return None if there is no credential."""
    sign = ":" if word[0] == "/" else "="
    key, _, value = word.partition(sign)
    takes = options.get(key)
    if value and takes is not None and (sign == ":" or key.startswith("--") or len(key) > 2):
        given = _taken(engine, takes, value, place)
        return None if given is None else f"{key}{sign}{given}"
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
            given = _taken(engine, takes, rest, place)
            return None if given is None else word[:length] + given
    return None


def _taken(engine: Engine, takes: Takes, value: str, place: str) -> str | None:
    if not value or is_token(value) or REFERENCE.fullmatch(value) is not None:
        return None
    match takes:
        case Takes.LOGIN | Takes.CERTIFICATE:
            return login(engine, value, place, ":")
        case Takes.PERCENT:
            return login(engine, value, place, "%")
        case Takes.COMMA:
            return login(engine, value, place, ",")
        case Takes.SOURCE:
            if value.startswith("pass:") and len(value) > len("pass:"):
                secret = value.removeprefix("pass:")
                return None if is_token(secret) else "pass:" + put(engine, secret, place)
            return None
        case Takes.HEADER:
            return header(engine, value, place)
        case Takes.NAMED:
            return None
        case Takes.MOUNT:
            given = mount_options.credentials(engine, value, place)
            return None if given == value else given
        case Takes.COOKIE:
            return put(engine, value, place) if "=" in value else None
        case Takes.ASSIGNED:
            key, equals, secret = value.partition("=")
            if not equals or not secret or is_token(secret):
                return None
            return f"{key}={put(engine, secret, place)}"
        case _:
            return put(engine, value, place)


def header(engine: Engine, text: str, place: str) -> str | None:
    """Redact an HTTP header; return None if there is no credential."""
    found = _HEADER.fullmatch(text)
    if found is None or certainty_at(found[1]) is Certainty.NONE:
        return None
    value = found[3]
    return (
        None if is_token(value) else found[1] + found[2] + put_for(engine, found[1], value, place)
    )


def _oracle(engine: Engine, word: str, place: str) -> str | None:
    found = _ORACLE.fullmatch(word)
    if found is None or is_token(found[2]):
        return None
    return found[1] + put(engine, found[2], place) + (found[3] or "")


def _assigned(engine: Engine, word: str, place: str, nested: int) -> str | None:
    """Redact ``--key=value``, ``NAME=value``, ``--env=NAME=value``; None without credentials."""
    for pattern in _OPTION, _ASSIGNED:
        option = pattern.fullmatch(word)
        if option is None:
            continue
        given = keyed_text(engine, option[1].lstrip("-"), option[2], place)
        if given is None and option[1] in _LOGINS:
            given = login(engine, option[2], place, ":")
        if given is None and nested:
            given = _assigned(engine, option[2], place, nested - 1)
        if given is not None:
            return f"{option[1]}={given}"
    return None


def _is_no_option(flag: str, arg: str) -> bool:
    """Return whether ``arg`` is more likely the credential expected by ``flag`` than an option."""
    return (
        names_credential(flag.lstrip("-"))
        and len(arg) >= SECRET_MIN
        and any(c.isdigit() for c in arg)
        and not arg.startswith("--")
    )


_NONE: dict[str, Takes] = {}
