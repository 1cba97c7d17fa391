# SPDX-License-Identifier: Apache-2.0
"""Search bytes for many values together, in all encodings in which they may occur."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import re2

from ..redaction import Original
from ..redaction.value_encodings import forms

_PATTERN_VALUES = 256
"""Maximum number of values per pattern. Larger patterns take longer per byte; smaller ones require
more passes."""
_LONG_BYTES = 300
"""Minimum length in bytes of a value that is searched for individually, to keep patterns small."""
MANY, MANY_LONG = 8_192, 256
"""With at least this many forms, or long forms, all are searched for by their first bytes. That
takes 0.1 s per MiB for any number of forms. Patterns are faster for a few forms, and take 10 kB of
memory per form."""
_PREFIX_BYTES = 6
"""Number of first bytes in the index; no searchable original is shorter."""


class Found(NamedTuple):
    """A value that was found."""

    original: Original
    start: int
    form: bytes
    """The encoding of the value that was found."""


class Needles:
    """Originals to search for: verbatim, encoded for JSON or URLs, in hexadecimal and base64."""

    def __init__(self, originals: Iterable[Original]) -> None:
        self._originals: dict[bytes, Original] = {}
        for original in originals:
            if original.is_searchable:
                for form in forms(original.value):
                    self._originals.setdefault(form, original)
        self._patterns: list[re2._Regexp[bytes]] | None = None
        self._are_many: bool | None = None
        self._by_prefix: dict[bytes, list[bytes]] = {}
        self._longest: dict[bytes, int] = {}
        self._prefix_size = 0

    def __len__(self) -> int:
        return len(self._originals)

    @property
    def longest(self) -> int:
        """Length of the longest form in bytes; 0 if there are no forms."""
        return max(map(len, self._originals), default=0)

    def without(self, text: bytes) -> Needles:
        """Return the forms that do not occur in ``text``."""
        fewer = Needles(())
        fewer._originals = {
            form: original for form, original in self._originals.items() if form not in text
        }
        return fewer

    def find(self, data: bytes) -> Found | None:
        """Return a value that occurs in ``data``, or None."""
        if self._are_many is None:
            long = sum(len(form) >= _LONG_BYTES for form in self._originals)
            self._are_many = len(self._originals) >= MANY or long >= MANY_LONG
        if self._are_many:
            return self._find_by_prefix(data)
        for search in self._searches():
            found = search(data)
            if found is not None:
                return found
        return None

    def _find_by_prefix(self, data: bytes) -> Found | None:
        index = self._by_prefix
        if not index:
            self._prefix_size = min(_PREFIX_BYTES, min(map(len, self._originals), default=0))
            for form in sorted(self._originals):
                same_prefix = index.setdefault(form[: self._prefix_size], [])
                # A match of a shorter form makes forms that begin with it redundant.
                if not same_prefix or not form.startswith(same_prefix[-1]):
                    same_prefix.append(form)
            self._longest = {prefix: max(map(len, group)) for prefix, group in index.items()}
        size = self._prefix_size
        starts = (at for at in range(len(data) - size + 1) if data[at : at + size] in index)
        for at in starts:
            prefix = data[at : at + size]
            # No form is a prefix of another one, so only the last form that sorts before the text
            # or equals it can be a prefix of the text.
            text = data[at : at + self._longest[prefix]]
            place = bisect_right(index[prefix], text)
            if place and text.startswith(form := index[prefix][place - 1]):
                return Found(self._originals[form], at, form)
        return None

    def _searches(self) -> Iterator[Callable[[bytes], Found | None]]:
        if self._patterns is None:
            # Sorted: forms with a common prefix share a pattern, which keeps patterns small.
            short = sorted(form for form in self._originals if len(form) < _LONG_BYTES)
            self._patterns = [
                _compile(short[start : start + _PATTERN_VALUES])
                for start in range(0, len(short), _PATTERN_VALUES)
            ]
        for pattern in self._patterns:
            yield lambda data, pattern=pattern: self._match(pattern, data)  # type: ignore[misc]
        for form in self._originals:
            if len(form) >= _LONG_BYTES:
                yield lambda data, form=form: self._find_verbatim(form, data)  # type: ignore[misc]

    def _match(self, pattern: re2._Regexp[bytes], data: bytes) -> Found | None:
        match = pattern.search(data)
        if match is None:
            return None
        form = match[0] or b""
        return Found(self._originals[form], match.start(), form)

    def _find_verbatim(self, form: bytes, data: bytes) -> Found | None:
        at = data.find(form)
        return None if at < 0 else Found(self._originals[form], at, form)


def _compile(values: list[bytes]) -> re2._Regexp[bytes]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    # Compare bytes, not UTF-8.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(b"|".join(map(_escape, values)), options)


def _escape(value: bytes) -> bytes:
    return b"".join(
        bytes([byte]) if bytes([byte]).isalnum() else b"\\x%02x" % byte for byte in value
    )
