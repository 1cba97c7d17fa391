# SPDX-License-Identifier: Apache-2.0
"""Recordings and bundles that are small files, but expand to large data when read.

Each bomb is a function that modifies a recording in proportion to a scale; at scale 1 the file, or
the bundle made from it, has at most 10 MB.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from benchmarks.traffic import is_repeated
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.file.blobs import ObjectKind, Packer, digest
from nri_scope.recording.file.schema import TABLES
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, a_synchronize, an_item, lifecycles, record
from tests.share.bundle.bundles import a_bundle

MIB = 1 << 20
Bomb = Callable[[sqlite3.Connection, float], None]

TEXTS = tuple(
    (table.name, column.name)
    for table in TABLES
    for column in table.columns
    if column.type.startswith("TEXT")
)
"""All columns with text, as table and column."""
_KEYS = {table.name: table.columns[0].name for table in TABLES}


def make(path: Path, bomb: Bomb, scale: float = 1.0) -> Path:
    """A valid recording, modified by the bomb."""
    # In memory, as the file is rewritten many times.
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        made = Path(folder) / "r.nriscope.db"
        record(made, [an_item("Synchronize", a_synchronize(2)), *lifecycles(5)])
        with closing(sqlite3.connect(made)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            _one_row_each(connection)
            bomb(connection, scale)
            connection.commit()
            connection.execute("PRAGMA journal_mode = DELETE")
        shutil.move(made, path)
    return path


def make_bundle(path: Path, bomb: Bomb, scale: float = 1.0) -> Path:
    """A bundle of a recording modified by the bomb."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        made = make(Path(folder) / "r.nriscope.db", bomb, scale)
        return a_bundle(path, made.read_bytes())


def _one_row_each(connection: sqlite3.Connection) -> None:
    run = connection.execute
    run("INSERT INTO gap VALUES (1, 1, ?, ?, 'a gap', 3)", (NOW + 5, NOW + 6))
    run("INSERT INTO note VALUES (1, 1, ?, 'a note')", (NOW + 5,))
    run("INSERT INTO mark VALUES (3, ?, 'a comment')", (NOW + 5,))
    run('INSERT INTO tapped VALUES (3, 5, \'[["key", "value"]]\')')
    run("INSERT INTO output VALUES (1, 1, ?, 'stdout', 'a line')", (NOW + 5,))
    run("UPDATE event SET changed = '[\"/process/env/A\"]', owners = '[\"10-a\"]' WHERE id = 3")


# -- texts ----------------------------------------------------------------------------------


def long_text(table: str, column: str, text: str = "a", size: int = 60 * MIB) -> Bomb:
    """One text of `size` bytes; pods and containers with it are those of all events."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        value = text * int(size * scale / len(text.encode()))
        if column in ("changed", "owners"):
            value = f'["{value}"]'
        if column == "metadata":
            value = f'[["k", "{value}"]]'
        key = _KEYS[table]
        chosen = f"WHERE {key} = (SELECT min({key}) FROM {table})"
        connection.execute(f"UPDATE {table} SET {column} = ? {chosen}", (value,))
        if table == "pod":
            (pod,) = connection.execute(f"SELECT {key} FROM pod {chosen}").fetchone()
            connection.execute("UPDATE event SET pod = ? WHERE pod IS NOT NULL", (pod,))
        if table == "container":
            (one,) = connection.execute(f"SELECT {key} FROM container {chosen}").fetchone()
            connection.execute("UPDATE event SET container = ? WHERE container NOT NULL", (one,))

    return bomb


def long_texts(text: str) -> Bomb:
    """Many notes of nearly the same text, of the longest kind that redaction reads."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        insert = "INSERT INTO note VALUES (?, 1, ?, ?)"
        rows = ((2 + n, NOW + 5, f"{n} {text}") for n in range(int(100 * scale) + 1))
        connection.executemany(insert, rows)

    return bomb


def many_values(column: str, value: object = "", size: int = 60 * MIB) -> Bomb:
    """A JSON list of many small values, in one event."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        one = json.dumps(value)
        table, key = ("tapped", "event") if column == "metadata" else ("event", "id")
        text = f"[{','.join([one] * int(size * scale / (len(one) + 1)))}]"
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 3", (text,))

    return bomb


def deep_json(column: str) -> Bomb:
    """Deeply nested JSON."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        deep = int(20 * MIB * scale)
        table, key = ("tapped", "event") if column == "metadata" else ("event", "id")
        text = "[" * deep + "]" * deep
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 3", (text,))

    return bomb


