# SPDX-License-Identifier: Apache-2.0
"""Redact text of any syntax: keep what is known to be harmless, and replace the rest.

A text is cut at spaces, quotes and separators. Each chunk between them stays if it is harmless, or
a name that is shown; else it becomes a token. What follows a key that names a credential is
replaced as a whole, whatever it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .builtin import BuiltIn
from .engine import Engine
from .harmless import ENDINGS, UNIT_ENDINGS, is_harmless
from .key_names import Certainty, must_replace, names_attribute
from .key_values import QUOTE, SCHEME, SECRET_DATA, value_after
from .tokens import PLAIN_TOKEN, TOKEN_PREFIX, address_of, is_local, is_token, is_token_address

_IN_CHUNK = r"[^\s\"'`=:,;?()\[\]{}<>|&/\\]"
# For example zq7x!
_CHUNK = re.compile(
    rf"\\(?<!\\\\)\\*+(?:u[0-9A-Fa-f]{{4}}|(?!redacted-)[nrtbf])|{PLAIN_TOKEN}(?!{_IN_CHUNK})"
    rf"|({_IN_CHUNK}+)"
)
"""An escape or a token, which stay; or else a chunk."""
# For example 0000:3b:00.1
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# For example sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
_DIGEST = re.compile(r"sha(?:256|512):[0-9a-f]{64}")
# For example redacted-abcdefgh2345
_TOKEN = re.compile(PLAIN_TOKEN)
# For example 2001:db8:0:1:2:3:4:5
_IPV6_TOKEN = re.compile(r"2001:[dD][bB]8:[0-9A-Fa-f:]*")
# For example - name: web
_ITEM_PREFIX = re.compile(r"[ \t]*(?:- )*[ \t]*")
# For example log.level = debug
_PAIR_IN_LINE = re.compile(rf"{QUOTE}?[\w./-]{{1,100}}{QUOTE}?[ \t]*(?::(?=\s)|=)[ \t]*")
# For example 'two words'
_MEMBER = re.compile(rf"(?P<quote>{QUOTE})(?P<text>.*?)(?P=quote)|[^\s,:=\[\]{{}}\"'`]+", re.DOTALL)
# For example : 5
_MEMBER_KEY = re.compile(r"[ \t]*[:=]")
# For example -----BEGIN KEY-----MIIB-----END KEY-----
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)", re.DOTALL
)
# For example https://db.example.com/x
_URL = re.compile(r"(?<=://)(?:(?!://)[^\s\"'<>\\])++")
# For example 8080/x
_PORT = re.compile(r"[0-9]{1,5}(?:/|\Z)")
# For example user:pass@host
_LOGIN = re.compile(
    r"(?<![^\s\"'=,(\[])([^\s:/@\"'=,]{1,64})(:)([^\s\"'@,/]{1,200})(?=@(?!sha[0-9]{3}:)[A-Za-z0-9(\[])"
)
# In each address; they begin with a separator, which is found faster than what is before it.
# For example .0.0.1
_THREE_DOTS = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
# For example :db8:
_TWO_COLONS = re.compile(r":[0-9A-Fa-f]{0,4}:")
# For example 10.0.0.1
_DOTTED4 = re.compile(
    r"(?<![0-9A-Za-z.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z]|\.[0-9A-Za-z])"
)
# For example fe80::1
_COLONS6 = re.compile(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,36}(?:[0-9.]{7,15})?(?![0-9A-Za-z:])"
)
# For example db.example.com
_HOST = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.){1,9}[A-Za-z]{2,20}")
# For example me@example.com
_MAIL = re.compile(
    r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,9}([A-Za-z][A-Za-z0-9-]{0,62})"
)
# For example --log-level
_LETTERS_KEY = re.compile(r"-{0,2}[A-Za-z_]{1,24}(?:[.-][A-Za-z_]{1,24}){0,5}[0-9]{0,2}")
# For example =debug
_IS_KEY = re.compile(rf"=(?![=\s]|$)|{QUOTE}[ \t]*:")
_HOMES = ("/home/", "/Users/", "\\Users\\")
# For example _
_JOINT = re.compile(r"[_@.]")
_MAX_ORDINARY, _MAX_ORDINARY_CHUNK = 65_536, 60
"""Maximum number of chunks in `Engine.ordinary`, and of the characters of each."""


def redact_text(engine: Engine, text: str, place: str) -> str:
    """Return ``text`` with tokens in it."""
    text = _redact_formats(engine, text, place)
    pieces: list[str] = []
    done = 0
    ordinary = set() if "/home/" in text or "Users" in text else engine.ordinary
    chunks = _chunks(text, 0, ordinary)
    while (match := next(chunks, None)) is not None:
        chunk, pos = match[1], match.end()
        certainty = engine.certainty_of(chunk)
        if chunk in SECRET_DATA and "Secret" in text:
            certainty = Certainty.SURE
        if certainty:
            value = value_after(text, match.start(1), pos, chunk, certainty)
            if value is not None:
                begin, end = value.begin, value.end
                original = text[begin:end]
                if value.members:
                    redact = _redact_lines if value.members == "lines" else _redact_group
                    shown = redact(engine, original, place, chunk, certainty)
                elif must_replace(chunk, original, certainty):
                    shown = engine.replace(BuiltIn.CREDENTIAL_KEYS, original, place)
                else:
                    continue
                key = _redact_key(engine, text, match.start(1), chunk, place)
                pieces += text[done : match.start(1)], key, text[match.end() : begin], shown
                done = end
                chunks = _chunks(text, end, ordinary)
                continue
        redacted = _redact_chunk(engine, text, match.start(1), chunk, place)
        if redacted is not chunk:
            pieces += text[done : match.start(1)], redacted
            done = pos
        elif not certainty and _is_ordinary(engine, chunk):
            engine.ordinary.add(chunk)
    text = "".join((*pieces, text[done:]))
    return engine.redact_hidden_names(text, place, engine.repeated)


def _chunks(text: str, pos: int, ordinary: set[str]) -> Iterator[re.Match[str]]:
    """Yield the chunks from a position on, but for ordinary ones.

    What is between two double quotes is often a key or syntax, and repeated as a whole.
    """
    size = len(text)
    while pos < size:
        end = text.find('"', pos)
        if end < 0:
            end = size
        piece = text[pos:end] if end - pos <= _MAX_ORDINARY_CHUNK else ""
        if not piece or piece not in ordinary:
            is_ordinary = bool(piece)
            for one in _CHUNK.finditer(text, pos, end):
                if one[1] not in ordinary and one[1]:
                    is_ordinary = False
                    yield one
            if is_ordinary and len(ordinary) < _MAX_ORDINARY:
                ordinary.add(piece)
        pos = end + 1


def _is_ordinary(engine: Engine, chunk: str) -> bool:
    """Return whether a chunk that is no key stays in each text, except after a folder of homes."""
    is_over = len(chunk) > _MAX_ORDINARY_CHUNK or len(engine.ordinary) >= _MAX_ORDINARY
    if is_over or "@" in chunk or chunk in SECRET_DATA or engine.must_go(chunk.strip(".!?,")):
        return False
    bare = chunk.rstrip(".")
    if _is_host(bare):
        return engine.is_allowed_host(bare)
    # For example io.containerd.grpc.v1.cri
    return is_harmless(chunk) or all(map(is_harmless, _JOINT.split(bare)))


def _redact_key(engine: Engine, text: str, start: int, key: str, place: str) -> str:
    """Return the key of a credential, which stays, unless a token of a service looks like one."""
    is_name = is_harmless(key) or _LETTERS_KEY.fullmatch(key) is not None or not key.isascii()
    return engine.keep(key) if is_name else _redact_chunk(engine, text, start, key, place)


def redact_keyed(engine: Engine, key: str, value: str, place: str) -> str:
    """Return the redacted value of a variable, an annotation, an option or a member."""
    if not must_replace(key, value, engine.certainty_of(key)):
        return engine.redact_text(value, place)
    scheme = SCHEME.match(value)
    begin = scheme.end() if scheme is not None and "auth" in key.lower() else 0
    return value[:begin] + engine.replace(BuiltIn.CREDENTIAL_KEYS, value[begin:], place)


def _redact_lines(engine: Engine, text: str, place: str, key: str, certainty: Certainty) -> str:
    """Redact the values in the lines of a list or map that is the value of a key."""
    lines: list[str] = []
    for line in text.split("\n"):
        prefix = _ITEM_PREFIX.match(line)
        begin = 0 if prefix is None else prefix.end()
        pair = _PAIR_IN_LINE.match(line, begin)
        if pair is not None and "=" in pair[0] and "- " in line[:begin]:
            # An item of a list in YAML.
            pair = None
        begin = begin if pair is None else pair.end()
        end = len(line)
        quote = line[begin : begin + 1]
        if quote and quote in "\"'" and line.rstrip().endswith(quote) and end > begin + 1:
            begin, end = begin + 1, len(line.rstrip()) - 1
        value = line[begin:end]
        is_attribute = pair is not None and names_attribute(pair[0].rstrip("\"' :=\t"))
        if is_attribute and key not in SECRET_DATA:
            value = engine.redact_text(value, place)
        elif must_replace(key, value, certainty):
            value = engine.replace(BuiltIn.CREDENTIAL_KEYS, value, place)
        lines.append(line[:begin] + value + line[end:])
    return "\n".join(lines)


def _redact_group(engine: Engine, text: str, place: str, key: str, certainty: Certainty) -> str:
    """Redact the members of a list or map that is the value of a key."""
    pieces: list[str] = []
    done = 0
    for member in _MEMBER.finditer(text):
        group = "text" if member["quote"] else 0
        original = member[group]
        if _MEMBER_KEY.match(text, member.end()) is None and must_replace(key, original, certainty):
            token = engine.replace(BuiltIn.CREDENTIAL_KEYS, original, place)
            pieces += text[done : member.start(group)], token
            done = member.end(group)
    return "".join((*pieces, text[done:]))


# -- what is recognized by its form ---------------------------------------------------------


def _redact_formats(engine: Engine, text: str, place: str) -> str:
    """Redact what separators would cut: private keys, logins in URLs, addresses."""

    def login_of_url(match: re.Match[str]) -> str:
        url: str = match[0]
        end = url.partition("/")[0].rfind("@")
        if end < 0:
            # A password with a slash; not host:port/image@digest.
            user, colon, rest = url.partition(":")
            end = url.find("@")
            if not colon or "/" in user or "[" in user or end < 0 or _PORT.match(rest):
                return url
        login = hide(*url[:end].partition(":"))
        return f"{login}{url[end:]}"

    def hide(user: str, colon: str, password: str) -> str:
        if not colon:
            user, password = "", user
        if user and not (is_token(user) or is_harmless(user)):
            user = engine.replace(BuiltIn.URL_PASSWORDS, user, place)
        if password and not is_token(password):
            password = engine.replace(BuiltIn.URL_PASSWORDS, password, place)
        return f"{user}{colon}{password}"

    if "-----BEGIN " in text:
        text = _PEM.sub(
            lambda found: engine.replace(BuiltIn.CREDENTIAL_KEYS, found[0], place), text
        )
    if "@" in text:
        text = _URL.sub(login_of_url, text)
        text = _LOGIN.sub(lambda found: hide(*found.groups()), text)
    for hint, pattern in (_THREE_DOTS, _DOTTED4), (_TWO_COLONS, _COLONS6):
        if hint.search(text) is not None and engine.is_on(BuiltIn.ADDRESSES):
            text = pattern.sub(lambda found: redact_address(engine, found[0], place), text)
    return text


def redact_address(engine: Engine, text: str, place: str) -> str:
    """Replace an IP address; return loopback and unspecified addresses and other text unchanged."""
    is_address = address_of(text) is not None and any(map(str.isdigit, text))
    if not is_address or is_local(text) or is_token_address(text):
        return text
    return engine.replace(BuiltIn.ADDRESSES, text, place)


def _redact_chunk(engine: Engine, text: str, start: int, chunk: str, place: str) -> str:
    """Return a chunk of a text, or its token. An unchanged one is the same object."""
    if "@" in chunk:
        login, _, rest = chunk.rpartition("@")
        if is_token(login) and rest:
            # The rest of a URL.
            shown = _redact_chunk(engine, text, start + len(login) + 1, rest, place)
            return chunk if shown is rest else f"{login}@{shown}"
        if (mail := _redact_mail(engine, chunk, place)) is not None:
            return mail
    if "." in chunk and (host := _redact_host(engine, chunk, place)) is not None:
        return host
    if text.endswith(_HOMES, 0, start) and engine.is_on(BuiltIn.USER_PATHS):
        if TOKEN_PREFIX in chunk or engine.is_shown(chunk):
            return chunk
        return engine.replace(BuiltIn.USER_PATHS, chunk, place)
    if engine.must_go(chunk.strip(".!?,")):
        return engine.replace("rules-file", chunk, place)
    if is_harmless(chunk) or _is_kept(engine, text, start, chunk):
        return chunk
    rest = chunk.lstrip("-+~@.")
    # Of a command in a shell: zq7$(…)
    is_command = text.startswith(("(", "{"), start + len(chunk))
    bare = rest.rstrip(".!?,$" if is_command else ".!?,")
    before, after = chunk[: len(chunk) - len(rest)], rest[len(bare) :]
    return before + engine.replace(BuiltIn.UNKNOWN_WORDS, bare, place) + after


def _is_kept(engine: Engine, text: str, start: int, chunk: str) -> bool:
    """Return whether a chunk that is not harmless by itself stays where it is."""
    bare = chunk.strip(".!?,")
    end = start + len(chunk)
    if engine.is_shown(bare) or is_token(bare):
        return True
    is_at_colon = ":" in {text[start - 1 : start], text[end : end + 1]} and bare.isalnum()
    if is_at_colon and (
        any(_PCI.match(text, start - back) for back in (0, 5, 8) if start >= back)
        or (start > 6 and _DIGEST.fullmatch(text[start - 7 : end]) is not None)
        or any(
            one.start() <= start < one.end()
            for one in _IPV6_TOKEN.finditer(text, max(0, start - 40), end + 1)
        )
    ):
        return True
    if _LETTERS_KEY.fullmatch(chunk) is not None and (
        _IS_KEY.match(text, end) is not None or text.endswith("</", 0, start)
    ):
        engine.keep(chunk)
        return True
    head, joint, tail = bare.rpartition("-")
    if joint and is_harmless(head) and engine.is_shown(tail):
        # cri-containerd-ID
        return True
    parts = _JOINT.split(_TOKEN.sub("", bare) if TOKEN_PREFIX in bare else bare)
    return (len(parts) > 1 or TOKEN_PREFIX in bare) and all(
        is_harmless(part) or engine.is_shown(part.strip("-")) for part in parts
    )


def _redact_mail(engine: Engine, chunk: str, place: str) -> str | None:
    bare = chunk.rstrip(".")
    mail = _MAIL.fullmatch(bare)
    is_not_mail = mail is None or mail[1].lower() in UNIT_ENDINGS or TOKEN_PREFIX in bare
    if is_not_mail or not engine.is_on(BuiltIn.EMAILS):
        return None
    return engine.replace(BuiltIn.EMAILS, bare, place) + chunk[len(bare) :]


def _is_host(bare: str) -> bool:
    return bare.rpartition(".")[2].lower() in ENDINGS and _HOST.fullmatch(bare) is not None


def _redact_host(engine: Engine, chunk: str, place: str) -> str | None:
    bare = chunk.rstrip(".")
    if not _is_host(bare) or TOKEN_PREFIX in bare or engine.is_shown(bare):
        return None
    if not engine.is_on(BuiltIn.HOST_NAMES) or engine.is_allowed_host(bare):
        return chunk
    return engine.replace(BuiltIn.HOST_NAMES, bare, place) + chunk[len(bare) :]
