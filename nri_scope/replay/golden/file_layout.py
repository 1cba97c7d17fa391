# SPDX-License-Identifier: Apache-2.0
"""Layout of a golden: version, recording and profile, then plugins, subjects and events.

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

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from nri_scope.text.yaml_reader import MalformedYaml, Node
from nri_scope.text.yaml_text import FlowList

from .entries import QUIET, Key, is_quiet
from .matchers import Expected, Ignored, Matcher, Present

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


def write_tree(origin: Origin, entries: Mapping[Key, Expected]) -> dict[str, Expected]:
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


def read_tree(root: Node) -> tuple[Origin, dict[Key, Expected], dict[Key, int]]:
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
            raise MalformedYaml(node.line, f"unknown key {key[:80]!r}", _nearest(key, _KEYS))
    for key in _KEYS:
        if key not in top:
            raise MalformedYaml(root.line, f"the key {key!r} is missing")
    origin = Origin(
        recording=_text(top[_RECORDING], _RECORDING),
        fingerprint=_text(top[_FINGERPRINT], _FINGERPRINT),
        profile=_text(top[_PROFILE], _PROFILE),
    )
    nodes: dict[Key, Node] = {}
    for plugin, subjects in _mapping(top[_PLUGINS], _PLUGINS).items():
        for subject, events in _mapping(subjects, f"plugin {plugin[:80]!r}").items():
            for event, node in _events(events, f"subject {subject[:80]!r}"):
                key_of = Key(plugin, subject, event)
                if key_of in nodes:
                    raise MalformedYaml(node.line, f"{event[:80]!r} is listed twice")
                nodes[key_of] = node
    ordered = sorted(nodes.items(), key=lambda entry: entry[0].place)
    return (
        origin,
        # All tags are matchers.
        {key: cast("Expected", node.tree()) for key, node in ordered},
        {key: node.line for key, node in ordered},
    )


def _events(subject: Node, what: str) -> list[tuple[str, Node]]:
    found: list[tuple[str, Node]] = []
    for event, node in _mapping(subject, what).items():
        if event != QUIET:
            found.append((event, _entry(node, event)))
            continue
        if not isinstance(node.value, list):
            raise MalformedYaml(node.line, f"{QUIET!r} is not a list of events")
        for item in node.value:
            found.append((_text(item, f"an entry of {QUIET!r}"), Node(item.line, {})))
    return found


def _entry(node: Node, event: str) -> Node:
    if isinstance(node.value, dict | Present | Ignored):
        return node
    found = node.value.tag if isinstance(node.value, Matcher) else "not a mapping"
    raise MalformedYaml(
        node.line,
        f"the reply to {event[:80]!r} is {found}",
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


def _nearest(key: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(key[:40], known, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
