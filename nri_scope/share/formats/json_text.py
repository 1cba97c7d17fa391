# SPDX-License-Identifier: Apache-2.0
"""JSON that all programs can read, for any content of a recording.

Python's own output may contain data rejected by others: halves of surrogate pairs (I-JSON, RFC
7493, 2.1), numbers such as NaN, thousands of nested lists. Texts and answers of the CRI are
untrusted JSON, in which all of these can occur.
"""

from __future__ import annotations

import json
import math

from nri_scope._gen.nri import api_pb2
from nri_scope.nri.plain import LEFT_OUT, MALFORMED, UNKNOWN, Plain
from nri_scope.recording.sqlite_text import storable

MAX_DEPTH = 200
"""Maximum nesting of lists and objects. SQLite reads 1,000 levels, other programs fewer; a spec has
15."""

MESSAGE_WORDS = (
    *(
        field.name
        for message in api_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    ),
    *(
        name
        for enum in api_pb2.DESCRIPTOR.enum_types_by_name.values()
        for name in enum.values_by_name
    ),
    *(LEFT_OUT, MALFORMED, UNKNOWN),
    *("container_id", "verbose"),
)
"""Words in messages as JSON: the API's fields and values, and keys added by nri-scope."""

_CUT = "…"
_readable = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": ")).encode
_ascii = json.JSONEncoder(allow_nan=False, separators=(", ", ": ")).encode


def json_line(value: Plain) -> str:
    """Return one line of ASCII JSON, in the format of `records.to_json`."""
    try:
        text = _ascii(value)
    except (ValueError, RecursionError):
        text = _ascii(mended(value))
    else:
        # A valid pair is escaped like two halves; `mended` distinguishes the cases.
        if "\\ud" in text or _may_be_deep(text):
            text = _ascii(mended(value))
    return text.replace("\x7f", "\\u007f")


def json_text(value: Plain) -> str:
    """Return JSON with non-ASCII letters unescaped, for reading and searching."""
    try:
        text = _readable(value)
        if text.isascii() and not _may_be_deep(text):
            return text
        text.encode()
        if not _may_be_deep(text):
            return text
    except (ValueError, RecursionError):
        pass
    return _readable(mended(value))


def mended(value: Plain) -> Plain:
    """Replace parts of ``value`` that are not portable JSON, halves of pairs with ``\\\\ud800``."""
    return _mended(value, 0)


def _may_be_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH


def _depth(text: str) -> int:
    """Return an upper bound of the nesting in ``text``: brackets in strings also count."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _mended(value: Plain, depth: int) -> Plain:
    match value:
        case str():
            return storable(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | dict() if depth >= MAX_DEPTH:
            return _CUT
        case list():
            return [_mended(item, depth + 1) for item in value]
        case dict():
            return {storable(key): _mended(item, depth + 1) for key, item in value.items()}
        case _:
            return value
