# SPDX-License-Identifier: Apache-2.0
"""Generate docs/recording-format.md from the schema and the limits in the code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import sqlite_utils
from sqlite_utils.db import ForeignKey

from nri_scope.events import LEFT_OUT, RING_REMOVED
from nri_scope.nri import element_limits, plain
from nri_scope.recorder.writer import WriterLimits
from nri_scope.recording.bundle import zip_reader
from nri_scope.recording.file import blobs, row_limits, schema, sqlite_text
from nri_scope.recording.reading import event_messages, reader

_INTRODUCTION = f"""\
# The recording format

A recording is one SQLite 3 file, usually named `*.nriscope.db`. Any SQLite can read it:

```
$ sqlite3 node.nriscope.db "SELECT at, event, namespace, pod, container FROM log LIMIT 10"
```

`PRAGMA application_id` is {schema.APPLICATION_ID} (0x{schema.APPLICATION_ID:08X}, "NRIS"); \
`PRAGMA user_version` is the version of the format, {schema.VERSION}. During a recording the file \
is in SQLite's WAL mode, with `-wal` and `-shm` beside it: copy all three. A finished recording is \
a single file.

A recording contains complete messages, including environment variables and the secrets in them. \
It and the files beside it are readable only by their owner (mode 0600).

## Versions

- New tables and indexes do not change the version; a new column does. Readers ignore unknown \
tables and indexes. They refuse a file with triggers, virtual tables or views other than `log`.
- A change that older readers would misinterpret makes a new version. Readers refuse a file of a \
newer version and suggest an upgrade. In a file of an older version, they read columns that it \
lacks as their defaults or NULL; a recorder that continues the file adds them. There is only \
version 1 so far.
- `tests/data/recordings/` has a file of each released version, which must stay readable.

## Times

Columns ending in `_ns` are nanoseconds. Points in time are wall clock since 1970-01-01 UTC, \
except `mono_ns`: it is the recording host's monotonic clock, for differences only. Columns ending \
in `_ms` are milliseconds.

## Tables
"""

_MESSAGES = f"""\
## How messages are stored

Most requests repeat a pod and a container that were recorded before. So the recorder splits each \
request into its pod, its container and the rest, and stores each as an **object**. An object is \
identified by the hash of its deterministic serialisation (Go writes maps in random order, so \
equal messages differ on the wire) and stored once per stretch.

To reassemble a request, take the rest (`request`) and append the pod and the container, each as \
the field of the request's message that it came from. NULL means that the part was absent; an \
object of zero bytes was present and empty. Concatenating serialised messages merges them, so \
this needs no other knowledge of the fields. The result is the same message as on the wire, \
including unknown fields; only the order of maps can differ. Replies are stored unchanged.

One message of Synchronize is stored as its rest plus its rows in `state`, which are its `pods` \
(kind {int(blobs.ObjectKind.POD)}) and `containers` (kind {int(blobs.ObjectKind.CONTAINER)}). The \
rows of a session from its `sync_event` on are the pods and containers that existed at that \
time.

An event of a session with the role `cri` is a response of the CRI, not a request to a plugin. \
`request` is the ContainerStatusRequest as one object. `reply` is the JSON text under `info` in \
the verbose response, with `status` (state, exitCode, reason, message) added if the container \
failed to start. If the recorder could read the container's files, `cgroup` has the limits in its \
cgroups by OCI path (-1: no limit; inexact values, such as CPU shares from a weight, are \
`{{"anyOf": [[from, to], …]}}`), and `bundleSpec` is a JSON merge patch (RFC 7396) that turns \
`runtimeSpec` into its config.json. `{{"notFound": true}}` is the reply for a container that the \
runtime did not know, at least three seconds after it was first asked about. The event's time is \
that of the question, and its duration ends after the files were read.

When events are added to a file without the table `effect`, the recorder creates the table, \
unless the file already has events that should be in it. Without the table, readers search the \
replies.

A request that is malformed, of an unknown method or too large to split (`mark` is `malformed`, \
`unknown` or `oversized`) is one object with the original bytes.

### Compression

`object.data` is the content itself if its length is `size`. Otherwise it is one zstd frame \
without content size, checksum or dictionary id. If `base` is set, the content of that object is \
the frame's raw-content dictionary: the previous version of the same container or, for a new \
container, a similar one. A base always has a smaller id. Recorders write chains of at most \
{blobs.MAX_DEPTH} bases, and readers follow at most {blobs.MAX_DEPTH_READ}. `hash` is the 16-byte \
BLAKE2b of the content, verified by readers.

