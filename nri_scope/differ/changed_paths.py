# SPDX-License-Identifier: Apache-2.0
"""Find the container in which a path of the spec changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from shlex import quote

from nri_scope.errors import THE_RECORDING, UsageError
from nri_scope.events import Container, Pod
from nri_scope.recording.query import lookup
from nri_scope.recording.query.coverage import CHANGING, coverage
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs import label
from nri_scope.specs.path_labels import Meaning, meaning
from nri_scope.text.quantities import first_names

from .attribution.history import History
from .blame.owned_lines import tree
from .recording_differ import histories

_LISTED = 5
"""Maximum number of containers or paths that an error lists."""
_EXAMINED = 2_000
"""Maximum number of containers that are searched for a path without changes, each in about 1 ms."""


def container_changed_at(
    recording: Recording, what: str, error: UsageError
) -> tuple[Container, str]:
    """Return the only container in which the path `what` changed, and the path.

    ``error``: raised if no container has such a path. Raises UsageError and RecordingError.
    """
    known = histories(recording)
    containers, paths = _changed(recording, what, known)
    if not containers:
        raise _unchanged(recording, what, known) or error from None
    if len(paths) > 1:
        raise UsageError(f'"{what}" matches {len(paths)} changed paths', f"use {_any_of(paths)}")
    (path,) = paths
    if len(containers) > 1:
        names = [lookup.container_name(container) for container in containers]
        if len({*names}) < len(names):
            names = [container.id for container in containers]
        raise UsageError(
            f"{path} changed in {len(containers)} containers", f"name one: {_any_of(names)}"
        )
    return containers[0], path


def error_without_changes(recording: Recording, what: str) -> UsageError:
    """Return the error for a path without changes, which is no event, pod or container either.

    Raises RecordingError.
    """
    try:
        lookup.find(recording, what, or_path=True)
    except UsageError as error:
        return _unchanged(recording, what, histories(recording)) or error
    # The recording grows.
    return UsageError(f'"{what}" was recorded just now', "run the command again")


def _unchanged(recording: Recording, what: str, known: Mapping[str, History]) -> UsageError | None:
    """Return the error for a path that containers have without a change of it; None if none has it.

    A path may also be a part of a changed one, such as the source of an added mount.
    """
    named: list[Pod | Container] = [*recording.pods(), *recording.containers()]
    if any(subject.name == what for subject in named):
        return None
    meant = meaning(what)
    names: dict[str, None] = {}
    paths: dict[str, None] = {}
    changed: dict[str, None] = {}
    for history in islice(known.values(), _EXAMINED):
        own = _paths_of(history, meant)
        names |= {history.name: None} if own else {}
        paths |= dict.fromkeys(own)
        steps = {step.change.path for step in history.steps}
        changed |= {above: None for path in own for above in _above(path) if above in steps}
    if not names:
        return None
    shown = label(next(iter(paths))) if len(paths) == 1 else f'"{what}"'
    if changed:
        return UsageError(
            f"{shown} changed only as a part of other paths",
            f"use {_any_of([*map(label, changed)])}",
        )
    first = next(iter(names))
    owners = f"{first} has it" if len(names) == 1 else f"{first} and others have it"
    path = label(next(iter(paths))) if len(paths) == 1 else what
    problem = f"no event in {THE_RECORDING} shows a change of {shown}"
    return UsageError(
        coverage(recording, mask=CHANGING).limited(problem),
        f"{owners}: `blame FILE {quote(first)} --history {quote(path)}`",
        recording.path,
    )


def _paths_of(history: History, meant: Meaning) -> list[str]:
    """Return the paths of a container's final spec that are meant, without the parts of them."""
    found = {path for path in tree(history.final_spec) if path and meant.includes(path)}
    return sorted(path for path in found if found.isdisjoint(_above(path)))


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _changed(
    recording: Recording, what: str, histories: Mapping[str, History]
) -> tuple[list[Container], list[str]]:
    """Return the containers with changes at the path, and the labels of the paths."""
    meant = meaning(what)
    known = {container.id: container for container in recording.containers()}
    containers: dict[str, Container] = {}
    paths: dict[str, None] = {}
    for key, history in histories.items():
        matches = [step.change.path for step in history.steps if meant.includes(step.change.path)]
        if matches and key in known:
            containers[key] = known[key]
            if (whole := meant.path_above(matches)) is not None:
                matches = [whole]
            paths.update(dict.fromkeys(map(label, matches)))
    return list(containers.values()), list(paths)


def _any_of(names: list[str]) -> str:
    return first_names(names, _LISTED, " or ")
