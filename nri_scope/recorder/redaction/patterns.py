# SPDX-License-Identifier: Apache-2.0
"""Patterns of RE2, which take linear time whatever they are and whatever the text is."""

from __future__ import annotations

import re2

_MAX_MEMORY = 32 << 20


def compiled(pattern: str) -> re2._Regexp[str]:
    """The pattern. Raises re2.error, or UnicodeEncodeError for half of a surrogate pair."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return re2.compile(pattern, options)


def glob(pattern: str) -> str:
    """A pattern that matches as a whole what ``pattern`` does, where ``*`` is anything."""
    return "(?s)" + ".*".join(re2.escape(part) for part in pattern.split("*"))
