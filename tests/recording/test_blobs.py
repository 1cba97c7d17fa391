# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import sqlite3

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri.api_pb2 import CONTAINER_RUNNING
from nri_scope.recording.file.blobs import (
    MAX_CONTENT,
    MAX_DEPTH_READ,
    ContentError,
    ObjectKind,
    Objects,
    Packer,
    StoredObject,
    digest,
    load,
    unpack,
)
from tests.recording.traffic import a_container, a_pod

_content = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 30).map(lambda n: a_container(a_pod(n)).SerializeToString(deterministic=True)),
)


def _stored(
    content: bytes, data: bytes, number: int = 1, base: int | None = None, size: int | None = None
) -> StoredObject:
    return StoredObject(
        number, ObjectKind.RAW, digest(content), len(content) if size is None else size, base, data
    )


@given(_content)
def test_content_packed_alone_is_unpacked_unchanged(content: bytes) -> None:
    data = Packer().alone(content)
    assert len(data) <= len(content)
    assert unpack(_stored(content, data), None) == content


@given(_content, _content)
def test_content_packed_against_a_base_is_unpacked_unchanged(content: bytes, base: bytes) -> None:
    data = Packer().against(content, base, 1)
    if data is not None:
        assert len(data) < len(content)
        assert unpack(_stored(content, data), base) == content


def test_a_container_s_next_version_packs_small() -> None:
    container = a_container(a_pod())
    before = container.SerializeToString(deterministic=True)
    container.pid, container.state = 4711, CONTAINER_RUNNING
    data = Packer().against(container.SerializeToString(deterministic=True), before, 1)
    assert data is not None
    assert len(data) < 40


def test_content_of_maximum_message_size_is_unpacked() -> None:
    content = random.Random(1).randbytes(3 << 20) + bytes(1 << 20)
    assert unpack(_stored(content, Packer().alone(content)), None) == content


class TestInvalidObjects:
    def _assert_rejected(self, stored: StoredObject, base: bytes | None = None) -> None:
        with pytest.raises(ContentError):
            unpack(stored, base)

    def test_content_with_another_digest(self) -> None:
        self._assert_rejected(_stored(b"a" * 100, b"b" * 100))
        self._assert_rejected(_stored(b"a" * 100, Packer().alone(b"b" * 100)))

    def test_another_or_missing_base(self) -> None:
        content = b"abcdefgh" * 20
        data = Packer().against(content, content, 1)
        assert data is not None
        self._assert_rejected(_stored(content, data), b"something else" * 20)
        self._assert_rejected(_stored(content, data), None)

    def test_data_that_is_not_zstd(self) -> None:
        self._assert_rejected(_stored(b"a" * 100, b"nothing of the kind"))

    def test_more_data_than_content(self) -> None:
        self._assert_rejected(_stored(b"a", b"a" * 100))

    @pytest.mark.parametrize("size", [-1, MAX_CONTENT + 1, 1 << 62])
    def test_an_impossible_size(self, size: int) -> None:
        self._assert_rejected(_stored(b"a", Packer().alone(bytes(1000)), size=size))

    def test_content_that_exceeds_its_size(self) -> None:
        bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 << 20))
        self._assert_rejected(_stored(bytes(100_000), bomb))

    def test_a_frame_with_a_larger_declared_size(self) -> None:
        bomb = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(64 << 20))
        self._assert_rejected(_stored(bytes(100_000), bomb))

    def test_trailing_data(self) -> None:
        content = bytes(1000)
        self._assert_rejected(_stored(content, Packer().alone(content) + b"more"))


class TestLoad:
    def _chain(self, length: int) -> dict[int, StoredObject]:
        content = a_container(a_pod()).SerializeToString()
        stored = {1: _stored(content, Packer().alone(content))}
        for number in range(2, length + 1):
            newer = content + bytes([number])
            data = Packer().against(newer, content, 1)
            assert data is not None
            stored[number] = _stored(newer, data, number, number - 1)
            content = newer
        return stored

    def test_follows_bases(self) -> None:
        chain = self._chain(4)
        _, content = load(4, chain.get)
        assert content.endswith(b"\x02\x03\x04")

    def test_rejects_a_chain_that_is_too_long(self) -> None:
        chain = self._chain(MAX_DEPTH_READ + 2)
        load(MAX_DEPTH_READ + 1, chain.get)
        with pytest.raises(ContentError, match="too long a chain"):
            load(MAX_DEPTH_READ + 2, chain.get)

    @pytest.mark.parametrize("base", [2, 3, 0, -1])
    def test_rejects_a_cycle(self, base: int) -> None:
        chain = self._chain(3)
        chain[2] = chain[2]._replace(base=base)
        with pytest.raises(ContentError):
            load(3, chain.get)

    def test_names_the_missing_object(self) -> None:
        chain = self._chain(3)
        del chain[1]
        with pytest.raises(ContentError, match="object 1 is missing"):
            load(3, chain.get)


def test_cached_bases_are_not_fetched() -> None:
    base = a_container(a_pod(1)).SerializeToString(deterministic=True)
    content = a_container(a_pod(2)).SerializeToString(deterministic=True)
    packed = Packer().against(content, base, 1)
    assert packed is not None
    rows = {2: _stored(content, packed, number=2, base=1)}
    assert load(2, rows.get, {1: (int(ObjectKind.RAW), base)}.get) == (ObjectKind.RAW, content)


def test_each_object_of_a_chain_is_read_once() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE object (id, kind, hash, size, data, base)")
    content, chain = b"", list[bytes]()
    for number in range(1, 4):
        base, content = content, a_container(a_pod()).SerializeToString() + bytes(number)
        packed = Packer().against(content, base, 1) if base else Packer().alone(content)
        assert packed is not None
        row = number, ObjectKind.RAW, digest(content), len(content), packed, number - 1 or None
        connection.execute("INSERT INTO object VALUES (?, ?, ?, ?, ?, ?)", row)
        chain.append(content)
    objects = Objects(connection)
    assert objects.get(3) == (ObjectKind.RAW, chain[2])
    connection.execute("DELETE FROM object")
    assert [objects.content(number) for number in (1, 2, 3)] == chain
    connection.close()
