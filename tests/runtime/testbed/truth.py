# SPDX-License-Identifier: Apache-2.0
"""What happened between two connections, by what plugins noted and what both were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.reader import Recording

from .deeds import GONE, Answers, Deed, Value, do, resources, shown

State = dict[str, Value]

CREATE = "CreateContainer"

SINCE = {"/process/oomScoreAdj": (0, 7), "/linux/resources/pids/limit": (0, 7)}
"""Paths that runtimes with an older NRI take no notice of."""


class Look(NamedTuple):
    """What one connection was shown of one event."""

    event: int
    """In the recording."""
    plugin: str
    """``NN-name`` of the connection."""
    state: State
    at_ns: int
    ended_ns: int | None
    """When the connection was lost; None: not at all."""


@dataclass(frozen=True)
class Stretch:
    """Two looks at one event, with what happened in between."""

    first: Look
    last: Look
    deeds: tuple[Deed, ...]
    """In order. Some may have changed nothing."""

    @property
    def changed(self) -> dict[str, tuple[Value, Value]]:
        """What was different afterwards: before and after, by path."""
        return differences(self.first.state, self.last.state)

    def authors(self, path: str) -> list[str]:
        """Who did something there, in order."""
        return [deed.plugin for deed in self.deeds if deed.path == path.partition("#")[0]]


class Unexplained(AssertionError):
    """What connections were shown is not what the plugins say that they did."""


@dataclass
class Truth:
    """All notes of all plugins, and all that connections were shown."""

    looks: dict[tuple[str, str], list[Look]]
    """By event and container, in order; of those that plugins can change something in."""
    deeds: list[Deed]
    doubtful: frozenset[tuple[str, int]] = frozenset()
    """Answers (a plugin, its number) that may not have got through."""
    _by_event: dict[tuple[str, str], list[Deed]] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording, crew: Iterable[Answers], killed: Iterable[str] = ()) -> Truth:
        """``killed``: plugins (``NN-name``) whose last answer may never have been sent.

        :raises Unexplained: a plugin or a connection was asked twice to create one container.
        """
        major, minor, *_ = recording.sessions()[0].nri_version.split(".")
        version = int(major), int(minor)
        deeds: list[Deed] = []
        doubtful: set[tuple[str, int]] = set()
        looks = _looks(recording)
        asked = Counter((look.plugin, *key) for key, several in looks.items() for look in several)
        for each in crew:
            deeds += each.deeds()
            asked.update((each.plugin, *one) for one in each.asked())
            if each.plugin in killed:
                doubtful.add((each.plugin, len(each.asked()) - 1))
        late = {path for path, since in SINCE.items() if version < since}
        twice = [one for one, times in asked.items() if one[1] == CREATE and times > 1]
        if twice:
            raise Unexplained(f"asked more than once: {twice}")
        truth = cls(looks, [one for one in deeds if one.path not in late])
        truth.doubtful = frozenset(doubtful)
        for deed in truth.deeds:
            if deed.about == deed.container:
                truth._by_event.setdefault((deed.event, deed.container), []).append(deed)
        return truth

    def stretches(self, event: str, container: str) -> list[Stretch]:
        """What happened between each two looks at one event of one container.

        :raises Unexplained: nothing that the plugins say explains it.
        """
        looks = self.looks.get((event, container), [])
        deeds = self._by_event.get((event, container), [])
        pairs = [pair for group in self.rounds(event, container) for pair in pairwise(group)]
        for possible in self._possible(deeds):
            found = [_stretch(one, other, possible) for one, other in pairs]
            if all(_explains(one) for one in found):
                return found
        lines = [f"{event} of {container}", *map(str, looks), *map(str, deeds)]
        raise Unexplained("\n".join(lines))

    def rounds(self, event: str, container: str) -> list[list[Look]]:
        """The looks that may be taken for one and the same event.

        All looks at a creation are: each plugin and each connection was asked once, see `of`. An
        update may come again with the same content, and once a connection is lost the others may
        have been asked about the second one, unless there is one left that would be asked first.
        """
        looks = self.looks.get((event, container), [])
        if event == CREATE:
            return [looks] if looks else []
        groups: list[list[Look]] = []
        for look in looks:
            before = groups[-1] if groups else []
            left = [one for one in before if one.ended_ns is None or one.ended_ns >= look.at_ns]
            if before and (
                len(left) == len(before) or any(one.plugin < look.plugin for one in left)
            ):
                before.append(look)
            else:
                groups.append([look])
        return groups

    def _possible(self, deeds: list[Deed]) -> Iterator[list[tuple[float, Deed]]]:
        """Deeds with places in the chain: who shares an index may be on either side of it."""
        certain = [deed for deed in deeds if (deed.plugin, deed.number) not in self.doubtful]
        for some in (deeds, certain)[: 1 if len(certain) == len(deeds) else 2]:
            for aside in (0.5, -0.5):
                yield sorted(
                    ((int(deed.plugin[:2]) + aside, deed) for deed in some), key=lambda one: one[0]
                )


def differences(before: State, after: State) -> dict[str, tuple[Value, Value]]:
    """Before and after, by path; GONE where there is nothing."""
    return {
        path: (before.get(path, GONE), after.get(path, GONE))
        for path in {**before, **after}
        if before.get(path, GONE) != after.get(path, GONE)
    }


def _stretch(one: Look, other: Look, deeds: Sequence[tuple[float, Deed]]) -> Stretch:
    first, last = int(one.plugin[:2]), int(other.plugin[:2])
    return Stretch(one, other, tuple(deed for place, deed in deeds if first < place < last))


def _explains(stretch: Stretch) -> bool:
    deeds = [(deed.path, deed.value) for deed in stretch.deeds]
    return do(stretch.first.state, deeds) == stretch.last.state


def _looks(recording: Recording) -> dict[tuple[str, str], list[Look]]:
    read: dict[str, Callable[[bytes], State]] = {
        CREATE: lambda request: shown(api.CreateContainerRequest.FromString(request).container),
        "UpdateContainer": lambda request: _asked_for(
            api.UpdateContainerRequest.FromString(request).linux_resources
        ),
    }
    ended = {session.id: session.ended_ns for session in recording.sessions()}
    found: dict[tuple[str, str], list[Look]] = {}
    for event, request, _ in recording.exchanges():
        if event.method in read:
            state = read[event.method](request)
            look = Look(event.id, event.plugin, state, event.at_ns, ended[event.session])
            found.setdefault((event.method, event.container_id), []).append(look)
    return found


def _asked_for(message: api.LinuxResources) -> State:
    """What an update asks for; containerd sends 0 for what it does not."""
    return {path: value for path, value in resources(message).items() if value != 0}
