# SPDX-License-Identifier: Apache-2.0
"""The fields that a filter can name: one table for the parser, help texts and completion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from nri_scope.events import CONTAINER_STATUS, Status
from nri_scope.nri.methods import METHODS


class FieldKind(Enum):
    """How values of a field are compared; each text is the term for it in help texts."""

    NAME = "name"
    """Exact; ``*`` matches any text."""
    WORD = "word"
    """Like a name, but case-insensitive."""
    STATUS = "status"
    """One of the values of ``Status``."""
    PLUGIN = "plugin"
    """A name with or without its index: ``00-probe`` or ``probe``."""
    ID = "id"
    """A prefix of an id."""
    PATH = "path"
    """An OCI path or one of its parents."""
    NUMBER = "number"
    INDEX = "index"
    DURATION = "duration"
    SIZE = "size"


NUMERIC = frozenset((FieldKind.NUMBER, FieldKind.INDEX, FieldKind.DURATION, FieldKind.SIZE))
"""Kinds compared with ``>`` and ``<``, which have no text to search."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the filter language."""

    name: str
    kind: FieldKind
    columns: tuple[str, ...]
    """Attributes of ``events.Event``, which are also columns of the reader's event view."""
    doc: str
    example: str
    many: bool = False
    """Whether the column holds several values (tuple; in the view a JSON array): any may match."""
    also: tuple[str, ...] = ()
    """Other spellings that users may try; the error for these gives the correct name."""
    known: tuple[str, ...] = ()
    """The existing values; others need a ``*``, as later versions may add values."""


FIELDS: tuple[Field, ...] = (
    Field(
        "event",
        FieldKind.WORD,
        ("event",),
        "what happened; upper or lower case",
        "event:CreateContainer",
        also=("method", "type", "rpc"),
        known=(*METHODS, CONTAINER_STATUS),
    ),
    Field(
        "plugin",
        FieldKind.PLUGIN,
        ("plugin",),
        "plugin that received the event; with or without its index",
        "plugin:00-nri-scope",
        also=("plugin_name", "name"),
    ),
    Field(
        "index",
        FieldKind.INDEX,
        ("plugin",),
        "index of that plugin",
        "index:>=50",
        also=("idx", "plugin_index", "plugin_idx"),
    ),
    Field(
        "pod",
        FieldKind.NAME,
        ("pod",),
        "name of the pod",
        "pod:web-*",
        also=("pod_name", "sandbox"),
    ),
    Field(
        "ns",
        FieldKind.NAME,
        ("namespace",),
        "namespace of the pod",
        "ns:kube-*",
        also=("namespace",),
    ),
    Field(
        "container",
        FieldKind.NAME,
        ("container",),
        "name of the container",
        "container:app",
        also=("container_name", "ctr"),
    ),
    Field(
        "id",
        FieldKind.ID,
        ("container_id", "pod_id"),
        "beginning of a pod's or a container's id",
        "id:3f5a",
        also=("container_id", "pod_id", "uid"),
    ),
    Field(
        "runtime",
        FieldKind.WORD,
        ("runtime",),
        "name of the runtime; upper or lower case",
        "runtime:containerd",
    ),
    Field("session", FieldKind.NUMBER, ("session",), "number of the session", "session:2"),
    Field(
        "status",
        FieldKind.STATUS,
        ("status",),
        "how the event was answered: " + ", ".join(Status),
        "-status:ok",
        also=("result", "error"),
    ),
    Field(
        "took",
        FieldKind.DURATION,
        ("took_ns",),
        "time to the answer; ns us ms s m h d, a bare number is us",
        "took:>500us",
        also=("took_us", "took_ns", "duration", "time", "latency"),
    ),
    Field(
        "size",
        FieldKind.SIZE,
        ("size",),
        "bytes of the request; k, M and G are powers of 1024",
        "size:>4k",
        also=("bytes", "length"),
    ),
    Field(
        "changed",
        FieldKind.PATH,
        ("changed",),
        "OCI path that plugins changed, or one above it",
        "changed:/process/env",
        many=True,
        also=("changes", "path"),
    ),
    Field(
        "owner",
        FieldKind.PLUGIN,
        ("owners",),
        "plugin that made such a change; with or without its index",
        "owner:cpu-policy",
        many=True,
        also=("owners",),
    ),
)
"""All fields, in the order of the help texts."""

WORD_COLUMNS = ("event", "pod", "namespace", "container", "plugin", "container_id", "pod_id")
"""The columns in which a bare word is searched for."""

BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}

_NEAR = 0.6
"""Minimum similarity, as computed by difflib, for suggesting a word."""


def nearest_field(name: str) -> Field | None:
    """Return the field that the user most likely meant by ``name``, or None if none is similar."""
    spellings = {field.name: field for field in FIELDS}
    for field in FIELDS:
        for spelling in field.also:
            spellings.setdefault(spelling, field)
    return spellings.get(nearest(name, spellings))


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the word of ``known`` most similar to ``word``, ignoring case; "" if none is."""
    by_lower = {each.lower(): each for each in known}
    # Long words take quadratic time; misspelt words are shorter than 64 characters.
    found = difflib.get_close_matches(word[:64].lower(), list(by_lower), n=1, cutoff=_NEAR)
    return by_lower[found[0]] if found else ""
