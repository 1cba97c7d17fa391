# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recorder.shared_rows import ObjectStore
from nri_scope.recording.file.blobs import MAX_DEPTH, ObjectKind, StoredObject, load
from tests.recording.traffic import a_container, a_pod

_puts = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 5), st.integers(0, 20)),  # a container and its version
        st.none(),  # a new stretch
    ),
    max_size=60,
)


def _version(number: int, version: int) -> bytes:
    container = a_container(a_pod(number))
    container.pid = version
    return container.SerializeToString(deterministic=True)


def _depth(row: StoredObject, rows: dict[int, StoredObject]) -> int:
    return 0 if row.base is None else 1 + _depth(rows[row.base], rows)


@given(_puts)
def test_each_stretch_is_self_contained_and_returns_its_contents(
    puts: list[tuple[int, int] | None],
) -> None:
    store = ObjectStore(1)
    stretch_begins = 1
    expected: dict[int, bytes] = {}
    for put in puts:
        if put is None:
            store.begin_stretch()
            stretch_begins = store.next_id
            continue
        content = _version(*put)
        number = store.put(ObjectKind.CONTAINER, content, str(put[0]), "app")
        assert number >= stretch_begins
        for row in store.rows:
            if row.id >= stretch_begins:
                assert row.base is None or row.base >= stretch_begins
        expected[number] = content
    rows = {row.id: row for row in store.rows}
    assert set(rows) == set(expected)
    for number, content in expected.items():
        assert load(number, rows.get) == (ObjectKind.CONTAINER, content)


def test_equal_content_is_one_object_per_kind() -> None:
    store = ObjectStore(1)
    assert store.put(ObjectKind.POD, b"", "a", "x") == store.put(ObjectKind.POD, b"", "b", "y")
    assert store.put(ObjectKind.CONTAINER, b"", "a", "x") != store.put(
        ObjectKind.POD, b"", "b", "y"
    )


def test_many_versions_do_not_form_a_long_chain() -> None:
    store = ObjectStore(1)
    chance = random.Random(1)
    noise = b""
    for version in range(50):
        # Each differs so much from the first that it would be a better base for the next.
        noise = noise[-2000:] + chance.randbytes(100)
        store.put(ObjectKind.CONTAINER, _version(1, version) + noise, "one", "app")
    rows = {row.id: row for row in store.rows}
    assert max(_depth(row, rows) for row in store.rows) == MAX_DEPTH


def test_similar_versions_share_one_base() -> None:
    store = ObjectStore(1)
    for version in range(50):
        store.put(ObjectKind.CONTAINER, _version(1, version), "one", "app")
    assert {row.base for row in store.rows[1:]} == {store.rows[0].id}
    assert all(len(row.data) < 64 for row in store.rows[1:])


def test_a_new_container_is_packed_against_a_similar_one() -> None:
    store = ObjectStore(1)
    for number in range(10):
        store.put(ObjectKind.CONTAINER, _version(number, 0), str(number), "app")
    assert all(row.base is not None for row in store.rows[1:])


def test_a_base_that_no_longer_fits_is_replaced() -> None:
    chance = random.Random(1)
    store = ObjectStore(1)
    old, new = chance.randbytes(2000), chance.randbytes(2000)
    for number, content in enumerate([old, old + b"1", new + b"2", new + b"3", new + b"4"]):
        store.put(ObjectKind.CONTAINER, content, str(number), "app")
    sizes = [len(row.data) for row in store.rows]
    assert sizes[1] < 100
    assert sizes[2] > 1900
    assert sizes[3] < 100
    assert sizes[4] < 100


def test_flush_writes_each_row_once(tmp_path: object) -> None:
    import sqlite3

    from nri_scope.recording.file.schema import statements

    connection = sqlite3.connect(":memory:")
    for statement in statements():
        connection.execute(statement)
    store = ObjectStore(1)
    store.put(ObjectKind.POD, b"one", "", "")
    store.flush(connection)
    store.put(ObjectKind.POD, b"one", "", "")
    store.put(ObjectKind.POD, b"two", "", "")
    store.flush(connection)
    assert connection.execute("SELECT id, data FROM object").fetchall() == [
        (1, b"one"),
        (2, b"two"),
    ]
    connection.close()
