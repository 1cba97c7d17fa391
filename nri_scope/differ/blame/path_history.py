# SPDX-License-Identifier: Apache-2.0
"""The history of one path of a container: its values in order, each with its owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError, nearest_word
from nri_scope.specs import Absent, Json, label, path_of, pointer, split, value_at
from nri_scope.text.quantities import first_names

from ..attribution.attributed_changes import EVICTION, ChangeStep
from ..attribution.history import History
from .spec_tree import tree

_LISTED_MAX = 5
"""Maximum number of matching paths in an error."""
_COMPARED_MAX = 5_000
"""Maximum number of paths that are searched for the nearest one."""
_QUOTED_MAX = 200
"""Maximum length of the requested path in an error, in characters."""


@dataclass(frozen=True, slots=True)
class PathHistory:
    """The history of one path."""

    path: str
    began: Json | Absent
    """The value in the container's first state; ABSENT if there is none."""
    steps: tuple[ChangeStep, ...]
    """The steps at exactly this path, in order."""


def path_histories(history: History, path: str) -> list[PathHistory]:
    """Return the history of each changed path among `path`, its parents and its parts.

    If no such path was changed, return only the history of `path`, without steps.
    """
    steps_of: dict[str, list[ChangeStep]] = {}
    for step in history.steps_at(path):
        steps_of.setdefault(step.change.path, []).append(step)
    return [
        PathHistory(changed, value_at(history.base, changed), tuple(steps))
        for changed, steps in (steps_of or {path: []}).items()
    ]


def whole_container_requests(history: History) -> list[ChangeStep]:
    """Return the requests without an effect that concern the whole container, not one path."""
    return [step for step in history.without_effect if step.change.path in ("", EVICTION)]


def resolve(history: History, query: str) -> str:
    """Return the path that matches `query`.

    `query` is a pointer, with or without its first slash, a label, or only its last part if that is
    unique. Raises UsageError with the matching or the nearest paths.
    """
    known = _known_paths(history)
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
        labels = first_names([*map(label, named)], _LISTED_MAX, " or ")
        raise UsageError(f'"{quoted}" matches {len(named)} paths', f"use {labels}")
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
        near = nearest_word(asked, names)
        return f"the nearest is {label(near)}" if near else "--full shows all paths"
    labels: dict[str, str] = {}
    for path in known:
        labels.setdefault(split(path)[-1].lower(), path)
    if query.lower() in labels:
        return f"the nearest is {label(labels[query.lower()])}"
    near = nearest_word(query, list(labels)[:_COMPARED_MAX])
    return f"the nearest is {label(labels[near])}" if near else "--full shows all paths"


def _known_paths(history: History) -> dict[str, None]:
    """Return every path that has or had a value, and every requested path."""
    paths: dict[str, None] = {}
    for spec in (history.final_spec, history.spec, history.base):
        paths.update(dict.fromkeys(tree(spec)))
    for path in (step.change.path for step in history.steps if step.change.path != EVICTION):
        while path and path not in paths:
            paths[path] = None
            path = path.rpartition("/")[0]
    for step in history.steps:
        paths.update(dict.fromkeys(_below(step)))
    paths.pop("", None)
    return paths


def _below(step: ChangeStep) -> Iterator[str]:
    """Yield the fields of an object that was added or removed as a whole."""
    for value in (step.change.before, step.change.after):
        if isinstance(value, dict):
            yield from (pointer(step.change.path, name) for name in value)
