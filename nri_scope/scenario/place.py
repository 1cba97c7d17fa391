# SPDX-License-Identifier: Apache-2.0
"""Places in a document, for errors: ``web.yaml:12: pods.web.containers.app.env: …``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

_SHOWN = 80
"""Maximum number of characters of a key or value in an error."""
_KEYS_SHOWN = 400
"""Maximum number of characters of a path in an error."""


class ScenarioError(UsageError):
    """An error in a document, with its place as the beginning of the text."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a document."""

    source: str
    """Name of the file, or what stands for it."""
    line: int = 0
    """From 1; 0 if it concerns the whole document."""
    path: str = ""
    """Keys from the top, separated by dots."""
    has_lines: bool = True
    """Whether errors name lines; not for a change that is given as an argument."""

    def key(self, name: str, line: int) -> Place:
        """Return the place of a mapping's key."""
        return self._at(f"{self.path}.{name[:_SHOWN]}" if self.path else name[:_SHOWN], line)

    def item(self, number: int, line: int) -> Place:
        """Return the place of a list's item; ``number`` counts from 0."""
        return self._at(f"{self.path}[{number}]", line)

    def _at(self, path: str, line: int) -> Place:
        if len(path) > _KEYS_SHOWN:
            path = f"…{path[-_KEYS_SHOWN:]}"
        return replace(self, line=line if self.has_lines else 0, path=path)

    def error(self, problem: str, hint: str = "") -> ScenarioError:
        """Return the error of this place."""
        line = f":{self.line}" if self.line else ""
        path = f"{self.path}: " if self.path else ""
        return ScenarioError(safe(f"{self.source}{line}: {path}{problem}"), safe(hint))


def shown(value: object) -> str:
    """Return a value of the document for an error, shortened."""
    text = f"{value!r}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def meant(written: str, known: Iterable[str]) -> str:
    """Return the known name of which ``written`` is probably a misspelling; "" if there is none.

    That is a similar name, or one that differs by one inserted, removed, replaced or moved
    character, or only in case.
    """
    word = written[:_SHOWN].casefold()
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.8)
    close += [name for name in names if len(name) > 2 and _one_edit(word, name)]
    return names[close[0]] if close else ""


def _one_edit(one: str, other: str) -> bool:
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest one, or the first ones."""
    names = list(known)
    close = difflib.get_close_matches(name[:_SHOWN], names, n=1, cutoff=0.5)
    if found := meant(name, names) or next(iter(close), ""):
        return f"did you mean {found}?"
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return f"known are {', '.join(names[:12])}{more}" if names else ""
