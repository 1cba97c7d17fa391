# SPDX-License-Identifier: Apache-2.0
"""Entries of a golden, one for each reply, and the layout of its file.

.. code-block:: yaml

    golden: 1
    recording: containerd 2.1.9, 43 events of 7 containers
    fingerprint: 3fa94c0a94e2b1d7
    profile: recorded
    plugins:
      10-mine:
        session:
          quiet: [Synchronize]
        shop/web/app:
          CreateContainer:
            adjust:
              env:
                FOO: bar
          quiet: [PostCreateContainer, StartContainer]

``quiet`` names the events with empty replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, cast

from nri_scope.errors import did_you_mean
from nri_scope.nri.events import CONFIGURE, SYNCHRONIZE, EventKind
from nri_scope.nri.plain import Plain
from nri_scope.text.yaml_reader import MalformedYaml, Node
from nri_scope.text.yaml_text import FlowList

from ..replies import Reply, Verdict
from .matchers import Expected, Ignored, Matcher, Present
from .reply_values import NameOf, plain_reply

SESSION = "session"
"""Subject in a golden for replies not about a pod. It has no slash, as pods' subjects have."""

QUIET = "quiet"
"""Key that lists the events with empty replies; no event has this name."""

_FIRST = (CONFIGURE, SYNCHRONIZE)
_RANKS = {
    name: rank
    for rank, name in enumerate((*_FIRST, *(event.name for event in sorted(EventKind))), start=1)
}
_TIMES = re.compile(r"(.*)#([1-9][0-9]{0,8})", re.ASCII | re.DOTALL)


class ReplyKey(NamedTuple):
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
    def sort_key(self) -> tuple[str, bool, str, int, str, int]:
        """Sort key of goldens: events of one subject are in the order of its lifecycle."""
        kind, times = _split(self.event)
        rank = _RANKS.get(kind, len(_RANKS) + 1)
        return self.plugin, self.subject != SESSION, self.subject, rank, kind, times


def entries_of(replies: Iterable[Reply], name_of: NameOf) -> dict[ReplyKey, dict[str, Plain]]:
    """Return the content of each reply, in the order of a golden; {} for an empty one.

    A failure has its verdict as key: ``error: TEXT``, ``conflict: TEXT``. ``late: true`` and
    ``crash: true`` have no text, as delays and reasons of disconnects vary.
    """
    entries = entries_in_order(replies, name_of)
    return dict(sorted(entries.items(), key=lambda entry: entry[0].sort_key))


def entries_in_order(replies: Iterable[Reply], name_of: NameOf) -> dict[ReplyKey, dict[str, Plain]]:
    """Return the content of each reply as `entries_of` does, but in the order of the replies."""
    entries: dict[ReplyKey, dict[str, Plain]] = {}
    for reply in replies:
        times = max(1, reply.occurrence)
        while (key := _key(reply, times)) in entries:
            times += 1
        entries[key] = _content(reply, name_of)
    return entries


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


def _key(reply: Reply, times: int) -> ReplyKey:
    alone = times == 1 and reply.event != QUIET
    event = reply.event if alone else f"{reply.event}#{times}"
    return ReplyKey(reply.plugin, reply.subject or SESSION, event)


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


VERSION = 1