Readers refuse content of more than {blobs.MAX_CONTENT >> 20} MiB per object, \
{reader.MAX_REQUEST >> 20} MiB per request and {reader.MAX_STATE >> 20} MiB for the \
Synchronize state of a session. A message on the wire has at most 4 MiB.

### Bounds

A small file can expand to a large amount of data: every event repeats its names, and an empty \
mount takes two bytes in the file and hundreds in memory. So sizes are checked before anything is \
expanded. Data beyond a bound is omitted, with one line on stderr or a text in its place; the rest \
of the file is read.

| what | at most | reason |
|---|---|---|
| a name, id, version or end reason | {sqlite_text.NAME_MAX:,} characters | a longer one is \
refused; Kubernetes allows names of 253; ids have 64, a plugin's file name 255 |
| an error message, the reason of a gap, a note | {sqlite_text.WORDS_MAX:,} characters | |
| `changed` and `owners` of an event | {sqlite_text.LIST_MAX:,} characters, \
{sqlite_text.ITEMS_MAX:,} entries | the last entry counts the omitted ones |
| elements of a message: its fields, nested fields and packed numbers | \
{element_limits.MAX_ELEMENTS:,} | 7,000 variables, 2,000 mounts and 256 KiB of annotations have \
30,000 |
| text in a message | {element_limits.MAX_STRINGS >> 20} MiB | ttRPC's limit for a message |
| elements of a Synchronize | {element_limits.MAX_IN_SYNCHRONIZE:,} | a thousand ordinary pods and \
containers have 200,000 |
| elements of all messages at the start of a session | {reader.MAX_STATE_ELEMENTS:,} | |
| values in the JSON of a CRI response or a message of NRI 0.1 | {plain.JSON_VALUES_MAX:,} | |

A truncated message ends with the field {element_limits.CUT_FIELD}, whose text names the cut; in \
JSON and YAML this field is `left_out`. A part, a bundle or a redacted copy of the recording \
contains the truncated message with that field.

Recorders apply the same bounds to names, texts and lists; a truncated text ends with its \
original length and a hash of the whole. Messages are recorded completely. A message of more than \
{element_limits.MAX_RECORDED:,} elements is not split: it is stored as received, marked \
`oversized`, with its names.

Readers refuse a file with more than {row_limits.MAX_ROWS:,} sessions, gaps or notes, \
{row_limits.MAX_NAMED:,} pods or containers, or {row_limits.MAX_CHARACTERS >> 20} million \
characters of their names. Recorders stay below: after {row_limits.MAX_SESSIONS:,} sessions in a \
file a recorder starts no more, and it does not record events that would need a pod, container or \
name beyond the bound; these events are counted in one gap. After {row_limits.MAX_GAPS:,} gaps, \
further ones are merged into one, and after as many notes, further ones are dropped. A bundle is \
refused if it would unpack to more than {zip_reader.MAX_RATIO} times its size and \
{zip_reader.RATIO_FROM >> 20} MiB; real recordings reach a factor of 10.

Many events can share one stored message. So `diff`, `blame`, `report`, `replay` and streamed \
exports have a budget of decoded elements and shown changes. It grows with the size of the file, \
counted as at least 10 MB; recordings of ordinary containers use up to two thirds of it. One line \
names the first event beyond it. Exports as a bundle or a recording have no such budget; redaction \
has its own, and refuses a recording that exceeds it.

### Stretches and the ring

No object is used in two stretches, so the oldest stretch can be removed: its events, its objects, \
and the pods, containers and sessions that nothing references any more. `--max-size` and \
`--max-age` remove a sixteenth of the limit at a time. The Synchronize state of a session is \
moved to a newer stretch and kept until the session itself is removed. One growing row of `gap` \
covers everything removed: "{RING_REMOVED}". Ids are never reused.

`--max-size` limits the file plus its write-ahead log. One large batch can exceed it briefly. It \
is exceeded for longer while another program keeps a read transaction open, or if the \
Synchronize state alone is larger. `--max-age` is precise to a sixteenth of its value.

## Marks

Readers never write into a recording. `tui` stores marks in `FILE.marks.json` beside it, or \
beside the target of a link. Its `marks` have `event`, `at_ns` (the time of the event), `comment` \
and `made_ns`; its `unmarked` lists deleted marks of the recording. If both places have a mark of \
an event, the newer one counts. A part, a bundle or a redacted copy has the marks of both places \
in its table `mark`. Such a mark is removed together with its event. A copy of the recording's \
file alone has no marks of the file beside it.