# -- rows -----------------------------------------------------------------------------------

_COUNTED = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= {}) "
_ROWS = {
    "session": "INSERT INTO session SELECT 100 + i, 'logger', 'p' || i, '10', 'containerd', '2', "
    "'0.9', 0, 1, 1, 1, started_ns + i, started_ns + i + 1, 'over', NULL, NULL, 1000, 1000 "
    "FROM n, session WHERE id = 1",
    "gap": "INSERT INTO gap SELECT i, 1, {now} + i, {now} + i, 'lost', 1 FROM n",
    "note": "INSERT INTO note SELECT i, 1, {now} + i, 'x' FROM n",
    "output": "INSERT INTO output SELECT i, 1, {now} + i, 'stdout', '' FROM n",
    "pod": "INSERT INTO pod SELECT 100 + i, i, '', '', '' FROM n",
    "container": "INSERT INTO container SELECT 100 + i, i, '', 1 FROM n",
    "name": "INSERT INTO name SELECT 100 + i, i FROM n",
    "mark": "INSERT INTO mark SELECT 100 + i, i, '' FROM n",
    "effect": "INSERT INTO effect SELECT 1, i FROM n",
    "tapped": "INSERT INTO tapped SELECT 10 + i, 1, NULL FROM n",
    "request_metadata": "INSERT INTO request_metadata SELECT 10 + i, '[]' FROM n",
    "left_out": "INSERT INTO left_out SELECT i, 1, 1 FROM n",
    "outcome": "INSERT INTO outcome SELECT i, 'failed', 0, '', 0, 0 FROM n",
    "state": "INSERT INTO state SELECT 1, 1, 100 + i, pod, container, object FROM n, "
    "(SELECT * FROM state LIMIT 1)",
    "event": "INSERT INTO event SELECT 1000 + i, session, 1000 + i, at_ns, mono_ns, method, event, "
    "service, pod, container, pod_object, container_object, request, reply, status_code, "
    "status_message, took_ns, timeout_ns, size, mark, changed, owners FROM n, event "
    "WHERE id = {of}",
}
_EACH = {"session": 60, "event": 65, "state": 15, "pod": 16, "container": 16, "name": 20}


def many_rows(table: str, size: int = 9 * MIB, of: int = 3) -> Bomb:
    """Many rows in one table; events are copies of the event `of`."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        count = int(size * scale / _EACH.get(table, 12))
        sql = _ROWS[table].format(now=NOW, of=of)
        connection.execute(_COUNTED.format(count) + sql)
        if table == "session":
            connection.execute("UPDATE session SET ended_ns = started_ns + 1 WHERE id = 1")

    return bomb


def many_of_a_pod(name: str) -> Bomb:
    """Many containers of one pod."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        many_rows("container")(connection, scale)
        connection.execute("UPDATE pod SET name = ?", (name,))

    return bomb


def many_subjects(table: str, of: int, size: int = 9 * MIB) -> Bomb:
    """Many pods or containers, each with one event: a copy of the event `of`."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        count = int(size * scale / 150)
        values = {
            "pod": "100 + i, 'p' || i, 'n' || i, 'a' || i, 'u' || i FROM n",
            "container": "100 + i, 'c' || i, 'a' || i, pod FROM n, (SELECT pod FROM container "
            "LIMIT 1)",
        }
        counted = _COUNTED.format(count)
        connection.execute(f"{counted} INSERT INTO {table} SELECT {values[table]}")
        connection.execute(counted + _ROWS["event"].format(now=NOW, of=of))
        connection.execute(f"UPDATE event SET {table} = 100 + id - 1000 WHERE id > 1000")

    return bomb


# -- messages -------------------------------------------------------------------------------


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def repeated_fields(kind: Descriptor, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The path of every repeated field in a message, as field numbers."""
    for field in kind.fields:
        here = (*path, field.number)
        if is_repeated(field):
            yield here
        elif field.message_type is not None and len(path) < 5:
            yield from repeated_fields(field.message_type, here)


def of_many(kind: Descriptor, path: tuple[int, ...], size: int) -> bytes:
    """A message with a field repeated up to `size` bytes; map keys are distinct."""
    fields = list(path)
    descriptor = kind
    for number in path[:-1]:
        inner = descriptor.fields_by_number[number].message_type
        assert inner is not None
        descriptor = inner
    last = descriptor.fields_by_number[fields[-1]]
    content = b"".join(_elements(last, size))
    for number in reversed(fields[:-1]):
        content = _field(number, content)
    return content


