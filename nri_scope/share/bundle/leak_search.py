# SPDX-License-Identifier: Apache-2.0
"""Search bytes for many values at once, in all forms in which they may be encoded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import re2

from ..redaction import Original
from ..redaction.value_encodings import forms

_TOGETHER = 256
"""Maximum number of values per pattern: larger patterns take longer per byte, smaller ones need
more patterns.
"""
_LONG = 300
"""Length in bytes from which a value is searched for individually, to keep patterns small."""
MANY, MANY_LONG = 8_192, 256
"""Numbers of forms, and of long forms, from which all are found by their first bytes. That takes
0.1 s per MiB regardless of their number; patterns are faster for a few forms, and take 10 kB of
memory for each."""
_BEGINNING = 6
"""Number of first bytes to compare; no searchable original is shorter."""


class Found(NamedTuple):
    """A value that was found."""

    original: Original
    start: int
    form: bytes
    """The form in which the value was found."""


class Needles:
    """Searches for originals: verbatim, in JSON, in a URL, in hexadecimal and in base64."""

    def __init__(self, originals: Iterable[Original]) -> None:
        self._of: dict[bytes, Original] = {}
        for original in originals:
            if original.is_searchable:
                for form in forms(original.value):
                    self._of.setdefault(form, original)
        self._patterns: list[re2._Regexp[bytes]] | None = None
        self._are_many: bool | None = None
        self._beginnings: dict[bytes, list[bytes]] = {}
        self._longest: dict[bytes, int] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._of)

    @property
    def longest(self) -> int:
        """Length of the longest form in bytes; 0 if there are no forms."""
        return max(map(len, self._of), default=0)

    def without(self, text: bytes) -> Needles:
        """Return the forms that do not occur in ``text``."""
        fewer = Needles(())
        fewer._of = {form: original for form, original in self._of.items() if form not in text}
        return fewer

    def find(self, data: bytes) -> Found | None:
        """Return any value found in ``data``, or None."""
        if self._are_many is None:
            long = sum(len(form) >= _LONG for form in self._of)
            self._are_many = len(self._of) >= MANY or long >= MANY_LONG
        if self._are_many:
            return self._by_beginning(data)
        for search in self._searches():
            found = search(data)
            if found is not None:
                return found
        return None

    def _by_beginning(self, data: bytes) -> Found | None:
        index = self._beginnings
        if not index:
            self._size = min(_BEGINNING, min(map(len, self._of), default=0))
            for form in sorted(self._of):
                begins_alike = index.setdefault(form[: self._size], [])
                # A form that continues a shorter form is found with the shorter one.
                if not begins_alike or not form.startswith(begins_alike[-1]):
                    begins_alike.append(form)
            self._longest = {begin: max(map(len, some)) for begin, some in index.items()}
        size = self._size
        begins = (at for at in range(len(data) - size + 1) if data[at : at + size] in index)
        for at in begins:
            begin = data[at : at + size]
            # No form is a prefix of another, so only the last form that does not sort after the
            # text can be a prefix of the text, even if many share these first bytes.
            text = data[at : at + self._longest[begin]]
            place = bisect_right(index[begin], text)
            if place and text.startswith(form := index[begin][place - 1]):
                return Found(self._of[form], at, form)
        return None

    def _searches(self) -> Iterator[Callable[[bytes], Found | None]]:
        if self._patterns is None:
            # Sorted, so that forms with equal beginnings share a pattern, which keeps patterns
            # small.
            short = sorted(form for form in self._of if len(form) < _LONG)
            self._patterns = [
                _compiled(short[start : start + _TOGETHER])
                for start in range(0, len(short), _TOGETHER)
            ]
        for pattern in self._patterns:
            yield lambda data, pattern=pattern: self._match(pattern, data)  # type: ignore[misc]
        for form in self._of:
            if len(form) >= _LONG:
                yield lambda data, form=form: self._plain(form, data)  # type: ignore[misc]

    def _match(self, pattern: re2._Regexp[bytes], data: bytes) -> Found | None:
        match = pattern.search(data)
        if match is None:
            return None
        form = match[0] or b""
        return Found(self._of[form], match.start(), form)

    def _plain(self, form: bytes, data: bytes) -> Found | None:
        at = data.find(form)
        return None if at < 0 else Found(self._of[form], at, form)


def _compiled(values: list[bytes]) -> re2._Regexp[bytes]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    # Compare bytes, not UTF-8.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(b"|".join(map(_escaped, values)), options)


def _escaped(value: bytes) -> bytes:
    return b"".join(
        bytes([byte]) if bytes([byte]).isalnum() else b"\\x%02x" % byte for byte in value
    )
