# SPDX-License-Identifier: Apache-2.0
"""RE2 patterns, which take linear time for any expression and any text."""

from __future__ import annotations

from collections.abc import Iterable

import re2


def compiled(pattern: str) -> re2._Regexp[str]:
    """Compile a pattern. Raises re2.error, or UnicodeEncodeError for half of a surrogate pair."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 32 << 20
    return re2.compile(pattern, options)


def glob(pattern: str) -> str:
    """Translate a pattern in which ``*`` matches any text to a regular expression."""
    return "(?s)" + ".*".join(re2.escape(part) for part in pattern.split("*"))


def any_of(globs: Iterable[str]) -> re2._Regexp[str]:
    """Compile patterns in which ``*`` matches any text."""
    return compiled("|".join(f"(?:{glob(one)})" for one in globs))
