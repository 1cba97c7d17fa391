# SPDX-License-Identifier: Apache-2.0
"""Find sensitive values in free text by format: addresses, host names, users, random text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from itertools import pairwise
from string import ascii_uppercase
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .harmless import ENDINGS, UNIT_ENDINGS
from .known_values import Strength
from .re2_patterns import Pattern
from .tokens import PLAIN_TOKEN, address_of, is_token_address

if TYPE_CHECKING:
    from .engine import Engine

_RUN = Pattern(r"[A-Za-z0-9+/_=-]{20,}")
_MAIL = Pattern(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_DOTTED4 = Pattern(r"[0-9A-Za-z.]*[0-9]{1,3}(?:\.[0-9]{1,3}){3}[0-9A-Za-z.]*")
_COLONS6 = Pattern(r"[0-9A-Za-z:.]*:[0-9A-Za-z:.]*:[0-9A-Za-z:.]*")
_HOST = Pattern(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")
_EC2 = Pattern(r"\bip-[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}\b")
_HOME = Pattern(
    r"(?:^|[^A-Za-z0-9_./-]|/(?:var|export|host|rootfs|mnt))/(?:home|Users)/([^/\s:;,\"'\\|&<>()]+)"
)
_WINDOWS = Pattern(r"(?i)[a-z]:\\+users\\+([^\\\s:;,\"'/]+)")
_MIN_CHANGES = 0.42
"""Minimum changes between capitals, small letters and digits per character: random text has 0.62,
names 0.3."""
_UUID = re.compile(r"(?<![0-9A-Fa-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9A-Fa-f])")
_DROP_CAPITALS = str.maketrans("", "", ascii_uppercase)
_TOKEN = re.compile(PLAIN_TOKEN)
_TRAILING_TOKEN = re.compile(PLAIN_TOKEN + "$")


def substitute(pattern: Pattern, text: str, group: int, replace: Callable[[str], str]) -> str:
    """Return ``text`` with a group of each match replaced by the result of ``replace``."""
    pieces: list[str] = []
    pos = 0
    for match in pattern.finditer(text):
        found = match[group]
        if found:
            pieces += text[pos : match.start(group)], replace(found)
            pos = match.end(group)
    return "".join((*pieces, text[pos:])) if pieces else text


def redact_random(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace text that looks random. A finder."""
    if len(text) < 20 or not engine.is_on("random-looking"):
        return text

    def replace_part(part: str) -> str:
        if not is_random(part):
            return part
        content = _decode_base64(part)
        if content is not None and _decode_text(content) is not None:
            # Readable base64 was already decoded and searched.
            return part
        return engine.replace("random-looking", part, Strength.SECRET, place)

    def replace(found: str) -> str:
        redacted = replace_part(found) if found[0] != "/" else found
        return redacted if redacted != found else "/".join(map(replace_part, found.split("/")))

    return substitute(_RUN, text, 0, replace)


def is_random(run: str) -> bool:
    """Return whether letters and digits alternate too often for a name or a number."""
    run = _UUID.sub("", run)
    if len(run) < 20 or len(run) - len(run.translate(_DROP_CAPITALS)) < 2 or _TOKEN.search(run):
        return False
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in run if c.isalnum()]
    if min(kinds.count("d"), kinds.count("u"), kinds.count("l")) < 2:
        return False
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes >= _MIN_CHANGES * len(run)


