# SPDX-License-Identifier: Apache-2.0
"""Encode any content of a recording as JSON that all programs can read.

Python's own encoder may write what other programs reject: lone surrogates (I-JSON, RFC 7493, 2.1),
numbers such as NaN, thousands of nested lists. All of these can occur in texts of a recording and
in the CRI's answers, which are untrusted JSON.
"""

from __future__ import annotations

import json
import math

from nri_scope.nri.plain import Plain
from nri_scope.recording.file.sqlite_text import storable

MAX_DEPTH = 200
"""Maximum nesting of lists and objects. SQLite accepts 1,000 levels, other programs fewer; an OCI
spec has 15."""

_CUT = "…"
_encode_unicode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(", ", ": ")
).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(", ", ": ")).encode


def json_line(value: Plain) -> str:
    """Return one line of ASCII JSON, in the format of `records.to_json`."""
    try:
        text = _encode_ascii(value)
    except (ValueError, RecursionError):
        text = _encode_ascii(make_portable(value))
    else:
        # A valid surrogate pair is escaped like two lone surrogates; `make_portable` preserves it.
        if "\\ud" in text or _may_be_deep(text):
            text = _encode_ascii(make_portable(value))
    return text.replace("\x7f", "\\u007f")


def json_text(value: Plain) -> str:
    """Return JSON with unescaped non-ASCII characters, for people and full-text search."""
    try:
        text = _encode_unicode(value)
        if text.isascii() and not _may_be_deep(text):
            return text
        text.encode()
        if not _may_be_deep(text):
            return text
    except (ValueError, RecursionError):
        pass
    return _encode_unicode(make_portable(value))


def make_portable(value: Plain) -> Plain:
    """Return ``value`` with everything that is not portable JSON replaced.

    A lone surrogate becomes its escape sequence as text, a non-finite number its name as text, and
    a list or object nested too deeply ``…``.
    """
    return _make_portable(value, 0)


def _may_be_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH


def _depth(text: str) -> int:
    """Return an upper bound of the nesting in ``text``, which includes brackets in strings."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _make_portable(value: Plain, depth: int) -> Plain:
    match value:
        case str():
            return storable(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | dict() if depth >= MAX_DEPTH:
            return _CUT
        case list():
            return [_make_portable(item, depth + 1) for item in value]
        case dict():
            return {storable(key): _make_portable(item, depth + 1) for key, item in value.items()}
        case _:
            return value
