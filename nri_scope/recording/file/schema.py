# SPDX-License-Identifier: Apache-2.0
"""Define the tables of a recording: their SQL, comments and documentation.

The comments are stored in the file, so that ``.schema`` in the sqlite3 shell explains the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from .sqlite_text import NAME_MAX, WORDS_MAX, cut_sql, list_sql

APPLICATION_ID = 0x4E524953
"""``PRAGMA application_id`` of every recording: "NRIS" in ASCII."""
VERSION = 1
"""``PRAGMA user_version``. Increased for every change except new tables and indexes."""
STARTS_MAX = 30
"""Maximum number of starts whose calls of plugins, by the runtime's metrics, are kept."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column; ``type`` is SQL, with constraints."""

    name: str
    type: str
    comment: str
    since: int = 1
    """The first `VERSION` with this column. A later one needs a DEFAULT, which readers find in
    older recordings, or may be NULL."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table; ``key`` is a primary key of several columns, which also orders the rows on disk.

    ``indexes`` are columns that each have an index, over the rows with a value.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    since_first: bool = True
    """Whether every recording of this version has the table; False if it was added later."""


_ID = "INTEGER PRIMARY KEY"
_INT = "INTEGER NOT NULL"
_TEXT = "TEXT NOT NULL"

TABLES = (
    Table(
        "session",
        "One plugin connection, from registration to close.",
        (
            Column("id", _ID, "ascending in the order of the sessions' start"),
            Column("role", _TEXT, "writer: logger, probe, tap, replay, scenario, cri or v0.1"),
            Column("plugin_name", _TEXT, "name of the connected plugin"),
            Column(
                "plugin_index", _TEXT, "two digits, the plugin's place in the chain; empty: none"
            ),
            Column("runtime_name", _TEXT, "from Configure; empty if none arrived"),
            Column("runtime_version", _TEXT, "from Configure"),
            Column("nri_version", _TEXT, "reported by the runtime or inferred; empty if unknown"),
            Column("nri_version_inferred", _INT, "1 if inferred, 0 if reported by the runtime"),
            Column("mask", _INT, "events subscribed to: event n is bit n-1"),
            Column("registration_timeout_ms", _INT, "0 if the runtime does not report it"),
            Column("request_timeout_ms", _INT, "0 if the runtime does not report it"),
            Column("started_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column(
                "ended_ns",
                "INTEGER",
                "wall clock; NULL: open, or its recorder was killed, and none continued the file",
            ),
            Column("end_reason", _TEXT, "text; empty while open"),
            Column("sync_event", "INTEGER", "event of the first part of the newest Synchronize"),
            Column("synced_ns", "INTEGER", "arrival of its last part; NULL: incomplete"),
            Column("first_event", _INT, "no event of this session has a smaller id"),
            Column(
                "last_event", "INTEGER", "no event of this session has a larger id; NULL while open"
            ),
        ),
    ),
    Table(
        "event",
        "One request to one plugin connection, with its reply.",
        (
            Column("id", _ID, "ascending in the order of recording"),
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("seq", _INT, "place in the session from 1; missing numbers were not recorded"),
            Column("at_ns", _INT, "wall clock when the request was complete, ns since 1970 UTC"),
            Column("mono_ns", _INT, "the same time on the host's monotonic clock"),
            Column("method", "INTEGER NOT NULL REFERENCES name(id)", "the RPC on the wire"),
            Column("event", "INTEGER NOT NULL REFERENCES name(id)", "the NRI event"),
            Column(
                "service",
                "INTEGER REFERENCES name(id)",
                "ttRPC service; NULL: the method's usual one",
            ),
            Column("pod", "INTEGER REFERENCES pod(key)", "the event's pod"),
            Column("container", "INTEGER REFERENCES container(key)", "the event's container"),
            Column("pod_object", "INTEGER REFERENCES object(id)", "the pod in the request"),
            Column(
                "container_object", "INTEGER REFERENCES object(id)", "the container in the request"
            ),
            Column(
                "request", "INTEGER REFERENCES object(id)", "the rest of the request; NULL: nothing"
            ),
            Column("reply", "INTEGER REFERENCES object(id)", "the reply; NULL: empty"),
            Column(
                "status_code", _INT, "google.rpc.Code of the reply; 0: OK, 4: deadline exceeded"
            ),
            Column("status_message", "TEXT", "error message; NULL: none"),
            Column(
                "took_ns",
                _INT,
                "from the request's last byte until the reply was sent; 0 if not measured",
            ),
            Column("timeout_ns", _INT, "deadline sent with the request; 0: none"),
            Column("size", _INT, "bytes of the request on the wire"),
            Column("mark", "TEXT", "malformed, unknown or oversized: stored as received"),
            Column("changed", "TEXT", "JSON array of OCI paths that plugins asked to change"),
            Column("owners", "TEXT", "JSON array of the plugins (NN-name) that asked for it"),
        ),
        indexes=("pod", "container"),
    ),
    Table(
        "effect",
        "Other containers that an event requests to update or evict.",
        (
            Column("container", "INTEGER NOT NULL REFERENCES container(key)", ""),
            Column("event", "INTEGER NOT NULL REFERENCES event(id)", ""),
        ),
        key=("container", "event"),
        indexes=("event",),
        since_first=False,
    ),
    Table(
        "object",
        "Messages by content; each is stored once per stretch.",
        (
            Column("id", _ID, "ascending"),
            Column("kind", _INT, "0 not decoded, 1 pod, 2 container, 3 request, 4 reply"),
            Column("hash", "BLOB NOT NULL", "BLAKE2b, 16 bytes, of the whole content"),
            Column("size", _INT, "bytes of the whole content"),
            Column(
                "base", "INTEGER REFERENCES object(id)", "object whose content is the dictionary"
            ),
            Column("data", "BLOB NOT NULL", "zstd, or uncompressed if length(data) = size"),
        ),
    ),
    Table(
        "state",
        "Pods and containers in Synchronize, which existed before the session.",
        (
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("event", "INTEGER NOT NULL REFERENCES event(id)", "part of Synchronize"),
            Column("position", _INT, "in the part, from 0: the pods, then the containers"),
            Column("pod", "INTEGER REFERENCES pod(key)", "the pod, or the container's pod"),
            Column("container", "INTEGER REFERENCES container(key)", ""),
            Column("object", "INTEGER NOT NULL REFERENCES object(id)", "the message"),
        ),
        key=("session", "event", "position"),
    ),
    Table(
        "pod",
        "Pods by name.",
        (
            Column("key", _ID, "ascending"),
            Column("id", _TEXT, "the sandbox id"),
            Column("namespace", _TEXT, "empty if unknown, also the next two"),
            Column("name", _TEXT, ""),
            Column("uid", _TEXT, ""),
        ),
        indexes=("id",),
    ),
    Table(
        "container",
        "Containers by name.",
        (
            Column("key", _ID, "ascending"),
            Column("id", _TEXT, "no-id- and an event's number if none was assigned (iSulad)"),
            Column("name", _TEXT, ""),
            Column("pod", "INTEGER REFERENCES pod(key)", ""),
        ),
        indexes=("id", "pod"),
    ),
    Table(
        "gap",
        "Intervals that were not fully observed, or whose events were removed.",
        (
            Column("id", _ID, "ascending"),
            Column("session", "INTEGER REFERENCES session(id)", "NULL: none or all"),
            Column("from_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column("to_ns", _INT, "wall clock"),
            Column("reason", _TEXT, ""),
            Column("lost", "INTEGER", "number of lost events; NULL: unknown"),
        ),
    ),
    Table(
        "note",
        "Notes by the program that wrote the file.",
        (
            Column("id", _ID, "ascending"),
            Column("session", "INTEGER REFERENCES session(id)", "NULL: none or all"),
            Column("at_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column("text", _TEXT, ""),
        ),
    ),
    Table(
        "mark",
        "Events marked by a user.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", ""),
            Column("made_ns", _INT, "wall clock of the last change of mark or comment"),
            Column("comment", _TEXT, "text by the user; empty: none"),
        ),
        since_first=False,
    ),
    Table(
        "tapped",
        "Data of events that only a tap can observe, between runtime and plugin.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", ""),
            Column("held_ns", _INT, "time in the tap, request plus reply; not part of took_ns"),
            Column("metadata", "TEXT", "ttRPC metadata: JSON array of [key, value]; NULL: none"),
        ),
        since_first=False,
    ),
    Table(
        "request_metadata",
        "Trace context in the metadata of requests that no tap recorded.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", ""),
            Column("metadata", _TEXT, "JSON array of [key, value]: traceparent, tracestate"),
        ),
        since_first=False,
    ),
    Table(
        "output",
        "Lines printed by a plugin that the tap launched.",
        (
            Column("id", _ID, "ascending in the order of the lines' ends"),
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("at_ns", _INT, "wall clock of the line's start, ns since 1970 UTC"),
            Column("stream", _TEXT, "stdout or stderr"),
            Column("text", _TEXT, "without line end"),
        ),
        since_first=False,
    ),
    Table(
        "plugin_calls",
        "Calls of plugins by the runtime's metrics (`record --metrics`), of the last "
        f"{STARTS_MAX} starts of the runtime or of `record`.",
        (
            Column("since_ns", _INT, "first reading, wall clock; each start has its own"),
            Column("plugin", _TEXT, "NN-name"),
            Column("operation", _TEXT, "the NRI event, or Synchronize"),
            Column("until_ns", _INT, "newest reading, wall clock"),
            Column("calls", _INT, "between the two readings"),
            Column("errors", _INT, "calls with an error status or without an answer"),
            Column("took_ns", _INT, "total time of the calls, measured by the runtime"),
        ),
        key=("since_ns", "plugin", "operation"),
        since_first=False,
    ),
    Table(
        "left_out",
        "In a part of a recording: positions of omitted events.",
        (
            Column(
                "event",
                f"{_ID} REFERENCES event(id)",
                "the next included event of the same session",
            ),
            Column("seq", _INT, "place in the session of the last omitted event before it"),
            Column("count", _INT, "number omitted since the session's previous included event"),
        ),
        since_first=False,
    ),
    Table(
        "outcome",
        "In a part of a recording: outcomes of creations, shown by omitted events.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", "the CreateContainer"),
            Column("fate", _TEXT, "created, failed or open (the session ended first)"),
            Column("shown_by", _INT, "event that shows the failure; 0: none"),
            Column("name", _TEXT, "name of that event; empty: StopContainer's container shows it"),
            Column("session", _INT, "session of an open creation; 0: none"),
            Column("after_ns", _INT, "of an open creation: time until that session ended"),
        ),
        since_first=False,
    ),
    Table(
        "name",
        "Names shared by events: methods, events, services.",
        (
            Column("id", _ID, "ascending"),
            Column("text", "TEXT NOT NULL UNIQUE", ""),
        ),
    ),
    Table(
        "stretch",
        "Sections of the recording that share no objects, so the oldest can be removed.",
        (
            Column("id", _ID, "ascending"),
            Column("first_event", _INT, "no event of the stretch has a smaller id"),
            Column("first_object", _INT, "no object of the stretch has a smaller id"),
        ),
    ),
)

_JOINS = """
FROM event AS e
LEFT JOIN session AS s ON s.id = e.session
LEFT JOIN name AS m ON m.id = e.method
LEFT JOIN name AS n ON n.id = e.event
LEFT JOIN pod AS p ON p.key = e.pod
LEFT JOIN container AS c ON c.key = e.container
""".strip()

_PLUGIN = (
    "CASE s.plugin_index WHEN '' THEN s.plugin_name ELSE s.plugin_index || '-' || s.plugin_name END"
)
_STATUS = "CASE e.status_code WHEN 0 THEN 'ok' WHEN 4 THEN 'timeout' ELSE 'error' END"

_PROBLEM = (
    "CASE WHEN e.status_code <> 0 THEN 'failed' "
    "WHEN e.timeout_ns > 0 AND e.took_ns > e.timeout_ns / 2 THEN 'slow' ELSE '' END"
)


def _events_view(
    problem: str, changed: str, owners: str, outcomes: str, targets: str, joins: str
) -> str:
    return f"""
