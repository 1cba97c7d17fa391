# SPDX-License-Identifier: Apache-2.0
"""Writes docs/recording-format.md: what a recording holds, from the schema that makes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import sqlite_utils
from sqlite_utils.db import ForeignKey

from nri_scope.events import LEFT_OUT, RING_REMOVED
from nri_scope.nri import element_limits
from nri_scope.recorder.writer import WriterLimits
from nri_scope.recording import (
    blobs,
    cri_answers,
    long_names,
    reader,
    row_limits,
    schema,
    sql_functions,
    sqlite_text,
)
from nri_scope.recording.bundle import zip_reader

_INTRODUCTION = f"""\
# The recording format

A recording is one SQLite 3 file, usually named `*.nriscope.db`. Any SQLite can read it:

```
$ sqlite3 node.nriscope.db "SELECT at, event, namespace, pod, container FROM log LIMIT 10"
```

`PRAGMA application_id` is {schema.APPLICATION_ID} (0x{schema.APPLICATION_ID:08X}, "NRIS"), \
`PRAGMA user_version` is {schema.VERSION}, the version of the format. While a recording is written \
it is in SQLite's WAL mode, and `-wal` and `-shm` are beside it: a copy made then needs \
all three. A finished recording is the one file.

A recording holds what was on the wire, environment variables with their secrets included. It is \
made readable for its owner alone (0600), and so are the files beside it.

## Versions

- A version can gain tables and indexes and keep its number; a new column raises it. Readers \
ignore what they do not know. Triggers, virtual tables and further views are in no recording; a \
file that has one is refused.
- What an older reader could not understand makes a new version. A file of a newer version is \
refused with the advice to upgrade. A file of an older one is read from a temporary copy that is \
converted step by step, and is not changed itself; only a file of the newest version can be added \
to.
- A fixture of every version ever released is in `tests/data/recordings/` and stays readable.

## Times

Columns that end in `_ns` are nanoseconds. Points in time are wall clock, counted from 1970-01-01 \
UTC; only `mono_ns` is of the recording host's monotonic clock, for differences. Columns that end \
in `_ms` are milliseconds.

## Tables
"""

_MESSAGES = f"""\
## How messages are kept

Most requests repeat a pod and a container that were already seen. So a request is taken apart: \
its pod and its container, and what remains, each become an **object**. An object is identified by \
the hash of its deterministic serialisation (Go writes maps in random order, so the bytes on the \
wire differ where the messages do not) and is kept once in a stretch.

To get a request back, take the rest (`request`), and add the pod and the container as the fields \
that the request's message has for them. NULL is a part that was not there; an object of no bytes \
is one that was, and empty. Serialised messages one after the other are their merger, so no \
knowledge of the fields is needed. The result equals what was on the wire as a message, fields \
unknown to us included; the order of maps is not kept. The reply is kept as it was.

A part of Synchronize is its rest, plus its rows in `state` as `pods` (kind \
{int(blobs.ObjectKind.POD)}) and `containers` (kind \
{int(blobs.ObjectKind.CONTAINER)}). The rows of a session from its `sync_event` on are what \
existed when it began.

An event of a session with the role `cri` is an answer of the CRI, not a request to a plugin: \
`request` is its ContainerStatusRequest as one object, `reply` the JSON text that the verbose \
answer has under `info`, with `status` (state, exitCode, reason, message) where the container \
failed to start.

A file from before the table `effect` gets it when it is continued, unless events are in it \
already that belong there. Where it is missing, replies have to be looked through.

What is not well-formed (`mark` is `malformed`), not known (`unknown`) or too large to be taken \
apart (`oversized`) is one object, the bytes as they came.

### Compression

`object.data` is the content itself where its length is `size`. Otherwise it is one zstd frame \
without content size, checksum or dictionary id. If `base` is set, the content of that object is \
the frame's raw-content dictionary: the version of the same container before it, or for a new \
container one that resembles it. A base always has a smaller id. Recorders write chains of at most \
{blobs.MAX_DEPTH} bases and readers follow at most {blobs.MAX_DEPTH_READ}. `hash` is BLAKE2b \
with 16 bytes of the content; readers check it.

Readers refuse content of more than {blobs.MAX_CONTENT >> 20} MiB an object, \
{reader.MAX_REQUEST >> 20} MiB a request and {reader.MAX_STATE >> 20} MiB a session's beginning; \
on the wire a message has at most 4 MiB.

### Bounds

A small file can be large once it is read: a name stands behind every event that has it, and an \
empty mount of two bytes becomes hundreds in memory. So everything is bounded before it is \
expanded. What is beyond a bound is left out, and one line says so (on stderr, or in the place of \
what was cut); the rest of the file is read.

