# SPDX-License-Identifier: Apache-2.0
"""Redact text of any syntax: keep what is known to be harmless, and replace the rest.

A text is cut at spaces, quotes and separators. Each chunk between them stays if it is harmless, or
a name that is shown; else it becomes a token. What follows a key that names a credential is
replaced as a whole, whatever it is made of.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from .harmless import ENDINGS, UNIT_ENDINGS, is_harmless
from .key_names import TALKED_ABOUT, Certainty, must_replace, names_attribute, names_group
from .tokens import PLAIN_TOKEN, TOKEN_PREFIX, address_of, is_local, is_token, is_token_address

if TYPE_CHECKING:
    from .engine import Engine

_CHUNK = re.compile(
    r"(?<!\\)\\++(?:u[0-9A-Fa-f]{4}|(?!redacted-)[nrtbf])|([^\s\"'`=:,;?()\[\]{}<>|&/\\]+)"
)
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DIGEST = re.compile(r"sha(?:256|512):[0-9a-f]{64}")
_TOKEN = re.compile(PLAIN_TOKEN)
_IPV6_TOKEN = re.compile(r"2001:[dD][bB]8:[0-9A-Fa-f:]*")
_QUOTE = r"(?:\\*[\"'`]|&quot;|&\#3[49];)"
_OPENING = re.compile(_QUOTE)
_AFTER_KEY = re.compile(
    rf"(?P<close>{_QUOTE}?)[ \t]*(?:(?P<sep>:=|=>|->|==?|:|>)|,[ \t\n]*(?={_QUOTE}))[ \t]*"
)
_PAIR = re.compile(
    rf"{_QUOTE}?[\s,;]*+(?:-[ \t]*+)?{_QUOTE}?(?i:value|val|data|content|stringvalue){_QUOTE}?"
    r"[ \t]*[:=]>?[ \t]*"
)
"""Between a name and its value: ``{Name:PASSWORD Value:…}``, ``- name: PASSWORD`` and a line."""
_GAP = re.compile(r"[ \t]+(?!-)")
_LAST_WORD = re.compile(r"[ \t]+(?=[^\s:=]+[ \t]*(?:\n|\Z))")
_QUOTED_NEXT = re.compile(r"[ \t]+(?=[\"'])")
_NEXT_KEY = rf"{_QUOTE}?[^\W\d][\w.-]{{0,63}}{_QUOTE}?[ \t]*[:=]"
_WORD = re.compile(
    rf"(?:[^\s\"'`;&|()<>,\\]|\\.|\"[^\"\n]*\"|'[^'\n]*'|,(?![ ]?{_NEXT_KEY}))++", re.DOTALL
)
_ARGUMENT = re.compile(r"(?:[^\s\"'`;&|()<>\\]|\\.|\"[^\"\n]*\"|'[^'\n]*')++", re.DOTALL)
_END_OF_PHRASE = re.compile(
    rf",[ \t]*{_NEXT_KEY}|,[ \t](?=[^\W\d]{{2}})|(?<![ \t])[ \t]++#|;[ \t]|;$"
    r"|[ \t][\w.-]{1,64}=|[ \t](?:&&|\|)|(?<!\\)\\++n"
)
_BLOCK = re.compile(r"(?:[|>][-+0-9]*)?[ \t]*\n")
_KEY_LINE = re.compile(rf"[ \t]*(?:- )?{_QUOTE}?[\w.-]{{1,64}}{_QUOTE}?[ \t]*:(?:\s|\Z)")
_REFERENCE = re.compile(
    r"(?:\$\([a-z./][^()\n]*\)|\$\{[A-Z_][A-Z0-9_]*\}|\$[A-Z_][A-Z0-9_]*)"
    r"(?=[\s\"'`;&|)/,:]|\Z)"
)
_ENV_LINE = re.compile(r"[\w.-]{1,100}=")
_ITEM_PREFIX = re.compile(r"[ \t]*(?:- )*[ \t]*")
_PAIR_IN_LINE = re.compile(rf"{_QUOTE}?[\w./-]{{1,100}}{_QUOTE}?[ \t]*(?::(?=\s)|=)[ \t]*")
_SCHEME = re.compile(
    r"(?i)(?:basic|bearer|digest|token|negotiate|ntlm|apikey|aws4-hmac-sha256)[ \t]+"
)
_MEMBER = re.compile(
    rf"(?P<quote>{_QUOTE})(?P<text>.*?)(?P=quote)|[^\s,:=\[\]{{}}\"'`]+", re.DOTALL
)
_MEMBER_KEY = re.compile(r"[ \t]*[:=]")
_BRACKETS = re.compile(r"[\[\]{}]")
_PENDING = re.compile(rf"[\w.-]{{1,64}}{_QUOTE}?[ \t]*:?[ \t]*$")
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)", re.DOTALL
)
_URL = re.compile(r"(?<=://)(?:(?!://)[^\s\"'<>\\])++")
_PORT = re.compile(r"[0-9]{1,5}(?:/|\Z)")
_LOGIN = re.compile(
    r"(?<![^\s\"'=,(\[])([^\s:/@\"'=,]{1,64})(:)([^\s\"'@,/]{1,200})(?=@(?!sha[0-9]{3}:)[A-Za-z0-9(\[])"
)
_DOTTED4 = re.compile(
    r"(?<![0-9A-Za-z.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z]|\.[0-9A-Za-z])"
)
_COLONS6 = re.compile(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,36}(?:[0-9.]{7,15})?(?![0-9A-Za-z:])"
)
_HOST = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.){1,9}[A-Za-z]{2,20}")
_MAIL = re.compile(
    r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,9}([A-Za-z][A-Za-z0-9-]{0,62})"
)
_LETTERS_KEY = re.compile(r"-{0,2}[A-Za-z_]{1,24}(?:[.-][A-Za-z_]{1,24}){0,5}[0-9]{0,2}")
_IS_KEY = re.compile(rf"=(?![=\s]|$)|{_QUOTE}[ \t]*:")
_SECRET_DATA = frozenset({"data", "stringData"})
_AFTER_QUOTE = {"", *" \t\r\n,;&|)}]>:\\"}
_TAG_BEGIN = re.compile(r"<(?:[\w.-]{1,64}:)?\Z")
_TAG_END = re.compile(r"(?:\s[^<>]{0,1000}+)?>\s*+(?:<!\[CDATA\[)?")
_HOMES = ("/home/", "/Users/", "\\Users\\")
_JOINT = re.compile(r"[_@.]")


class _Value(NamedTuple):
    begin: int
    end: int
    members: str = ""
    """How its members are found, which are replaced one by one: "brackets" or "lines"; "": none."""


class _Extent(Enum):
    """How far the value of a key goes if it has no quotes."""

    WORD = auto()
    PHRASE = auto()
    """To the end of the line, or to what looks like the next key or sentence."""
    LINES = auto()
    """To the end of the line, and over lines that are indented further: in YAML, TOML, INI."""


def redact_text(engine: Engine, text: str, place: str) -> str:
    """Return ``text`` with tokens in it."""
    text = _redact_formats(engine, text, place)
    pieces: list[str] = []
    done = pos = 0
    while (match := _CHUNK.search(text, pos)) is not None:
        pos = match.end()
        chunk = match[1]
        if chunk is None:
            continue
        certainty = engine.certainty_of(chunk)
        if chunk in _SECRET_DATA and "Secret" in text:
            certainty = Certainty.SURE
        if certainty:
            value = _value_after(text, match.start(1), pos, chunk, certainty)
            if value is not None:
                begin, end = value.begin, value.end
                original = text[begin:end]
                if value.members:
                    redact = _redact_lines if value.members == "lines" else _redact_group
                    shown = redact(engine, original, place, chunk, certainty)
                elif must_replace(chunk, original, certainty):
                    shown = engine.replace("credential-keys", original, place)
                else:
                    continue
                key = _redact_key(engine, text, match.start(1), chunk, place)
                pieces += text[done : match.start(1)], key, text[match.end() : begin], shown
                done = pos = end
                continue
        redacted = _redact_chunk(engine, text, match.start(1), chunk, place)
        if redacted is not chunk:
            pieces += text[done : match.start(1)], redacted
            done = pos
    return "".join((*pieces, text[done:])) if pieces else text


def _redact_key(engine: Engine, text: str, start: int, key: str, place: str) -> str:
    """Return the key of a credential, which stays, unless a token of a service looks like one."""
    is_name = is_harmless(key) or _LETTERS_KEY.fullmatch(key) is not None or not key.isascii()
    return engine.keep(key) if is_name else _redact_chunk(engine, text, start, key, place)


def pending_key(engine: Engine, text: str) -> str:
    """Return the end of a line whose value is in the next line; "" for other lines."""
    found = _PENDING.search(text[-100:])
    return found[0] if found is not None and engine.certainty_of(found[0]) else ""


def redact_keyed(engine: Engine, key: str, value: str, place: str) -> str:
    """Return the redacted value of a variable, an annotation, an option or a member."""
    if not must_replace(key, value, engine.certainty_of(key)):
        return engine.redact_text(value, place)
    scheme = _SCHEME.match(value)
    begin = scheme.end() if scheme is not None and "auth" in key.lower() else 0
    return value[:begin] + engine.replace("credential-keys", value[begin:], place)


# -- what follows a key ---------------------------------------------------------------------


def _value_after(text: str, start: int, pos: int, key: str, certainty: Certainty) -> _Value | None:
    """Return the value of a key that begins at ``start`` and ends at ``pos``."""
    pair = _PAIR.match(text, pos)
    if pair is not None:
        of_line = _Extent.LINES if "\n" in pair[0] else _Extent.PHRASE
        extent = of_line if pair[0][-1:].isspace() else _Extent.WORD
        return _value_at(text, start, pair.end(), key, extent)
    if text[start - 1 : start] == "[" and text.startswith("]\n", pos) and names_group(key):
        # A table of TOML, a section of INI.
        end = text.find("\n[", pos)
        return _Value(pos + 2, len(text) if end < 0 else end, "lines")
    line = text.rfind("\n", 0, start) + 1
    is_first = not text[line:start].strip(" \t-\"'")
    is_file = is_first and "\n" in text
    if _TAG_BEGIN.search(text, max(0, start - 66), start) is not None:
        return _content(text, pos)
    after = _AFTER_KEY.match(text, pos)
    if after is not None:
        separator, begin = after["sep"], after.end()
        if separator is None:
            # A list of arguments: the option, and its value.
            return _value_at(text, start, begin, key, _Extent.WORD) if key[0] == "-" else None
        if separator == ">":
            # <entry key="password">…</entry>
            return _content(text, after.end("close")) if after["close"] else None
        is_spaced = text[begin - 1 : begin].isspace() or text[begin : begin + 1] == "\n"
        extent = _Extent.WORD
        if is_spaced:
            extent = _Extent.LINES if is_first else _Extent.PHRASE
        elif is_file and separator == "=" and _is_env_file(text, line):
            extent = _Extent.LINES
        return _value_at(text, start, begin, key, extent, of_colon=separator == ":")
    gap = _GAP.match(text, pos) if key[0] == "-" else None
    if gap is None and certainty is Certainty.SURE and key.lower() not in TALKED_ABOUT:
        # A line of a configuration: requirepass …
        gap = _LAST_WORD.match(text, pos) if is_file else None
        # PASSWORD '…', but not in sentences such as: secret "name" was not found
        gap = gap or _QUOTED_NEXT.match(text, pos)
    return None if gap is None else _value_at(text, start, gap.end(), key, _Extent.WORD)


def _content(text: str, pos: int) -> _Value | None:
    """Return the text of <password>…</password>, whose first tag goes on at ``pos``."""
    tag = _TAG_END.match(text, pos)
    if tag is None:
        return None
    end = text.find("]]>" if tag[0].endswith("[") else "<", tag.end())
    return _Value(tag.end(), end) if end > tag.end() else None


def _is_env_file(text: str, line: int) -> bool:
    """Return whether a line before or after the one that begins at ``line`` is NAME=value, too."""
    after = text.find("\n", line) + 1
    before = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return any(at != line and _ENV_LINE.match(text, at) is not None for at in (before, after))


def _value_at(
    text: str, start: int, begin: int, key: str, extent: _Extent, *, of_colon: bool = False
) -> _Value | None:
    opening = _OPENING.match(text, begin)
    if opening is not None:
        quoted = _quoted(text, opening.end(), opening[0])
        after = 0 if quoted is None else quoted.end + len(opening[0])
        if extent is _Extent.WORD and quoted and text[after : after + 1] not in _AFTER_QUOTE:
            # A word of a shell made of several pieces: 'it'"'"'s'
            word = (_ARGUMENT if key[0] == "-" else _WORD).match(text, begin)
            if word is not None and word.end() > after:
                return _Value(begin, word.end())
        return quoted
    if text.startswith(("{", "["), begin):
        return _Value(begin, _end_of_group(text, begin), "brackets")
    reference = _REFERENCE.match(text, begin)
    if reference is not None:
        rest = text[reference.end() : _end_of_line(text, begin)].strip()
        is_end = rest[:1] in {*",;#&|}"} and rest[1:2] in {"", " ", "&", "|"}
        if extent is _Extent.WORD or not rest or is_end:
            return None
    block = _BLOCK.match(text, begin) if of_colon else None
    if block is not None:
        return _lines_below(text, start, block.end(), key, is_block=block[0][0] in "|>")
    scheme = _SCHEME.match(text, begin) if key.lower().endswith("authorization") else None
    if scheme is not None:
        begin = scheme.end()
    if extent is _Extent.WORD:
        word = (_ARGUMENT if key[0] == "-" else _WORD).match(text, begin)
        end = begin if word is None else word.end()
    elif extent is _Extent.PHRASE:
        end = _end_of_line(text, begin)
        cut = _END_OF_PHRASE.search(text, begin, end)
        end = end if cut is None else cut.start()
        end = begin + len(text[begin:end].rstrip(" \t\r}])"))
    else:
        end = _end_of_lines(
            text, _end_of_line(text, begin), _indentation(text, start), is_scalar=True
        )
    return _Value(begin, end) if end > begin else None


def _end_of_line(text: str, begin: int) -> int:
    end = text.find("\n", begin)
    return len(text) if end < 0 else end


def _indentation(text: str, start: int) -> int:
    """Return how far the key is indented that begins at ``start``, in characters."""
    return start - text.rfind("\n", 0, start) - 1


def _end_of_lines(
    text: str, end: int, indentation: int, item: str = "", *, is_scalar: bool = False
) -> int:
    """Return the end of the lines after ``end`` that are indented further than ``indentation``, or
    as far and begin with ``item``. ``is_scalar``: they have no keys.
    """
    while end < len(text):
        after = _end_of_line(text, end + 1)
        line = text[end + 1 : after]
        width = len(line) - len(line.lstrip(" \t"))
        is_item = bool(item) and width == indentation and line[width:].startswith(item)
        if line.strip() and width <= indentation and not is_item:
            break
        if is_scalar and (not line.strip() or _KEY_LINE.match(line) is not None):
            break
        end = after
    return end


def _quoted(text: str, begin: int, opening: str) -> _Value | None:
    end = text.find(opening, begin)
    while end >= 0:
        after = end + len(opening)
        if text.startswith(opening, after) and len(opening) == 1 and end > begin:
            # A doubled quote.
            end = text.find(opening, after + 1)
        elif len(opening) == 1 and (end - len(text[begin:end].rstrip("\\")) - begin) % 2:
            end = text.find(opening, after)
        else:
            break
    if end < 0:
        line = text.find("\n", begin)
        end = len(text) if line < 0 else line
    return _Value(begin, end) if end > begin else None


def _end_of_group(text: str, begin: int) -> int:
    depth = 0
    for bracket in _BRACKETS.finditer(text, begin):
        depth += 1 if bracket[0] in "[{" else -1
        if not depth:
            return bracket.end()
    return len(text)


def _lines_below(text: str, start: int, begin: int, key: str, *, is_block: bool) -> _Value | None:
    """Return the value in the lines below a key: a block, a list, a group, or one value."""
    outer = _indentation(text, start)
    line = text[begin : _end_of_line(text, begin)]
    while begin < len(text) and not line.strip():
        begin += len(line) + 1
        line = text[begin : _end_of_line(text, begin)]
    if begin >= len(text):
        return None
    width = len(line) - len(line.lstrip(" \t"))
    is_list = line[width:].startswith("- ") and width >= outer
    if width <= outer and not is_list:
        return None
    if is_block or is_list or names_group(key) or key in _SECRET_DATA:
        # The indentation of the key counts its own list's dash: "- password: |".
        end = _end_of_lines(text, begin - 1, min(outer, width - 1) if not is_list else width, "- ")
        return _Value(begin, end, "" if is_block else "lines") if end > begin else None
    if _KEY_LINE.match(line) is not None:
        return None
    return _value_at(text, start, begin + width, key, _Extent.LINES)


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
        if (
            pair is not None
            and names_attribute(pair[0].rstrip("\"' :=\t"))
            and key not in _SECRET_DATA
        ):
            value = engine.redact_text(value, place)
        elif must_replace(key, value, certainty):
            value = engine.replace("credential-keys", value, place)
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
            pieces += (
                text[done : member.start(group)],
                engine.replace("credential-keys", original, place),
            )
            done = member.end(group)
    return "".join((*pieces, text[done:]))


# -- what is recognized by its form ---------------------------------------------------------


def _redact_formats(engine: Engine, text: str, place: str) -> str:
    """Redact what separators would cut: private keys, logins in URLs, addresses."""

    def login_of_url(found: re.Match[str]) -> str:
        url: str = found[0]
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
            user = engine.replace("url-passwords", user, place)
        if password and not is_token(password):
            password = engine.replace("url-passwords", password, place)
        return f"{user}{colon}{password}"

    if "-----BEGIN " in text:
        text = _PEM.sub(lambda found: engine.replace("credential-keys", found[0], place), text)
    if "@" in text:
        text = _URL.sub(login_of_url, text)
        text = _LOGIN.sub(lambda found: hide(*found.groups()), text)
    if engine.is_on("addresses"):
        if text.count(".") > 2:
            text = _DOTTED4.sub(lambda found: redact_address(engine, found[0], place), text)
        if text.count(":") > 1:
            text = _COLONS6.sub(lambda found: redact_address(engine, found[0], place), text)
    return text


def redact_address(engine: Engine, text: str, place: str) -> str:
    """Replace an IP address; return loopback and unspecified addresses and other text unchanged."""
    is_other = address_of(text) is not None and any(map(str.isdigit, text))
    if not is_other or is_local(text) or is_token_address(text):
        return text
    return engine.replace("addresses", text, place)


def _redact_chunk(engine: Engine, text: str, start: int, chunk: str, place: str) -> str:
    """Return a chunk of a text, or its token. An unchanged one is the same object."""
    special: str | None = None
    if "@" in chunk:
        login, _, rest = chunk.rpartition("@")
        if is_token(login) and rest:
            # The rest of a URL.
            shown = _redact_chunk(engine, text, start + len(login) + 1, rest, place)
            return chunk if shown is rest else f"{login}@{shown}"
        special = _redact_mail(engine, chunk, place)
    if special is None and "." in chunk:
        special = _redact_host(engine, chunk, place)
    if special is not None:
        return special
    if text.endswith(_HOMES, 0, start) and engine.is_on("user-paths"):
        if TOKEN_PREFIX in chunk or engine.is_shown(chunk):
            return chunk
        return engine.replace("user-paths", chunk, place)
    if engine.must_go(chunk.strip(".!?,")):
        return engine.replace("rules-file", chunk, place)
    if is_harmless(chunk) or _is_kept(engine, text, start, chunk):
        return chunk
    rest = chunk.lstrip("-+~@.")
    bare = rest.rstrip(".!?,")
    before, after = chunk[: len(chunk) - len(rest)], rest[len(bare) :]
    return before + engine.replace("unknown-words", bare, place) + after


def _is_kept(engine: Engine, text: str, start: int, chunk: str) -> bool:
    """Return whether a chunk that is not harmless by itself stays where it is."""
    bare = chunk.strip(".!?,")
    end = start + len(chunk)
    if engine.is_shown(bare) or is_token(bare):
        return True
    if bare.isalnum() and (
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
    parts = _JOINT.split(_TOKEN.sub("", bare))
    return (len(parts) > 1 or TOKEN_PREFIX in bare) and all(
        is_harmless(part) or engine.is_shown(part.strip("-")) for part in parts
    )


def _redact_mail(engine: Engine, chunk: str, place: str) -> str | None:
    bare = chunk.rstrip(".")
    mail = _MAIL.fullmatch(bare)
    if mail is None or mail[1].lower() in UNIT_ENDINGS or is_token(bare):
        return None
    if TOKEN_PREFIX in bare or not engine.is_on("emails"):
        return None
    return engine.replace("emails", bare, place) + chunk[len(bare) :]


def _redact_host(engine: Engine, chunk: str, place: str) -> str | None:
    bare = chunk.rstrip(".")
    if bare.rpartition(".")[2].lower() not in ENDINGS or _HOST.fullmatch(bare) is None:
        return None
    if TOKEN_PREFIX in bare or engine.is_shown(bare):
        return None
    if not engine.is_on("host-names") or engine.is_allowed_host(bare):
        return chunk
    return engine.replace("host-names", bare, place) + chunk[len(bare) :]
