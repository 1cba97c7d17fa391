# SPDX-License-Identifier: Apache-2.0
"""The encodings in which a value may occur: JSON, URL, hexadecimal, base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_MIN_PACKED = 7
"""Minimum length at which base64 text does not occur by chance: that of 6 bytes, shortened."""
_MIN_HEX = 6
"""Minimum number of bytes at which hexadecimal text does not match an id by chance."""
_SAFE = ("", "/", "-_.!~*'()", ";,/?:@&=+$-_.!~*'()#")
"""Characters that URL encoders leave unchanged; the last two sets are those of JavaScript."""
_SIMPLE = re.compile(r"[A-Za-z0-9_.-]*")
_HTML = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))
"""Characters that Go escapes in JSON for use in HTML."""


def forms(value: str) -> set[bytes]:
    """Return the forms in which ``value`` may occur in a file, including ``value`` itself."""
    plain = value.encode("utf-8", "surrogatepass")
    encoded = {plain}
    # Most values look the same in JSON, in a URL and in a path.
    if _SIMPLE.fullmatch(value) is None:
        encoded |= _escaped(value, plain)
    if len(plain) >= _MIN_HEX:
        encoded |= {plain.hex().encode(), plain.hex().upper().encode()}
    for offset in range(3):
        base64_text = within_base64(plain, offset)
        if len(base64_text) >= _MIN_PACKED:
            encoded |= {base64_text, _for_urls(base64_text)}
    if len(plain) >= _MIN_HEX:
        # With padding, for a value that is the whole encoded content, which determines its last
        # bits.
        whole = base64.b64encode(plain)
        encoded |= {whole, _for_urls(whole), whole.rstrip(b"="), _for_urls(whole.rstrip(b"="))}
    return encoded


def _escaped(value: str, plain: bytes) -> set[bytes]:
    encoded: set[bytes] = set()
    if not value.isascii():
        try:
            # Bytes that are not text are decoded as one character each.
            encoded.add(value.encode("latin-1"))
        except UnicodeEncodeError:
            pass
        encoded.add(plain.decode("latin-1").encode())
    for text in _in_json(value):
        encoded.add(text.encode("utf-8", "surrogatepass"))
    if not plain.isalnum():
        for safe in _SAFE:
            encoded.add(quote(plain, safe=safe).encode())
        encoded.add(quote_plus(plain).encode())
        # A key in a JSON pointer (RFC 6901), as used in `event.changed`.
        encoded.add(plain.replace(b"~", b"~0").replace(b"/", b"~1"))
    return encoded


def base64_words(value: str) -> set[str]:
    """Return other words for a value so short that it is only replaced as a word.

    These are its base64, alone and with a newline, as ``echo VALUE | base64`` makes it.
    """
    plain = value.encode("utf-8", "surrogatepass")
    base64_text = [base64.b64encode(content).rstrip(b"=") for content in (plain, plain + b"\n")]
    return {form.decode() for one in base64_text for form in (one, _for_urls(one))}


def _for_urls(base64_text: bytes) -> bytes:
    return base64_text.replace(b"+", b"-").replace(b"/", b"_")


def text_forms(value: str) -> set[str]:
    """Return the forms as text, except ``value`` itself."""
    encoded: set[str] = set()
    for form in forms(value):
        try:
            encoded.add(form.decode())
        except UnicodeDecodeError:
            continue
    encoded.discard(value)
    return encoded


def _in_json(value: str) -> Iterator[str]:
    """Yield a text as in a JSON string, and as in JSON within a JSON string."""
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        for plain, escaped in _HTML:
            once = once.replace(plain, escaped)
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]


def within_base64(content: bytes, offset: int) -> bytes:
    """Return the base64 of ``content`` after ``offset`` bytes, before any other content.

    Each character encodes six bits: characters at the ends depend on neighbouring bytes, and are
    omitted.
    """
    base64_text = base64.b64encode(bytes(offset) + content)
    first = -(-offset * 8 // 6)
    return base64_text[first : (offset + len(content)) * 8 // 6]