def _elements(field: FieldDescriptor, size: int) -> Iterator[bytes]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        made = at = 0
        # Distinct keys compress badly; 1 MiB of them exceeds the limits.
        while made < min(size, MIB):
            key = f"{at:x}".encode() if kind.fields_by_name["key"].type == 9 else b""
            one = _field(field.number, _field(1, key) if key else _varint(8) + _varint(at))
            made, at = made + len(one), at + 1
            yield one
        return
    packed = field.type not in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE)
    if packed:
        yield _field(field.number, b"\0" * size)
        return
    one = _field(field.number, b"")
    yield one * (size // len(one))


def huge_message(
    kind: ObjectKind, content: Callable[[int], bytes], size: int = 16 * MIB - 200
) -> Bomb:
    """An unusually large object of a kind, referenced by the first events."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        data = content(int(size * scale))
        packed = Packer().alone(data)
        number = 10_000
        connection.execute(
            "INSERT INTO object VALUES (?, ?, ?, ?, NULL, ?)",
            (number, int(kind), digest(data), len(data), packed),
        )
        column = {
            ObjectKind.POD: "pod_object",
            ObjectKind.CONTAINER: "container_object",
            ObjectKind.REST: "request",
            ObjectKind.REPLY: "reply",
            ObjectKind.RAW: "request",
        }[kind]
        where = "container IS NOT NULL" if kind == ObjectKind.CONTAINER else "id > 1"
        connection.execute(f"UPDATE event SET {column} = ? WHERE id < 13 AND {where}", (number,))
        if kind in (ObjectKind.POD, ObjectKind.CONTAINER):
            rows = "container IS NOT NULL" if kind == ObjectKind.CONTAINER else "container IS NULL"
            connection.execute(f"UPDATE state SET object = ? WHERE {rows}", (number,))

    return bomb


def many_of(
    kind: ObjectKind, descriptor: Descriptor, path: tuple[int, ...], start: bytes = b""
) -> Bomb:
    """An object with one field repeated many times."""
    return huge_message(kind, lambda size: start + of_many(descriptor, path, size))


def one_string(
    kind: ObjectKind, path: tuple[int, ...], start: bytes = b"", size: int = 4 * MIB - 1000
) -> Bomb:
    """An object with one long string of characters that outputs must escape."""

    def content(_size: int) -> bytes:
        value = b"K=" + b"\x01" * size
        for number in reversed(path):
            value = _field(number, value)
        return start + value

    return huge_message(kind, content)


def many_objects(count: int, content: Callable[[int], bytes], of: int = 3) -> Bomb:
    """Copies of the event `of`, each with a different container message."""

    def bomb(connection: sqlite3.Connection, scale: float) -> None:
        packer = Packer()
        made = max(1, int(count * scale))
        first = 20_000
        for number in range(made):
            data = b"\x0a\x02c1\x1a\x05app-0" + content(number)
            row = (first + number, int(ObjectKind.CONTAINER), digest(data), len(data), None)
            connection.execute(
                "INSERT INTO object VALUES (?, ?, ?, ?, ?, ?)", (*row, packer.alone(data))
            )
        connection.execute(_COUNTED.format(made) + _ROWS["event"].format(now=NOW, of=of))
        connection.execute(
            f"UPDATE event SET container_object = {first} + id % {made} WHERE id > 1000"
        )

    return bomb


def unknown_fields(kind: ObjectKind) -> Bomb:
    """An object of unknown fields."""
    return huge_message(kind, lambda size: (_varint(1000 << 3) + b"\0") * (size // 3))


def deep_unknown(kind: ObjectKind) -> Bomb:
    """An object of nested unknown groups."""
    start, end = _varint(1000 << 3 | 3), _varint(1000 << 3 | 4)
    return huge_message(kind, lambda size: (start * 50 + end * 50) * (size // 400))


def message_bombs() -> Iterator[tuple[str, Bomb]]:
    """A bomb for each repeated field of the stored messages."""
    container = api.Container.DESCRIPTOR
    for path in repeated_fields(container):
        name = ".".join(map(str, path))
        yield f"container {name}", many_of(ObjectKind.CONTAINER, container, path, b"\x0a\x02c1")
    pod = api.PodSandbox.DESCRIPTOR
    for path in repeated_fields(pod):
        yield f"pod {'.'.join(map(str, path))}", many_of(ObjectKind.POD, pod, path, b"\x0a\x02p1")
    reply = api.CreateContainerResponse.DESCRIPTOR
    for path in repeated_fields(reply):
        yield f"reply {'.'.join(map(str, path))}", many_of(ObjectKind.REPLY, reply, path)
    validate = api.ValidateContainerAdjustmentRequest.DESCRIPTOR
    for path in repeated_fields(validate):
        yield f"rest {'.'.join(map(str, path))}", many_of(ObjectKind.REST, validate, path)


def string_bombs() -> Iterator[tuple[str, Bomb]]:
    """A bomb for each kind of message and several of its string fields."""
    container: list[tuple[int, ...]] = [(8,), (7,), (6, 2), (6, 1), (9, 3), (10, 1, 1), (19,)]
    for path in container:
        yield _named("container", path, one_string(ObjectKind.CONTAINER, path, b"\x0a\x02c1"))
    yield _named("pod", (6, 2), one_string(ObjectKind.POD, (6, 2), b"\x0a\x02p1"))
    for path in (1, 2, 2), (1, 4, 2), (1, 3, 1):
        yield _named("reply", path, one_string(ObjectKind.REPLY, path))
    for path in (3, 6, 2), (2, 8):
        yield _named("rest", path, one_string(ObjectKind.REST, path))


def _named(kind: str, path: tuple[int, ...], bomb: Bomb) -> tuple[str, Bomb]:
    return f"{kind} {'.'.join(map(str, path))}", bomb


def object_bombs() -> Iterator[tuple[str, Bomb]]:
    """Bombs of many distinct messages: with empty mounts, long texts, or changing variables."""

    def mounts(count: int) -> Callable[[int], bytes]:
        return lambda number: _field(8, b"N=%d" % number) + _field(9, b"") * count

    def text(size: int) -> Callable[[int], bytes]:
        return lambda number: _field(8, b"K=%d" % number + b"\x01" * size)

    def variables(number: int) -> bytes:
        return b"".join(_field(8, b"K%d=%d" % (name, number)) for name in range(9_000))

    yield "variable", many_objects(40_000, lambda number: _field(8, b"K%d=v" % number))
    yield "mounts", many_objects(20_000, mounts(24_000))
    yield "mounts cut", many_objects(20_000, mounts(60_000))
    yield "text 1 MiB", many_objects(4_000, text(MIB))
    yield "text 4 MiB", many_objects(240, text(4 * MIB - 1000))
    yield "text 90 KB", many_objects(4_000, text(90_000))
    yield "variables", many_objects(2_000, variables)
    yield "variables updated", many_objects(2_000, variables, of=7)


BOMBS: dict[str, Bomb] = {
    **{f"text {table}.{column}": long_text(table, column) for table, column in TEXTS},
    **{
        f"texts {name}": long_texts(text)
        for name, text in {
            "login": "@ ://" + "a" * 65_000,
            "logins": "://a:" * 13_000,
            "marks": f"x{'!' * 60_000}x",
            "backslashes": "\\" * 65_000,
            "phrase": f"password: a{' ' * 60_000}b",
            "value far away": f"password{' ' * 60_000}x",
            "keys": "password: a\n" * 5_000,
        }.items()
    },
    "text pod.name wide": long_text("pod", "name", "a" * 100 + "\U0001f433", 40 * MIB),
    "text pod.name medium": long_text("pod", "name", "a", 900 << 10),
    **{f"values {c}": many_values(c) for c in ("changed", "owners")},
    "values metadata": many_values("metadata", ["", ""]),
    **{f"deep {c}": deep_json(c) for c in ("changed", "owners", "metadata")},
    **{f"rows {table}": many_rows(table) for table in _ROWS},
    **dict(message_bombs()),
    **{f"string {name}": bomb for name, bomb in string_bombs()},
    **{f"objects {name}": bomb for name, bomb in object_bombs()},
    **{f"events {of}": many_rows("event", of=of) for of in (1, 2, 4, 7, 9)},
    **{f"subjects container {of}": many_subjects("container", of) for of in (3, 4, 10)},
    "subjects of a pod": many_of_a_pod("p" * 1_000),
    "subjects pod 2": many_subjects("pod", 2),
    "unknown container": unknown_fields(ObjectKind.CONTAINER),
    "unknown rest": unknown_fields(ObjectKind.REST),
    "groups container": deep_unknown(ObjectKind.CONTAINER),
    "bytes raw": huge_message(ObjectKind.RAW, lambda size: b"\xff" * size),
}
"""All bombs, by name."""
