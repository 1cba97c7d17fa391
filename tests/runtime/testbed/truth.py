# SPDX-License-Identifier: Apache-2.0
"""Actual changes between two connections, from plugins' notes and the connections' requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.reading.reader import Recording

from .deeds import GONE, Answers, Deed, Value, do, resources, shown

State = dict[str, Value]

CREATE = "CreateContainer"

SINCE = {"/process/oomScoreAdj": (0, 7), "/linux/resources/pids/limit": (0, 7)}
"""NRI versions that introduced paths; older runtimes ignore them."""


class Look(NamedTuple):
    """One event as received by one connection."""

    event: int
    """Id in the recording."""
    plugin: str
    """``NN-name`` of the connection."""
    state: State
    at_ns: int
    ended_ns: int | None
    """End of the connection's session; None if it did not end."""


@dataclass(frozen=True)
class Stretch:
    """Two looks at one event, and the changes in between."""

    first: Look
    last: Look
    deeds: tuple[Deed, ...]
    """In order. Some may be without effect."""

    @property
    def changed(self) -> dict[str, tuple[Value, Value]]:
        """Values before and after, by changed path."""
        return differences(self.first.state, self.last.state)

    def authors(self, path: str) -> list[str]:
        """Return the plugins that changed a path, in order."""
        return [deed.plugin for deed in self.deeds if deed.path == path.partition("#")[0]]


class Unexplained(AssertionError):
    """The connections' requests contradict the plugins' notes."""


@dataclass
class Truth:
    """All notes of all plugins, and all events received by connections."""

    looks: dict[tuple[str, str], list[Look]]
    """By event and container, in order; only events whose replies can change containers."""
    deeds: list[Deed]
    doubtful: frozenset[tuple[str, int]] = frozenset()
    """Replies (plugin and index) that the runtime may not have received."""
    _by_event: dict[tuple[str, str], list[Deed]] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording, crew: Iterable[Answers], killed: Iterable[str] = ()) -> Truth:
        """Read a recording and notes. The last reply of ``killed`` plugins may not have been sent.

        :raises Unexplained: a plugin or a connection got two CreateContainer of one container.
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
            raise Unexplained(f"more than one request: {twice}")
        truth = cls(looks, [deed for deed in deeds if deed.path not in late])
        truth.doubtful = frozenset(doubtful)
        for deed in truth.deeds:
            if deed.about == deed.container:
                truth._by_event.setdefault((deed.event, deed.container), []).append(deed)
        return truth

    def stretches(self, event: str, container: str) -> list[Stretch]:
        """Return the changes between each two looks at one event of one container.

        :raises Unexplained: the plugins' notes do not explain the changes.
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
        """Group the looks that can belong to the same event.

        All looks at a creation do, as each connection gets one request, see `of`. An update may be
        repeated with the same content: after the loss of a connection, a look may belong to the
        second update, unless an earlier connection of the chain is still there.
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
        """Yield possible orders: a plugin with a probe's index may be before or after the probe."""
        certain = [deed for deed in deeds if (deed.plugin, deed.number) not in self.doubtful]
        for some in (deeds, certain)[: 1 if len(certain) == len(deeds) else 2]:
            for aside in (0.5, -0.5):
                yield sorted(
                    ((int(deed.plugin[:2]) + aside, deed) for deed in some), key=lambda one: one[0]
                )


def differences(before: State, after: State) -> dict[str, tuple[Value, Value]]:
    """Return values before and after, by path; GONE for absent values."""
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
    """Return the values set by an update; containerd sends 0 for unset ones."""
    return {path: value for path, value in resources(message).items() if value != 0}
