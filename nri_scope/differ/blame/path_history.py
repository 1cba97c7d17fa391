# SPDX-License-Identifier: Apache-2.0
"""The history of one path of a container: its values in order, each with its owner."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.oci import ABSENT, Json, pointer, split, value_at

from ..attribution.attributed_changes import EVICTION, ChangeStep, PluginRequest
from ..attribution.final_spec import final_spec
from ..attribution.history import History
from .spec_lines import tree

_LISTED = 5
_NEAR = 0.6
_COMPARED = 5_000
"""Maximum number of paths that are searched for the nearest one."""
_SHOWN = 200
"""Maximum number of characters of the requested path that an error repeats."""


@dataclass(frozen=True, slots=True)
class PathHistory:
    """The history of one path."""

    path: str
    began_there: bool
    """Whether the container had a value at this path from the beginning."""
    began: Json
    """The value that it had."""
    steps: tuple[ChangeStep, ...]
    """The steps at exactly this path, in order."""


def past(history: History, path: str) -> list[PathHistory]:
    """Return the histories of `path`, of its parents and of its parts; at least one.

    There is one for each of these paths that was changed, or one for `path` if none was.
    """
    found: dict[str, list[ChangeStep]] = {}
    for step in history.of(path):
        found.setdefault(step.change.path, []).append(step)
    return [_past(history, each, steps) for each, steps in (found or {path: []}).items()]


def _past(history: History, path: str, steps: list[ChangeStep]) -> PathHistory:
    began = value_at(history.base, path)
    there = began is not ABSENT
    return PathHistory(path, there, None if began is ABSENT else began, tuple(steps))


def asked_for(history: History, path: str) -> list[PluginRequest]:
    """Return the requests not simply carried out at `path`, at its parents and at its parts."""
    return [
        one
        for one in history.asked
        if one.path in ("", EVICTION, path)
        or one.path.startswith(f"{path}/")
        or path.startswith(f"{one.path}/")
    ]


def resolve(history: History, wanted: str) -> str:
    """Return the path that `wanted` means.

    `wanted` is a pointer, with or without its first slash, or only its last part if that is unique.
    Raises UsageError, which names the possible or the nearest paths.
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
        # Changed paths come first, as users more likely ask for these.
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
        # A key may have been given unescaped, with its slashes.
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
    """Return every path that has or had a value."""
    found: dict[str, None] = {}
    for spec in (final_spec(history), history.spec, history.base):
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
    """Return the paths that plugins requested, without requests for the whole container."""
    return (one.path for one in history.asked if one.path.startswith("/") and one.path != EVICTION)


def _below(step: ChangeStep) -> Iterator[str]:
    """Yield the fields of an object that was added or removed as a whole."""
    for value in (step.change.before, step.change.after):
        if isinstance(value, dict):
            yield from (pointer(step.change.path, name) for name in value)