## Parts of a recording

A part of a recording contains selected events of another one. Events, sessions, gaps and notes \
keep their ids, events keep their places in sessions, and all times are unchanged. As context it \
also has all earlier events of the same pods and containers, so none of their events before the \
last selected one is missing. It has all \
RegisterPlugin, Configure and Synchronize events of its sessions, and the rows of `state` of its \
own pods and containers. Sessions that were not open during these events are omitted.

Omitted events are recorded twice: for people as rows of `gap`, "{LEFT_OUT}"; for programs in \
`left_out`, because a missing place in a session would otherwise mean a lost event.

## Guarantees

Events are written in batches at most {int(WriterLimits().batch_seconds * 1000)} ms old. If the \
recorder is killed, committed events are kept; a power failure can lose the last seconds, but does \
not damage the file. Up to {WriterLimits().queue_bytes >> 20} MiB of events wait in memory while \
the file is not writable; further events are lost, and counted in `gap` with the reason.

`record`, a launched logger, a tap and the probes of `diff --live` have two processes: one replies \
to the runtime or relays, the other writes. If the writer is killed, a new one continues the \
session. The events which the first writer had received but not written are one gap of that \
session, with the way it ended as the reason, and the command ends with status 2. If no event was \
lost, a note says so. Notes and lines printed by plugins that the first writer had received but \
not written are lost without a trace. If the other process is killed, the writer stores the events \
that it has received and ends the session with the reason "the process that was connected to \
the runtime has ended".

The time between two sessions, with no session open, has a row of `gap` if the recorder kept \
running. If it did not (a logger launched by a runtime, or a file continued later), \
readers derive the gap from the sessions.

A killed recorder leaves a `-wal` and a `-shm`, in which readers find its newest events. Only if \
it is killed while it creates the file, an unfinished file and a `-journal` can be left. If a \
write of another program was interrupted, its `-journal` is beside the file, and nri-scope \
neither reads nor continues the recording: `sqlite3 FILE .schema` undoes the write. Do that only \
if you trust both files, as SQLite deletes the files that a `-journal` names.
"""

_FUNCTIONS = """\
## Files of other users

SQLite finds `-wal`, `-shm` and `-journal` by their names, writes to them, and deletes the files \
that a `-journal` names. So nri-scope lets SQLite open a recording by its path only if no other \
user can create files there: the recording, the files beside it and all parent folders belong to \
you, to root, or (for root) to the user who called `sudo`, and no other user can write to them. \
Members of a group count as other users, except for your own group of the same name; so do users \
that a container does not map.

| folder | reading | recording |
|---|---|---|
| only these users can write | directly | yes; a new file only if none of the \
three files exists, and never with a `-journal` |
| sticky folder, such as `/tmp` | directly if no other file is beside it, or while your own \
recorder holds the three names; otherwise a copy | yes; the recorder holds all three \
names with files of its own |
| others can replace files | a copy | refused |

The copy is made in `TMPDIR` (mode 0700) and deleted at the end of the command; it needs as much \
space as the recording. It does not grow: `log --follow` refuses it, and `tui` shows its content \
at that time. A recording that would be copied is refused if its `-wal` or `-journal` is not \
empty. Events can be added only to your own recording. Anything but a regular file (a pipe, a \
device, a link) is refused without waiting.

New files that can contain values (recordings, bundles, reports, goldens, JUnit results) \
have mode 0600; an existing golden or JUnit file of the same user keeps its \
mode. nri-scope writes to no file of another user and follows no link of another user.

## SQL functions

`nri-scope sql` adds these to SQLite's functions:

| function | result |
|---|---|
{rows}
| `x REGEXP y` | whether the RE2 pattern y matches somewhere in x, as `field:~regex` in filters |

The JSON has the protocol's field names and enum names; unknown fields are under \
`unknown_fields`, with `bits` for a number of 32 or 64 bits. Malformed content is \
`{{"malformed": "<hexadecimal>"}}`, and content of an unknown method, service or kind \
`{{"raw": "<hexadecimal>"}}`. Without content the result is NULL. \
`nri-scope sql` also has the view `events`, with the fields of filters.
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
    rows = "\n".join(f"| `{call}` | {words} |" for call, words in event_messages.FUNCTIONS.items())
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
        "## The view `log`\n\nFor use in the sqlite3 shell: one row per event, with "
        f"{columns}. `at` is text in ISO 8601, UTC. nri-scope does not use the view, "
        "and refuses a file with a different one.\n"
    )