_VERSION, _RECORDING, _FINGERPRINT, _PROFILE, _PLUGINS = _KEYS = (
    "golden",
    "recording",
    "fingerprint",
    "profile",
    "plugins",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Recording and profile to which a golden belongs."""

    recording: str
    """Description for users: runtime and version, number of events and containers."""
    fingerprint: str
    """Result of `fingerprint`, checked before a comparison."""
    profile: str
    """Name of the runtime's profile, checked before a comparison."""


def write_tree(origin: Origin, entries: Mapping[ReplyKey, Expected]) -> dict[str, Expected]:
    """Return the document for `to_yaml`; ``entries`` in the order of a golden."""
    plugins: dict[str, dict[str, dict[str, Expected]]] = {}
    empty: dict[tuple[str, str], FlowList[Expected]] = {}
    for key, entry in entries.items():
        events = plugins.setdefault(key.plugin, {}).setdefault(key.subject, {})
        if is_quiet(entry):
            empty.setdefault((key.plugin, key.subject), FlowList[Expected]()).append(key.event)
        else:
            events[key.event] = entry
    # List them after the non-empty replies.
    for (plugin, subject), quiet in empty.items():
        plugins[plugin][subject][QUIET] = quiet
    return {
        _VERSION: VERSION,
        _RECORDING: origin.recording,
        _FINGERPRINT: origin.fingerprint,
        _PROFILE: origin.profile,
        _PLUGINS: {plugin: {**subjects} for plugin, subjects in plugins.items()},
    }


def read_tree(root: Node) -> tuple[Origin, dict[ReplyKey, Expected], dict[ReplyKey, int]]:
    """Return origin, entries and their lines. Raises MalformedYaml for other documents."""
    top = _mapping(root, "a golden")
    if _VERSION not in top:
        raise MalformedYaml(root.line, f"not a golden: the key {_VERSION!r} is missing")
    version = top[_VERSION].value
    if version != VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > VERSION
        raise MalformedYaml(
            top[_VERSION].line,
            f"golden version {version if isinstance(version, int | str) else '?'} is not supported:"
            f" this nri-scope reads version {VERSION}",
            "upgrade nri-scope" if newer else "",
        )
    for key, node in top.items():
        if key not in _KEYS:
            hint = did_you_mean(key[:40], _KEYS, cutoff=0.5) or f"known are {', '.join(_KEYS)}"
            raise MalformedYaml(node.line, f"unknown key {key[:80]!r}", hint)
    for key in _KEYS:
        if key not in top:
            raise MalformedYaml(root.line, f"the key {key!r} is missing")
    origin = Origin(
        recording=_text(top[_RECORDING], _RECORDING),
        fingerprint=_text(top[_FINGERPRINT], _FINGERPRINT),
        profile=_text(top[_PROFILE], _PROFILE),
    )
    nodes: dict[ReplyKey, Node] = {}
    for plugin, subjects in _mapping(top[_PLUGINS], _PLUGINS).items():
        for subject, events in _mapping(subjects, f"plugin {plugin[:80]!r}").items():
            for event, node in _events(events, f"subject {subject[:80]!r}"):
                key_of = ReplyKey(plugin, subject, event)
                if key_of in nodes:
                    raise MalformedYaml(node.line, f"{event[:80]!r} is listed twice")
                nodes[key_of] = node
    ordered = sorted(nodes.items(), key=lambda entry: entry[0].sort_key)
    return (
        origin,
        # All tags are matchers.
        {key: cast("Expected", node.tree()) for key, node in ordered},
        {key: node.line for key, node in ordered},
    )


def _events(subject: Node, what: str) -> list[tuple[str, Node]]:
    events: list[tuple[str, Node]] = []
    for event, node in _mapping(subject, what).items():
        if event != QUIET:
            events.append((event, _entry(node, event)))
            continue
        if not isinstance(node.value, list):
            raise MalformedYaml(node.line, f"{QUIET!r} is not a list of events")
        for item in node.value:
            events.append((_text(item, f"an entry of {QUIET!r}"), Node(item.line, {})))
    return events


def _entry(node: Node, event: str) -> Node:
    if isinstance(node.value, dict | Present | Ignored):
        return node
    kind = node.value.tag if isinstance(node.value, Matcher) else "not a mapping"
    raise MalformedYaml(
        node.line,
        f"the reply to {event[:80]!r} is {kind}",
        "write a mapping, !present or !ignored",
    )


def _mapping(node: Node, what: str) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise MalformedYaml(node.line, f"{what} is not a mapping")
    return node.value


def _text(node: Node, what: str) -> str:
    # A fingerprint of digits may be written without quotes.
    if isinstance(node.value, bool) or not isinstance(node.value, str | int):
        raise MalformedYaml(node.line, f"{what} is not a text")
    return str(node.value)
