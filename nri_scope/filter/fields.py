# SPDX-License-Identifier: Apache-2.0
"""Fields of the filter language: one table for the parser, help texts and completion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nri_scope.errors import nearest_word
from nri_scope.events import CONTAINER_STATUS, OutcomeKind, Problem, Status
from nri_scope.nri.events import METHODS
from nri_scope.nri.v01 import INVOCATIONS, INVOKE


class FieldKind(Enum):
    """Type of a field, which determines the comparison; its value is the name for messages."""

    NAME = "name"
    """Exact; ``*`` matches any text."""
    WORD = "word"
    """Like a name, but case-insensitive."""
    CHOICE = "choice"
    """One of the field's known values."""
    PLUGIN = "plugin"
    """A name with or without its index: ``00-probe`` or ``probe``."""
    ID = "id"
    """A prefix of an id."""
    PATH = "path"
    """An OCI path, one of its parents, or a key in it; see `specs.path_labels.meaning`."""
    NUMBER = "number"
    INDEX = "index"
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"
    """A point in time or a range; see `moments`."""


NUMERIC = frozenset(
    (FieldKind.NUMBER, FieldKind.INDEX, FieldKind.DURATION, FieldKind.SIZE, FieldKind.TIME)
)
"""Kinds compared with ``>`` and ``<``; regular expressions cannot match them."""


@dataclass(frozen=True, slots=True)
class FilterField:
    """One field of the filter language."""

    name: str
    kind: FieldKind
    columns: tuple[str, ...]
    """Attributes of ``events.Event``, and columns of the reader's event view."""
    doc: str
    example: str
    many: bool = False
    """Whether the value is a tuple (a JSON array in the view), any item of which may match."""
    wrong_names: tuple[str, ...] = ()
    """Names that users may try instead; their error suggests this field."""
    known: tuple[str, ...] = ()
    """Known values; a filter for another value needs a ``*``, as later versions may add values."""


FIELDS: tuple[FilterField, ...] = (
    FilterField(
        "event",
        FieldKind.WORD,
        ("event",),
        "name of the event, in any case",
        "event:CreateContainer",
        wrong_names=("method", "type", "rpc"),
        known=(*METHODS, CONTAINER_STATUS, INVOKE, *INVOCATIONS),
    ),
    FilterField(
        "plugin",
        FieldKind.PLUGIN,
        ("plugin",),
        "plugin that received the event; with or without its index",
        "plugin:00-nri-scope",
        wrong_names=("plugin_name", "name"),
    ),
    FilterField(
        "index",
        FieldKind.INDEX,
        ("plugin",),
        "index of that plugin",
        "index:>=50",
        wrong_names=("idx", "plugin_index", "plugin_idx"),
    ),
    FilterField(
        "pod",
        FieldKind.NAME,
        ("pod",),
        "name of the pod; NAMESPACE/NAME for the namespace, too",
        "pod:web-*",
        wrong_names=("pod_name", "sandbox"),
    ),
    FilterField(
        "ns",
        FieldKind.NAME,
        ("namespace",),
        "namespace of the pod",
        "ns:kube-*",
        wrong_names=("namespace",),
    ),
    FilterField(
        "container",
        FieldKind.NAME,
        ("container",),
        "name of the container, also as NAMESPACE/POD/NAME",
        "container:app",
        wrong_names=("container_name", "ctr"),
    ),
    FilterField(
        "id",
        FieldKind.ID,
        ("container_id", "pod_id"),
        "prefix of a pod's or container's id",
        "id:3f5a",
        wrong_names=("container_id", "pod_id", "uid"),
    ),
    FilterField(
        "runtime",
        FieldKind.WORD,
        ("runtime",),
        "name of the runtime, in any case",
        "runtime:containerd",
    ),
    FilterField("session", FieldKind.NUMBER, ("session",), "number of the session", "session:2"),
    FilterField(
        "status",
        FieldKind.CHOICE,
        ("status",),
        "outcome of the event: " + ", ".join(Status),
        "-status:ok",
        wrong_names=("result", "error"),
        known=tuple(Status),
    ),
    FilterField(
        "problem",
        FieldKind.CHOICE,
        ("problem",),
        "failed (error, late reply, failed operation), or slow (over half of the deadline)",
        "problem:slow",
        wrong_names=("trouble", "finding"),
        known=tuple(Problem),
    ),
    FilterField(
        "took",
        FieldKind.DURATION,
        ("took_ns",),
        "time until the reply, in ns, us, ms, s, m, h or d (default: us)",
        "took:>500us",
        wrong_names=("took_us", "took_ns", "duration", "latency"),
    ),
    FilterField(
        "time",
        FieldKind.TIME,
        ("at_ns",),
        "time of the event, or a range of times, without its end",
        "time:14:05..14:10",
        wrong_names=("at", "at_ns", "since", "until", "timestamp"),
    ),
    FilterField(
        "size",
        FieldKind.SIZE,
        ("size",),
        "size of the request in bytes; k, M and G are powers of 1024",
        "size:>4k",
        wrong_names=("bytes", "length"),
    ),
    FilterField(
        "changed",
        FieldKind.PATH,
        ("changed",),
        "path that plugins asked to change, or a parent or key of it: `env FOO`, /process/env/FOO "
        "or FOO",
        'changed:"env FOO"',
        many=True,
        wrong_names=("changes", "path"),
    ),
    FilterField(
        "owner",
        FieldKind.PLUGIN,
        ("owners",),
        "plugin that asked for a change; with or without its index",
        "owner:cpu-policy",
        many=True,
        wrong_names=("owners",),
    ),
    FilterField(
        "outcome",
        FieldKind.CHOICE,
        ("outcomes",),
        "what became of a request for a change: " + ", ".join(OutcomeKind),
        "outcome:dropped",
        many=True,
        wrong_names=("outcomes", "applied", "effect"),
        known=tuple(OutcomeKind),
    ),
)
"""All fields, in the order of the help texts."""

WORD_COLUMNS = ("event", "pod", "namespace", "container", "plugin", "container_id", "pod_id")
"""Columns searched for a bare word."""

BY_NAME: dict[str, FilterField] = {field.name: field for field in FIELDS}
_ANNOTATION = "annotation of the pod: KEY or KEY=VALUE"
WORKLOAD_FIELDS = {name: BY_NAME[name] for name in ("pod", "ns", "container", "id")} | {
    "annotation": FilterField(
        "annotation", FieldKind.NAME, ("annotations",), _ANNOTATION, "annotation:gpu=yes", many=True
    )
}
"""Fields of conditions on pods and containers, which are no conditions on events."""

PARENTS: dict[str, tuple[str, ...]] = {"pod": ("ns",), "container": ("ns", "pod")}
"""Fields whose values may precede a field's own one, with slashes: ``pod:shop/web``."""


def nearest_field(name: str) -> FilterField | None:
    """Return the field most similar to ``name``, or None if none is similar."""
    spellings = {wrong: field for field in FIELDS for wrong in field.wrong_names} | BY_NAME
    return spellings.get(nearest_word(name, spellings))