SELECT e.id AS id, e.session AS session, e.seq AS seq, e.at_ns AS at_ns, e.mono_ns AS mono_ns,
    coalesce({_PLUGIN}, '') AS plugin,
    coalesce(s.runtime_name, '') AS runtime,
    coalesce(m.text, '') AS method, coalesce(n.text, '') AS event,
    coalesce(p.namespace, '') AS namespace, coalesce(p.name, '') AS pod,
    coalesce(c.name, '') AS container,
    coalesce(p.id, '') AS pod_id, coalesce(c.id, '') AS container_id,
    e.took_ns AS took_ns, e.timeout_ns AS timeout_ns, e.size AS size,
    {_STATUS} AS status, e.status_code AS status_code,
    coalesce({cut_sql("e.status_message", WORDS_MAX)}, '') AS status_message,
    coalesce({cut_sql("e.mark", NAME_MAX)}, '') AS mark,
    {problem} AS problem, {changed} AS changed, {owners} AS owners,
    {outcomes} AS outcomes, {targets} AS targets
{_JOINS}{joins}
""".strip()


EVENTS_VIEW = _events_view(
    _PROBLEM, list_sql("e.changed"), list_sql("e.owners"), "'[]'", "'[]'", ""
)
"""View with the columns of `events.Event`, in order and never NULL, for filters and readers."""

CHANGES_VIEW = (
    "SELECT e.id AS id, e.changed, e.owners, NULL AS changed_by, NULL AS own_by, "
    f"{_PROBLEM} AS problem FROM event AS e"
)
"""View of each event's requests, for scans; lists may be NULL. ``changed_by``: owners of changes;
``own_by``: of changes of the event's own container."""