| what | at most | reason |
|---|---|---|
| a name, id, version or end reason | {sqlite_text.NAME_MAX:,} characters | Kubernetes has names \
of 253, ids have 64, a plugin's file name 255 |
| an error's words, a gap's reason, a note | {sqlite_text.WORDS_MAX:,} characters | |
| `changed` and `owners` of an event | {sqlite_text.LIST_MAX:,} characters, \
{sqlite_text.ITEMS_MAX:,} members \
| the last member says how many there are besides |
| elements of a message: fields, those of its messages, packed numbers | \
{element_limits.MAX_ELEMENTS:,} | 7,000 variables, 2,000 mounts and 256 KiB of annotations have \
30,000 |
| text in a message | {element_limits.MAX_STRINGS >> 20} MiB | ttRPC's limit for a whole message |
| elements of a Synchronize | {element_limits.MAX_IN_SYNCHRONIZE:,} | a thousand ordinary pods and \
containers have 200,000 |
| elements of all that a session began with | {reader.MAX_TOLD:,} | |
| values in the JSON of one answer of the CRI | {cri_answers.VALUES_MAX:,} | |

A message that was cut ends with the field {element_limits.CUT_FIELD}, whose text says so; \
as JSON and \
YAML it is `left_out`. What is made of a recording (a part, a bundle, a redacted copy) has the \
message as it was read, with that field.

Recorders keep to the same bounds for names, words and lists; where they cut, the text ends with \
its length and a hash of the whole. Messages are recorded in full. One with more than \
{element_limits.MAX_RECORDED:,} elements is not taken apart, but kept as it came, with the mark \
`oversized` and the names in it.

A file is refused where it has more than {reader.MAX_ROWS:,} sessions, gaps or notes, \
{long_names.MAX_NAMED:,} pods or containers, or {long_names.MAX_CHARACTERS >> 20} million \
characters of their names. Recorders keep to that: one that has written \
{row_limits.MAX_SESSIONS:,} sessions to a file begins no more in it, and what would need \
one more pod, \
container or name is not recorded; what is lost by that is one counted gap. Beyond \
{row_limits.MAX_GAPS:,} gaps all others are one, and beyond as many notes none is added. A \
bundle is \
refused where it would unpack to more than {zip_reader.MAX_RATIO} times its size and \
{zip_reader.RATIO_FROM >> 20} MiB; \
recordings come to 10.

A message that is stored once may belong to many events. So `diff`, `blame`, `report`, `replay` \
and exports that are written as a stream take apart only as many elements, and show only as many \
changes, as the size of the file allows, that of 10 MB at least; recordings of ordinary containers \
come to two thirds of that. One line says from which event on the rest was not read. `import` and \
exports as a bundle have no such bound; `redact` has one of its own, and refuses what exceeds it.

### Stretches and the ring

Objects are never shared between two stretches, so the oldest stretch can be cut off: its events, \
its objects, and the pods, containers and sessions that nothing refers to any more. With \
`--max-size` or `--max-age` that is what happens, a sixteenth of the limit at a time. What \
Synchronize told a session stays, moved to a newer stretch, until the session itself goes. All \
that was removed is one row of `gap`, which grows: "{RING_REMOVED}". Ids are never used again.

`--max-size` counts the file and its write-ahead log, and is kept while recording. It can be \
exceeded for a moment by one large batch, or for longer while another program keeps a read \
transaction open or when what Synchronize told is larger by itself. `--max-age` is kept to a \
sixteenth.

## Marks

Marks are the one thing that is written into a finished recording, by its readers, in a \
transaction of its own; a file without the table `mark` gets it with the first one. While \
the file is being recorded, where it may not be written, and for a bundle, they are in \
`FILE.marks.json` beside it instead: in `marks`, each with `event`, `at_ns` (when the event was), \
`comment` and `made_ns`, and in `unmarked` what is taken back of those in the recording. Of two \
marks of one event the newer one counts. A mark goes when its event does. What is made of a \
recording (a part, a bundle, a redacted copy) has the marks of both places in its table. A table \
`mark` that is not exactly the one above is read, and never written.

## Parts of a recording

A part of a recording is a recording that was made from another one. Events, sessions, gaps and \
notes keep their numbers, events their places in sessions, and all their times. It has the events \
that were chosen and, as their context, all that happened to the same pods and containers before: \
of none of them anything is missing up to its last chosen event \
(of what `shrink` makes, only how they began is there). Of RegisterPlugin, Configure and \
Synchronize it has every event of its sessions, and of `state` what is about its own pods and \
containers. Sessions that were not there meanwhile are not in it.

What was left out is said twice: for people as rows of `gap`, "{LEFT_OUT}"; for programs in \
`left_out`, since a place in a session that was not recorded says that an event was lost, which \
these were not.

## Guarantees

Events are written in batches at most {int(WriterLimits().batch_seconds * 1000)} ms old. When the \
recorder is killed, what was committed is there; a power cut may cost the last seconds and never \
the file. Up to {WriterLimits().queue_bytes >> 20} MiB wait in memory while the file cannot be \
written; what does not fit is lost, and counted in `gap` with the reason.

