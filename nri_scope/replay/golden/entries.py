# SPDX-License-Identifier: Apache-2.0
"""Entries of a golden, one for each reply."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from nri_scope.nri.events import Event
from nri_scope.nri.plain import Plain

from ..replies import Reply, Verdict
from .reply_values import NameOf, plain_reply

SESSION = "session"
"""Subject in a golden for replies not about a pod. It has no slash, as pods' subjects have."""

QUIET = "quiet"
"""Key that lists the events with empty replies; no event has this name."""

_FIRST = ("Configure", "Synchronize")
_RANKS = {
    name: rank
    for rank, name in enumerate((*_FIRST, *(event.name for event in sorted(Event))), start=1)
}
_TIMES = re.compile(r"(.*)#([1-9][0-9]{0,8})", re.ASCII | re.DOTALL)


class Key(NamedTuple):
    """Key of a reply, equal in every replay of a recording."""

    plugin: str
    """``NN-name``."""
    subject: str
    """``namespace/pod``, ``namespace/pod/container`` or `SESSION`."""
    event: str
    """Event name; repetitions are numbered, such as ``CreateContainer#2``."""

    def __str__(self) -> str:
        return f"{self.plugin} {self.subject} {self.event}"

    @property
    def kind(self) -> str:
        """The event without its number."""
        return _split(self.event)[0]

    @property
    def place(self) -> tuple[str, bool, str, int, str, int]:
        """Sort key of goldens: events of one subject are in the order of its lifecycle."""
        kind, times = _split(self.event)
        rank = _RANKS.get(kind, len(_RANKS) + 1)
        return self.plugin, self.subject != SESSION, self.subject, rank, kind, times


def entries_of(replies: Iterable[Reply], name_of: NameOf) -> dict[Key, dict[str, Plain]]:
    """Return the content of each reply, in the order of a golden; {} for an empty one.

    A failure has its verdict as key: ``error: TEXT``, ``conflict: TEXT``. ``late: true`` and
    ``crash: true`` have no text, as delays and reasons of disconnects vary.
    """
    found = entries_in_order(replies, name_of)
    return dict(sorted(found.items(), key=lambda entry: entry[0].place))


def entries_in_order(replies: Iterable[Reply], name_of: NameOf) -> dict[Key, dict[str, Plain]]:
    """Return the content of each reply as `entries_of` does, but in the order of the replies."""
    found: dict[Key, dict[str, Plain]] = {}
    for reply in replies:
        times = max(1, reply.occurrence)
        while (key := _key(reply, times)) in found:
            times += 1
        found[key] = _content(reply, name_of)
    return found


def is_quiet(entry: object) -> bool:
    """Return whether the reply, or the expected one, is empty."""
    return entry == {}


def fingerprint(runtime: str, events: Iterable[tuple[str, str]]) -> str:
    """Return a hash of the runtime and the sequence of (subject, event).

    It omits ids and times, so that two recordings of the same test have the same fingerprint.
    """
    digest = blake2b(runtime.encode("utf-8", "surrogatepass"), digest_size=8)
    for subject, event in events:
        digest.update(f"\0{subject}\0{event}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _key(reply: Reply, times: int) -> Key:
    alone = times == 1 and reply.event != QUIET
    event = reply.event if alone else f"{reply.event}#{times}"
    return Key(reply.plugin, reply.subject or SESSION, event)


def _content(reply: Reply, name_of: NameOf) -> dict[str, Plain]:
    content = {} if reply.message is None else plain_reply(reply.message, name_of)
    if reply.verdict in (Verdict.LATE, Verdict.CRASH):
        content[reply.verdict.value] = True
    elif reply.verdict is not Verdict.OK:
        content[reply.verdict.value] = reply.problem
    return content


def _split(event: str) -> tuple[str, int]:
    numbered = _TIMES.fullmatch(event)
    return (numbered[1], int(numbered[2])) if numbered else (event, 1)
