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


@dataclass(frozen=True, slots=True)
class Column:
    """Column; ``type`` is SQL, with constraints."""

    name: str
    type: str
    comment: str


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
        "One plugin connection, from register to close.",
        (
            Column("id", _ID, "counts up in the order in which sessions began"),
            Column("role", _TEXT, "who wrote it: logger, probe, tap, replay or cri"),
            Column("plugin_name", _TEXT, "the plugin that was connected"),
            Column("plugin_index", _TEXT, "its place in the chain, two digits; empty: none"),
            Column("runtime_name", _TEXT, "as the runtime said in Configure"),
            Column("runtime_version", _TEXT, "as the runtime said in Configure"),
            Column("nri_version", _TEXT, "as said by the runtime or inferred; empty if unknown"),
            Column("nri_version_inferred", _INT, "1 if it was not the runtime that said it"),
            Column("mask", _INT, "events subscribed to: event n is bit n-1"),
            Column("registration_timeout_ms", _INT, "0 where the runtime does not say"),
            Column("request_timeout_ms", _INT, "0 where the runtime does not say"),
            Column("started_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column("ended_ns", "INTEGER", "wall clock; NULL: open, or its recorder was killed"),
            Column("end_reason", _TEXT, "in words; empty while it is open"),
            Column("sync_event", "INTEGER", "event of the newest Synchronize's first part"),
            Column("synced_ns", "INTEGER", "when its last part came; NULL: it never did"),
            Column("first_event", _INT, "no event of this session has a smaller id"),
            Column("last_event", "INTEGER", "no event of it has a larger id; NULL while open"),
        ),
    ),
    Table(
        "event",
        "One request to one plugin connection, with its reply.",
        (
            Column("id", _ID, "counts up in the order in which events were recorded"),
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("seq", _INT, "place in its session from 1; what is missing was not recorded"),
            Column("at_ns", _INT, "wall clock when the request was complete, ns since 1970 UTC"),
            Column("mono_ns", _INT, "the same moment on the host's monotonic clock"),
            Column("method", "INTEGER NOT NULL REFERENCES name(id)", "the RPC on the wire"),
            Column("event", "INTEGER NOT NULL REFERENCES name(id)", "what happened"),
            Column("service", "INTEGER REFERENCES name(id)", "ttRPC service; NULL: the usual one"),
            Column("pod", "INTEGER REFERENCES pod(key)", "whom it is about"),
            Column("container", "INTEGER REFERENCES container(key)", "whom it is about"),
            Column("pod_object", "INTEGER REFERENCES object(id)", "the request's pod"),
            Column("container_object", "INTEGER REFERENCES object(id)", "the request's container"),
            Column("request", "INTEGER REFERENCES object(id)", "the rest of it; NULL: nothing"),
            Column("reply", "INTEGER REFERENCES object(id)", "the reply; NULL: empty"),
            Column("status_code", _INT, "google.rpc.Code of the answer; 0 is OK, 4 too late"),
            Column("status_message", "TEXT", "the error's words; NULL: none"),
            Column("took_ns", _INT, "from the request's last byte to the reply's hand-over"),
            Column("timeout_ns", _INT, "the deadline that came with the request; 0: none"),
            Column("size", _INT, "bytes of the request on the wire"),
            Column("mark", "TEXT", "malformed, unknown or oversized: the request as it came"),
            Column("changed", "TEXT", "JSON array of the OCI paths that plugins changed"),
            Column("owners", "TEXT", "JSON array of the plugins (NN-name) that did"),
        ),
        indexes=("pod", "container"),
    ),
    Table(
        "effect",
        "Containers that an event asked to update or evict, beside the one that it is about.",
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
        "Messages by content; each is kept once in a stretch.",
        (
            Column("id", _ID, "counts up"),
            Column("kind", _INT, "0 not understood, 1 pod, 2 container, 3 request, 4 reply"),
            Column("hash", "BLOB NOT NULL", "BLAKE2b, 16 bytes, of the whole content"),
            Column("size", _INT, "bytes of the whole content"),
            Column("base", "INTEGER REFERENCES object(id)", "whose content is its dictionary"),
            Column("data", "BLOB NOT NULL", "zstd; as it is where length(data) = size"),
        ),
    ),
    Table(
        "state",
        "The pods and containers in Synchronize: those that existed already.",
        (
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("event", "INTEGER NOT NULL REFERENCES event(id)", "the part"),
            Column("position", _INT, "in the part, from 0: the pods, then the containers"),
            Column("pod", "INTEGER REFERENCES pod(key)", "for a container its pod"),
            Column("container", "INTEGER REFERENCES container(key)", ""),
            Column("object", "INTEGER NOT NULL REFERENCES object(id)", "the message"),
        ),
        key=("session", "event", "position"),
    ),
    Table(
        "pod",
        "Pods by name.",
        (
            Column("key", _ID, "counts up"),
            Column("id", _TEXT, "the sandbox id"),
            Column("namespace", _TEXT, "empty where it is unknown, as the next two"),
            Column("name", _TEXT, ""),
            Column("uid", _TEXT, ""),
        ),
        indexes=("id",),
    ),
    Table(
        "container",
        "Containers by name.",
        (
            Column("key", _ID, "counts up"),
            Column("id", _TEXT, ""),
            Column("name", _TEXT, ""),
            Column("pod", "INTEGER REFERENCES pod(key)", ""),
        ),
        indexes=("id", "pod"),
    ),
    Table(
        "gap",
        "Intervals that were not, or not wholly, observed, or whose events are gone.",
        (
            Column("id", _ID, "counts up"),
            Column("session", "INTEGER REFERENCES session(id)", "NULL: none or all"),
            Column("from_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column("to_ns", _INT, "wall clock"),
            Column("reason", _TEXT, "in words"),
            Column("lost", "INTEGER", "how many events; NULL where that is unknown"),
        ),
    ),
    Table(
        "note",
        "Remarks of the program that wrote the file.",
        (
            Column("id", _ID, "counts up"),
            Column("session", "INTEGER REFERENCES session(id)", "NULL: none or all"),
            Column("at_ns", _INT, "wall clock, ns since 1970 UTC"),
            Column("text", _TEXT, ""),
        ),
    ),
    Table(
        "mark",
        "Events that a user marked when looking at the recording.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", ""),
            Column("made_ns", _INT, "wall clock when it was marked or commented last"),
            Column("comment", _TEXT, "in that person's words; empty: none"),
        ),
        since_first=False,
    ),
    Table(
        "tapped",
        "What only a tap knows of an event, as it sees both ends of the connection.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", ""),
            Column("held_ns", _INT, "time in the tap, on both ways; took_ns is without it"),
            Column("metadata", "TEXT", "JSON array of [key, value] that came along; NULL: none"),
        ),
        since_first=False,
    ),
    Table(
        "output",
        "Lines that a plugin printed which the tap had launched.",
        (
            Column("id", _ID, "counts up in the order in which lines were complete"),
            Column("session", "INTEGER NOT NULL REFERENCES session(id)", ""),
            Column("at_ns", _INT, "wall clock when the line began, ns since 1970 UTC"),
            Column("stream", _TEXT, "stdout or stderr"),
            Column("text", _TEXT, "without the line's end"),
        ),
        since_first=False,
    ),
    Table(
        "left_out",
        "In a part of a recording: where events are not in it that the whole recording has.",
        (
            Column(
                "event",
                f"{_ID} REFERENCES event(id)",
                "the next event of the same session that is in it",
            ),
            Column("seq", _INT, "place in that session of the newest one before that is not"),
            Column("count", _INT, "how many are not, back to the session's event before"),
        ),
        since_first=False,
    ),
    Table(
        "outcome",
        "In a part of a recording: what the whole one shows of creations by later events.",
        (
            Column("event", f"{_ID} REFERENCES event(id)", "the CreateContainer"),
            Column("fate", _TEXT, "created, failed or open: its session ended before"),
            Column("shown_by", _INT, "the event that shows it failed; 0: none"),
            Column("name", _TEXT, "what that is; empty: how StopContainer shows the container"),
            Column("session", _INT, "of an open one; 0: none"),
            Column("after_ns", _INT, "of an open one: until that session ended"),
        ),
        since_first=False,
    ),
    Table(
        "name",
        "Names that many events share: methods, events, services.",
        (
            Column("id", _ID, "counts up"),
            Column("text", "TEXT NOT NULL UNIQUE", ""),
        ),
    ),
    Table(
        "stretch",
        "Where the recording may be cut: no object is used by events on both sides.",
        (
            Column("id", _ID, "counts up"),
            Column("first_event", _INT, "no event of it has a smaller id"),
            Column("first_object", _INT, "no object of it has a smaller id"),
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

EVENTS_VIEW = f"""
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
    {list_sql("e.changed")} AS changed, {list_sql("e.owners")} AS owners
{_JOINS}
""".strip()
"""View with the columns of `events.Event`, in order and never NULL, for filters and readers."""

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


def plain_sql(sql: str) -> str:
    """Return ``CREATE TABLE`` without comments, for comparison."""
    return " ".join(" ".join(line.partition("--")[0] for line in sql.splitlines()).split())


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
