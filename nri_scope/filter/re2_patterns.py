# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of filters, by RE2: the syntax known to Go users, in linear time.

Python's ``re`` is not used: it tries alternatives one after the other, and both the pattern (typed
by a user) and the text (names in an untrusted recording) could make it run for minutes or more,
holding the interpreter's lock while ``record --where`` should be answering the runtime.
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
        # Not at the top: most filters and most commands use no regular expression.
        import re2

        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        try:
            self._compiled: re2._Regexp[str] = re2.compile(pattern, options)
        except re2.error as error:
            (said,) = error.args
            words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            raise FilterError(pattern, 0, f"bad regular expression: {words}") from None
        except UnicodeEncodeError as error:
            raise FilterError(pattern, error.start, "no such character") from None

    def search(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in ``text``."""
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:
            # Replaces halves of surrogate pairs, which no recording contains.
            return self._compiled.search(text.encode("utf-8", "replace").decode()) is not None


@lru_cache(maxsize=64)
def regex(pattern: str) -> Regex:
    """Return ``pattern`` compiled, maybe from a cache. Raises FilterError as ``Regex`` does."""
    return Regex(pattern)