def redact_mails(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace mail addresses. A finder."""
    if "@" not in text or not engine.is_on("emails"):
        return text

    def replace(found: str) -> str:
        user, _, host = found.rpartition("@")
        ending = host.rpartition(".")[2]
        if ending.lower() in UNIT_ENDINGS or ending.isdigit() or _TRAILING_TOKEN.search(user):
            return found
        return engine.replace("emails", found, Strength.SECRET, place)

    return substitute(_MAIL, text, 0, replace)


def redact_addresses(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace IP addresses. A finder."""
    if not engine.is_on("addresses") or len(text) < 2:
        return text

    def replace(found: str) -> str:
        bare = found.rstrip(".:")
        return redact_address(engine, bare, place) + found[len(bare) :]

    if text.count(".") >= 3:
        text = substitute(_DOTTED4, text, 0, replace)
    if text.count(":") >= 2:
        text = substitute(_COLONS6, text, 0, replace)
    return text


def redact_address(engine: Engine, text: str, place: str) -> str:
    """Replace an IP address, alone or with a port; return any other text unchanged."""
    found = address_of(text)
    if found is None:
        # 10.0.0.1:80, or several addresses separated by colons.
        parts = text.split(":")
        if len(parts) == 1:
            return text
        return ":".join(
            redact_address(engine, part, place) if "." in part else part for part in parts
        )
    if (
        found.is_loopback
        or found.is_unspecified
        or is_token_address(text)
        or text.startswith("255.")
        or not any(c.isdigit() for c in text)
    ):
        return text
    return engine.replace("addresses", text, Strength.PRIVATE, place)


def redact_hosts(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace host names. A finder."""
    if not engine.is_on("host-names") or len(text) < 4:
        return text

    def replace(found: str) -> str:
        ending = found.rpartition(".")[2].lower()
        if ending not in ENDINGS or engine.is_allowed_host(found):
            return found
        return engine.replace("host-names", found, Strength.PRIVATE, place)

    if "." in text:
        text = substitute(_HOST, text, 0, replace)
    if "ip-" in text:
        text = substitute(
            _EC2,
            text,
            0,
            lambda found: engine.replace("host-names", found, Strength.PRIVATE, place),
        )
    return text


def redact_users(engine: Engine, text: str, place: str, depth: int) -> str:
    """Replace user names in paths. A finder."""
    if not engine.is_on("user-paths"):
        return text

    def replace(found: str) -> str:
        if _TOKEN.search(found):
            return found
        return engine.replace("user-paths", found, Strength.PRIVATE, place)

    if "/home/" in text or "/Users/" in text:
        text = substitute(_HOME, text, 1, replace)
    if ":\\" in text:
        text = substitute(_WINDOWS, text, 1, replace)
    return text


# With padding at the end, even shorter text is not a word.
_BASE64 = Pattern(r"[A-Za-z0-9+/_-]{12,}={0,2}|[A-Za-z0-9+/_-]{6,}={1,2}")
_BASE64_ALONE = re.compile(r"[A-Za-z0-9+_-]{12,}={0,2}|[A-Za-z0-9+_-]{6,}={1,2}")
_HEX = Pattern(r"(?:[0-9A-Fa-f]{2}){6,}")
_PERCENT = Pattern(r"[^\s\"'&=?/:@<>]*%[0-9A-Fa-f]{2}[^\s\"'&=?/:@<>]*")
_MIN_PRINTABLE = 0.9
_URLSAFE = bytes.maketrans(b"-_", b"+/")


def redact_encoded(engine: Engine, text: str, place: str, depth: int) -> str:
    """Redact text encoded in base64, in hexadecimal, or with percent signs. A finder."""
    if len(text) < 6:
        return text

    def inside(decoded: str) -> str | None:
        redacted = engine.redact_text(decoded, place, depth + 1)
        return None if redacted == decoded else redacted

    def replace64(found: str) -> str:
        redacted = replace64_whole(found)
        if redacted != found or "/" not in found:
            return redacted
        # A slash is a digit of base64, but also separates the parts of a path.
        return "/".join(map(replace64_part, found.split("/")))

    def replace64_part(part: str) -> str:
        return replace64_whole(part) if _BASE64_ALONE.fullmatch(part) is not None else part

    def replace64_whole(found: str) -> str:
        content = _decode_base64(found)
        if content is None:
            return found
        read = _decode_text(content)
        if read is None:
            # Not text, but may contain a known value, for example in a serialised message.
            redacted, rules = engine.known.replace(content.decode("latin-1"))
            return engine.replace(rules[0], found, Strength.SECRET, place) if rules else found
        changed = inside(read)
        if changed is None:
            return found
        encoded = base64.b64encode(changed.encode())
        if "-" in found or "_" in found:
            encoded = encoded.translate(bytes.maketrans(b"+/", b"-_"))
        redacted = encoded.decode()
        return redacted if found.endswith("=") or len(found) % 4 == 0 else redacted.rstrip("=")

    def replace16(found: str) -> str:
        read = _decode_text(binascii.unhexlify(found))
        changed = inside(read) if read is not None else None
        if changed is None:
            return found
        redacted = changed.encode().hex()
        return redacted.upper() if found.isupper() else redacted

    def replace_percent(found: str) -> str:
        changed = inside(unquote(found))
        # Tokens need no percent-encoding; the rest is encoded again.
        return found if changed is None else _percent_encode(changed)

    text = substitute(_BASE64, text, 0, replace64)
    if len(text) >= 12:
        text = substitute(_HEX, text, 0, replace16)
    if "%" in text:
        text = substitute(_PERCENT, text, 0, replace_percent)
    return text


def _percent_encode(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="-._~,;!*()[]{}$+|")


def _decode_base64(run: str) -> bytes | None:
    bare = run.rstrip("=")
    if len(bare) % 4 == 1:
        return None
    try:
        content = bare.encode().translate(_URLSAFE) + b"=" * (-len(bare) % 4)
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        return None


def _decode_text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    printable = sum(c.isprintable() or c in "\t\r\n" for c in text)
    return text if text and printable >= _MIN_PRINTABLE * len(text) else None
