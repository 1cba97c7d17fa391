# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of filters, by RE2, which has the syntax of Go and runs in linear time.

Python's ``re`` backtracks: a pattern, or text in an untrusted recording, could make it run for
minutes. It would hold the interpreter's lock, so ``record --where`` could not reply to the runtime.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nri_scope.errors import FilterError

if TYPE_CHECKING:
    import re2

MAX_MEMORY = 1 << 20
"""Maximum memory in bytes for one pattern; patterns that need more are rejected."""


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Compile a pattern. Raises FilterError if RE2 rejects it or it needs too much memory."""
        # Imported here, as most commands use no regular expression.
        import re2

        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        try:
            self._compiled: re2._Regexp[str] = re2.compile(pattern, options)
        except re2.error as error:
            (reason,) = error.args
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise FilterError(pattern, 0, f"bad regular expression: {text}") from None
        except UnicodeEncodeError as error:
            raise FilterError(pattern, error.start, "this character is not valid text") from None

    def search(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in ``text``."""
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:
            # Replace surrogates, which no recording contains.
            return self._compiled.search(text.encode("utf-8", "replace").decode()) is not None


@lru_cache(maxsize=64)
def regex(pattern: str) -> Regex:
    """Compile ``pattern``, or return it from a cache. Raises FilterError."""
    return Regex(pattern)
