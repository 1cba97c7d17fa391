# SPDX-License-Identifier: Apache-2.0
"""The history of one path of a container: its values in order, each with its owner."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.specs import ABSENT, Json, label, path_of, pointer, split, value_at

from ..attribution.attributed_changes import EVICTION, ChangeStep
from ..attribution.final_spec import final_spec
from ..attribution.history import History
from .owned_lines import tree

_LISTED_MAX = 5
"""Maximum number of matching paths in an error."""
_SIMILARITY_MIN = 0.6
_COMPARED_MAX = 5_000
"""Maximum number of paths that are searched for the nearest one."""
_QUOTED_MAX = 200
"""Maximum length of the requested path in an error, in characters."""


@dataclass(frozen=True, slots=True)
class PathHistory:
    """The history of one path."""

    path: str
    began_there: bool
    """Whether the container's first state has a value at this path."""
    began: Json
    """The value in the first state; None if there is none."""
    steps: tuple[ChangeStep, ...]
    """The steps at exactly this path, in order."""


def past(history: History, path: str) -> list[PathHistory]:
    """Return the history of each changed path among `path`, its parents and its parts.

    If none of them was changed, the only history is that of `path`.
    """
    found: dict[str, list[ChangeStep]] = {}
    for step in history.of(path):
        found.setdefault(step.change.path, []).append(step)
    return [_past(history, each, steps) for each, steps in (found or {path: []}).items()]


def _past(history: History, path: str, steps: list[ChangeStep]) -> PathHistory:
    began = value_at(history.base, path)
    there = began is not ABSENT
    return PathHistory(path, there, None if began is ABSENT else began, tuple(steps))


def asked_for(history: History, path: str) -> list[ChangeStep]:
    """Return the requests for the whole container, which may have concerned `path`."""
    return [one for one in history.without_effect if one.change.path in ("", EVICTION)]


def resolve(history: History, query: str) -> str:
    """Return the path that matches `query`.

    `query` is a pointer, with or without its first slash, a label, or only its last part if that is
    unique. Raises UsageError with the matching or the nearest paths.
    """
    known = _paths(history)
    trimmed = query.rstrip("/") if query != "/" else query
    for candidate in (query, trimmed, path_of(query), f"/{trimmed}"):
        if candidate and candidate in known:
            return candidate
    named = [path for path in known if split(path)[-1:] == (query,)]
    changed = {step.change.path for step in history.steps}
    if len(named) == 1:
        return named[0]
    quoted = query if len(query) <= _QUOTED_MAX else f"{query[:_QUOTED_MAX]}…"
    if named:
        # Users more likely mean changed paths.
        named.sort(key=lambda path: path not in changed)
        more = f" and {len(named) - _LISTED_MAX} more" if len(named) > _LISTED_MAX else ""
        raise UsageError(
            f'"{quoted}" matches {len(named)} paths',
            f"use {' or '.join(map(label, named[:_LISTED_MAX]))}{more}",
        )
    raise UsageError(
        f'{history.name} never had a value at "{quoted}"', _hint(query, known, changed)
    )


def _hint(query: str, known: dict[str, None], changed: set[str]) -> str:
    path = path_of(query)
    if path is not None and path.count("/") > 1:
        query = path
    if "/" in query.strip("/") or query.startswith("/"):
        asked = query if query.startswith("/") else f"/{query}"
        # The user may not have escaped the slashes of a key.
        unescaped = {"/".join(("", *split(path))): path for path in known}
        if asked in unescaped:
            return f"use {label(unescaped[asked])}"
        names = [*changed, *(path for path in known if path not in changed)][:_COMPARED_MAX]
        near = difflib.get_close_matches(asked[:300], names, n=1, cutoff=_SIMILARITY_MIN)
        return f"the nearest is {label(near[0])}" if near else "--full shows all paths"
    labels: dict[str, str] = {}
    for path in known:
        labels.setdefault(split(path)[-1].lower(), path)
    if query.lower() in labels:
        return f"the nearest is {label(labels[query.lower()])}"
    near = difflib.get_close_matches(query[:300].lower(), list(labels)[:_COMPARED_MAX], n=1)
    return f"the nearest is {label(labels[near[0]])}" if near else "--full shows all paths"


def _paths(history: History) -> dict[str, None]:
    """Return every path that has or had a value, and every requested path."""
    found: dict[str, None] = {}
    for spec in (final_spec(history), history.spec, history.base):
        found.update(dict.fromkeys(tree(spec)))
    for path in (step.change.path for step in history.steps if step.change.path != EVICTION):
        while path and path not in found:
            found[path] = None
            path = path.rpartition("/")[0]
    for step in history.steps:
        for below in _below(step):
            found[below] = None
    found.pop("", None)
    return found


def _below(step: ChangeStep) -> Iterator[str]:
    """Yield the fields of an object that was added or removed as a whole."""
    for value in (step.change.before, step.change.after):
        if isinstance(value, dict):
            yield from (pointer(step.change.path, name) for name in value)