ATTRIBUTION = "attribution"
"""Name of an attached `attribution_file`."""
_ATTRIBUTED_JOINS = f"""
LEFT JOIN {ATTRIBUTION}.event AS a ON a.id = e.id
LEFT JOIN {ATTRIBUTION}.change AS d ON d.id = a.change"""


def _attributed(column: str, recorded: str) -> str:
    return f"iif(e.id <= (SELECT until FROM {ATTRIBUTION}.progress), d.{column}, {recorded})"


_ATTRIBUTED_PROBLEM = f"iif(a.problem <> '', a.problem, {_PROBLEM})"
_CHANGED, _OWNERS = _attributed("changed", "e.changed"), _attributed("owners", "e.owners")

ATTRIBUTED_VIEWS = {
    "events": _events_view(
        _ATTRIBUTED_PROBLEM,
        list_sql(_CHANGED),
        list_sql(_OWNERS),
        f"coalesce({_attributed('outcomes', 'NULL')}, '[]')",
        f"coalesce({_attributed('targets', 'NULL')}, '[]')",
        _ATTRIBUTED_JOINS,
    ),
    "changes": f"SELECT e.id AS id, {_CHANGED} AS changed, {_OWNERS} AS owners, "
    f"{_attributed('changed_by', 'NULL')} AS changed_by, "
    f"{_attributed('own_by', 'NULL')} AS own_by, "
    f"{_ATTRIBUTED_PROBLEM} AS problem FROM event AS e {_ATTRIBUTED_JOINS}",
}
"""Both views with the values of an `attribution_file`, as far as it reaches."""