Of `record`, a launched logger and the probes of `diff --live` one process answers the runtime \
and another writes. When the one that writes is killed, another takes its place and goes on with \
the session; what the first one had been given and had not written is one gap of that session, \
with how it ended as its reason, and the command ends with status 2. Where nothing was lost, a \
note says so. When the one that answers is killed, the other one writes what it has and ends the \
session with the reason "the process that answered the runtime is gone".

Time between two sessions in which none was open has a row of `gap` where the recorder ran on. \
Where it did not, as one that a runtime launches, or of a file that was continued later, our \
readers derive the gap from the sessions.

A mark is in the file, or nothing of it is: a program that is killed meanwhile leaves SQLite's \
`-journal` beside it, and the next program that may write there, our readers included, puts back \
what was there before.
"""

_FUNCTIONS = """\
## Files of other users

SQLite finds `-wal`, `-shm` and `-journal` by their names, writes to them, and deletes what a \
`-journal` names. So nri-scope lets it open a recording by its name only where no other user can \
put a file there: recording, companions and all folders above them belong to you, to root, or \
(for root) to the user who called `sudo`, and others cannot write to them. A group counts as \
others, unless it is your own of the same name. Users that a container does not map are others.

| where | reading | marks | recording |
|---|---|---|---|
| only those can write | directly | in the recording | yes; a new one only where none of the \
three files is there, and never with a `-journal` |
| sticky folder, as `/tmp` | directly while nothing is beside it, or while a recorder of yours \
holds the names; else a copy | beside it | yes, a recorder holds all three names with files of \
its own |
| others can replace files | a copy | beside it | refused |

The copy is made in `TMPDIR` (mode 0700) and is gone when the command ends; it needs the room of \
the recording. It does not grow: `log --follow` is refused, and `tui` shows what was there. In it \
a `-wal` is read and an interrupted write undone, unless its `-journal` names another file, or \
companion and recording belong to different users: that is refused. Only your own recording is \
continued. Whatever is no regular file (a pipe, a device, a link) is refused without waiting for \
it.

New files that can hold values (recordings, bundles, reports, goldens, JUnit results, tests that \
`shrink` writes) have mode 0600; a golden or JUnit file of this user that exists keeps its mode. \
No file of another user is written to, and no link of another user is followed.

## SQL functions

`nri-scope sql` has these, besides what SQLite has:

| function | gives |
|---|---|
{rows}
| `x REGEXP y` | whether the RE2 pattern y matches somewhere in x, as `field:~regex` in filters |

The JSON has the field names of the protocol and enums by name; fields that we do not know are \
under `unknown_fields`. What cannot be read as a message is `{{"malformed": "<hexadecimal>"}}`, \
and what is of a method, service or kind that we do not know `{{"raw": "<hexadecimal>"}}`. \
Where there is nothing the result is NULL. `nri-scope sql` has the view `events` too, with what \
filters see.
"""


def render() -> str:
    """Return the whole document."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in schema.statements():
            connection.execute(statement)
        database = sqlite_utils.Database(connection)
        parts = [_INTRODUCTION]
        parts += [_table(database, table) for table in schema.TABLES]
        parts.append(_view(database))
    rows = "\n".join(f"| `{call}` | {words} |" for call, words in sql_functions.FUNCTIONS.items())
    parts += [_MESSAGES, _FUNCTIONS.format(rows=rows)]
    return "\n".join(parts)


def _table(database: sqlite_utils.Database, table: schema.Table) -> str:
    made = database.table(table.name)
    references = {key.column: key for key in made.foreign_keys}
    types = {column.name: column for column in made.columns}
    lines = [f"### {table.name}", "", table.comment, "", "| column | type | |", "|---|---|---|"]
    for column in table.columns:
        one = types[column.name]
        kind = one.type.lower()
        if not (one.notnull or one.is_pk):
            kind += " or null"
        notes = "; ".join(filter(None, [_reference(references.get(column.name)), column.comment]))
        key = " (key)" if one.is_pk and not table.key else ""
        lines.append(f"| `{column.name}`{key} | {kind} | {notes} |")
    lines += [*_keys(made, table), ""]
    return "\n".join(lines)


def _reference(key: ForeignKey | None) -> str:
    return f"→ `{key.other_table}.{key.other_column}`" if key is not None else ""


def _keys(made: sqlite_utils.db.Table, table: schema.Table) -> Iterator[str]:
    if table.key:
        yield f"\nThe key is ({', '.join(table.key)}), which also orders the rows on disk."
    indexes = [index.columns[0] for index in made.indexes if index.origin == "c"]
    if indexes:
        yield f"\nIndexed by {', '.join(sorted(indexes))}."


def _view(database: sqlite_utils.Database) -> str:
    columns = ", ".join(f"`{column.name}`" for column in database["log"].columns)
    return (
        "## The view `log`\n\nFor people with nothing but the sqlite3 shell: one row an event, "
        f"with {columns}. `at` is text in ISO 8601, UTC. Our own programs do not use it, "
        "and refuse a file whose view is another one.\n"
    )
