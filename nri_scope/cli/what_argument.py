# SPDX-License-Identifier: Apache-2.0
"""The argument WHAT of several commands: an event, a pod, a container, or a path that changed."""

from __future__ import annotations

from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Pod
from nri_scope.oci import label, path_of
from nri_scope.oci.path_labels import meaning
from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import container_of_event

from .params import say

_LISTED = 5
"""Maximum number of containers or paths that an error lists."""


def find_subject(recording: Recording, what: str) -> lookup.Found:
    """Return the event, pod or container; for a path, the only container in which it changed.

    Raises UsageError and RecordingError.
    """
    return find_with_path(recording, what)[0]


def find_with_path(recording: Recording, what: str) -> tuple[lookup.Found, str]:
    """Return the result of `find_subject`, and the changed path; "" if `what` is no path."""
    try:
        return lookup.find(recording, what, say), ""
    except UsageError:
        if not may_be_path(what):
            raise
        containers, paths = _changed(recording, what)
        if not containers:
            raise
    if len(paths) > 1:
        raise UsageError(f'"{what}" matches {len(paths)} changed paths', f"use {_any_of(paths)}")
    (path,) = paths
    if len(containers) > 1:
        names = [lookup.container_name(one) for one in containers]
        if len({*names}) < len(names):
            names = [one.id for one in containers]
        raise UsageError(
            f"{path} changed in {len(containers)} containers", f"name one: {_any_of(names)}"
        )
    return containers[0], path


def container_with_path(recording: Recording, what: str) -> tuple[Container, str]:
    """Return the container that `what` names, and the changed path; "" if `what` is no path.

    `what` may also be an event about the container, or a pod with only one. Raises UsageError and
    RecordingError.
    """
    thing, path = find_with_path(recording, what)
    return _container_of(recording, thing), path


def _container_of(recording: Recording, thing: lookup.Found) -> Container:
    match thing:
        case Container():
            return thing
        case Event():
            container = container_of_event(recording, thing.id)
            if container is not None:
                return container
            raise UsageError(
                f"event {thing.id} ({thing.event}) does not concern a container",
                "name a container, or an event about one",
            )
        case Pod():
            containers = lookup.containers_of(recording, thing)
            if len(containers) == 1:
                return containers[0]
            name = lookup.pod_name(thing)
            if not containers:
                raise UsageError(
                    f"{recording.path} has no container of {name}", "`log` shows what it contains"
                )
            names = [*dict.fromkeys(lookup.container_name(one) for one in containers)]
            if len(names) == 1:
                newest = lookup.newest_of(recording, containers, say)
                assert isinstance(newest, Container)
                return newest
            raise UsageError(f"{name} has {len(names)} containers", f"name one: {_any_of(names)}")


def may_be_path(what: str) -> bool:
    """Return whether a text may name a path, so that searching all changes is worthwhile.

    A number, and a container's name with its two slashes, are none.
    """
    return bool(what) and not what.isdigit() and (path_of(what) is not None or what.count("/") < 2)


def _changed(recording: Recording, what: str) -> tuple[list[Container], list[str]]:
    """Return the containers with changes at the path, and the labels of the paths."""
    # Imported late, as loading it takes 0.1 s.
    from nri_scope.differ.recording_differ import histories

    meant = meaning(what)
    known = {one.id: one for one in recording.containers()}
    containers: dict[str, Container] = {}
    paths: dict[str, None] = {}
    for key, history in histories(recording).items():
        found = [step.change.path for step in history.steps if meant.includes(step.change.path)]
        if found and key in known:
            containers[key] = known[key]
            if (whole := meant.path_above(found)) is not None:
                found = [whole]
            paths.update(dict.fromkeys(map(label, found)))
    return list(containers.values()), list(paths)


def _any_of(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{' or '.join(names[:_LISTED])}{more}"