LOG_VIEW = f"""
SELECT e.id AS id,
    strftime('%Y-%m-%dT%H:%M:%S', e.at_ns / 1000000000, 'unixepoch')
        || printf('.%06dZ', e.at_ns % 1000000000 / 1000) AS at,
    e.session AS session, {_PLUGIN} AS plugin,
    n.text AS event, p.namespace AS namespace, p.name AS pod, c.name AS container,
    {_STATUS} AS status, e.took_ns / 1000 AS took_us,
    (e.timeout_ns + 500000) / 1000000 AS deadline_ms,
    e.size AS size, m.text AS method, p.id AS pod_id, c.id AS container_id
{_JOINS}
""".strip()

VIEWS = {"log": LOG_VIEW}
"""Views in the file, for users of the sqlite3 shell. `reader` creates temporary views instead.

A reader refuses a file with any other view, so changing one requires a new version.
"""

_BEFORE_CRI = LOG_VIEW.replace(_PLUGIN, "s.plugin_index || '-' || s.plugin_name")
_ROUNDED, _CUT_OFF = "(e.timeout_ns + 500000) / 1000000", "e.timeout_ns / 1000000"

OLDER_VIEWS = {"log": (_BEFORE_CRI, _BEFORE_CRI.replace(_ROUNDED, _CUT_OFF))}
"""Definitions of `VIEWS` in files of this version that were written before its release."""


def table_sql(table: Table) -> str:
    """Return ``CREATE TABLE`` with comments."""
    parts = [(f"{column.name} {column.type}", column.comment) for column in table.columns]
    if table.key:
        parts.append((f"PRIMARY KEY ({', '.join(table.key)})", ""))
    lines = [
        f"  {text}{',' if number < len(parts) else ''}{f'  -- {comment}' if comment else ''}"
        for number, (text, comment) in enumerate(parts, 1)
    ]
    end = ") WITHOUT ROWID" if table.key else ")"
    return "\n".join([f"CREATE TABLE {table.name} (  -- {table.comment}", *lines, end])


def index_sql(table: Table, column: str) -> str:
    """Return ``CREATE INDEX`` for one of the table's `indexes`."""
    index = f"CREATE INDEX {table.name}_by_{column} ON {table.name}({column})"
    may_be_null = any(c.name == column and "NOT NULL" not in c.type for c in table.columns)
    return f"{index} WHERE {column} IS NOT NULL" if may_be_null else index


def table_statements(table: Table) -> list[str]:
    """Return the statements that create one table with its indexes, in order."""
    return [table_sql(table), *(index_sql(table, column) for column in table.indexes)]


def statements() -> list[str]:
    """Return the statements that create an empty recording, in order."""
    made = [statement for table in TABLES for statement in table_statements(table)]
    made += [f"CREATE VIEW {name} AS\n{sql}" for name, sql in VIEWS.items()]
    return made


def insert_sql(name: str, verb: str = "INSERT") -> str:
    """Return the statement that inserts rows with all columns of a table, in schema order.

    It names the columns, as other programs may have added some.
    """
    names = [column.name for table in TABLES if table.name == name for column in table.columns]
    return f"{verb} INTO {name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
