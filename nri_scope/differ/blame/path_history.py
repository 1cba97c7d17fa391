# SPDX-License-Identifier: Apache-2.0
"""The history of one path of a container: value after value, with who made each."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.oci import ABSENT, Json, pointer, split, value_at

from ..attribution.history import History
from ..attribution.model import EVICTION, Asked, ChangeStep
from .owned_lines import document
from .spec_lines import tree

_LISTED = 5
_NEAR = 0.6
_COMPARED = 5_000
"""Paths that the nearest one is looked for among."""
_SHOWN = 200
"""Characters of what somebody asked for that an error repeats."""


@dataclass(frozen=True, slots=True)
class Past:
    """What happened to one path."""

    path: str
    began_there: bool
    """Whether the container began with something at this path."""
    began: Json
    """What that was."""
    steps: tuple[ChangeStep, ...]
    """At this very path, in order."""


def past(history: History, path: str) -> list[Past]:
    """What happened at `path`, at what it is a part of and at its parts; never nothing.

    One for each path that something happened to, or for `path` alone.
    """
    found: dict[str, list[ChangeStep]] = {}
    for step in history.of(path):
        found.setdefault(step.change.path, []).append(step)
    return [_past(history, each, steps) for each, steps in (found or {path: []}).items()]


def _past(history: History, path: str, steps: list[ChangeStep]) -> Past:
    began = value_at(history.base, path)
    there = began is not ABSENT
    return Past(path, there, None if began is ABSENT else began, tuple(steps))


def asked_for(history: History, path: str) -> list[Asked]:
    """The requests not simply carried out at `path`, at what it is a part of and at its parts."""
    return [
        one
        for one in history.asked
        if one.path in ("", EVICTION, path)
        or one.path.startswith(f"{path}/")
        or path.startswith(f"{one.path}/")
    ]


def resolve(history: History, wanted: str) -> str:
    """The path that somebody means: a pointer, one without its first slash, or its last part alone
    where that is unique. Raises UsageError, naming what it could be or what is near.
    """
    known = _paths(history)
    trimmed = wanted.rstrip("/") if wanted != "/" else wanted
    for candidate in (wanted, trimmed, f"/{trimmed}"):
        if candidate and candidate in known:
            return candidate
    named = [path for path in known if split(path)[-1:] == (wanted,)]
    changed = {step.change.path for step in history.steps}
    if len(named) == 1:
        return named[0]
    shown = wanted if len(wanted) <= _SHOWN else f"{wanted[:_SHOWN]}…"
    if named:
        # What was changed is asked for rather than what was not.
        named.sort(key=lambda path: path not in changed)
        more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
        raise UsageError(
            f'"{shown}" can be {len(named)} paths', f"say {' or '.join(named[:_LISTED])}{more}"
        )
    raise UsageError(
        f'nothing was ever at "{shown}" in {history.name}', _hint(wanted, known, changed)
    )


def _hint(wanted: str, known: dict[str, None], changed: set[str]) -> str:
    if "/" in wanted.strip("/") or wanted.startswith("/"):
        asked = wanted if wanted.startswith("/") else f"/{wanted}"
        # Somebody may have written a key as it is, slashes and all.
        plain = {"/".join(("", *split(path))): path for path in known}
        if asked in plain:
            return f"in a path that is {plain[asked]}"
        names = [*changed, *(path for path in known if path not in changed)][:_COMPARED]
        near = difflib.get_close_matches(asked[:300], names, n=1, cutoff=_NEAR)
        return f"the nearest is {near[0]}" if near else "--full shows all there is"
    labels: dict[str, str] = {}
    for path in known:
        labels.setdefault(split(path)[-1].lower(), path)
    if wanted.lower() in labels:
        return f"the nearest is {labels[wanted.lower()]}"
    near = difflib.get_close_matches(wanted[:300].lower(), list(labels)[:_COMPARED], n=1)
    return f"the nearest is {labels[near[0]]}" if near else "--full shows all there is"


def _paths(history: History) -> dict[str, None]:
    """Every path that something is or was at."""
    found: dict[str, None] = {}
    for spec in (document(history), history.spec, history.base):
        found.update(dict.fromkeys(tree(spec)))
    for path in (*(step.change.path for step in history.steps), *_requested(history)):
        while path and path not in found:
            found[path] = None
            path = path.rpartition("/")[0]
    for step in history.steps:
        for below in _below(step):
            found[below] = None
    found.pop("", None)
    return found


def _requested(history: History) -> Iterator[str]:
    """What plugins asked for, where that was not the whole container."""
    return (one.path for one in history.asked if one.path.startswith("/") and one.path != EVICTION)


def _below(step: ChangeStep) -> Iterator[str]:
    """The fields of an object that came and went as a whole."""
    for value in (step.change.before, step.change.after):
        if isinstance(value, dict):
            yield from (pointer(step.change.path, name) for name in value)
