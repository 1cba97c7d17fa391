# SPDX-License-Identifier: Apache-2.0
"""Strict reading of zip archives."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from nri_scope.recording.bundle import zip_reader


@pytest.mark.parametrize("more", [0, 1, 30, 100, 257, 258, 259, 4096])
def test_content_ending_just_after_a_chunk_is_complete(more: int) -> None:
    # Deflate consumes the last input byte before it has returned all output.
    content = bytes((256 << 10) + more)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", content)
    entry = zip_reader.entries(stream, len(stream.getvalue()), 1 << 20)["a"]
    assert b"".join(zip_reader.unpacked(stream, entry)) == content


def _broken(change: Callable[[bytearray], None]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("a", b"content")
    content = bytearray(stream.getvalue())
    change(content)
    return bytes(content)


def _set(offset: int, value: bytes) -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        at = content.rindex(b"PK\x05\x06") + offset
        content[at : at + len(value)] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set(4, b"\x01"),
        _set(6, b"\x01"),
        _set(8, b"\x02"),
        _set(8, b"\0\0\0\0"),
        _set(8, b"\x02\0\x02\0"),
        _set(12, b"\xff\xff\xff\xff"),
        _set(16, b"\xff\xff\xff\xff"),
        _set(16, b"\0\0\0\0"),
        _set(20, b"\x01"),
    ],
)
def test_an_invalid_end_record_is_rejected(
    change: Callable[[bytearray], None],
) -> None:
    content = _broken(change)
    with pytest.raises(zip_reader.ArchiveError):
        zip_reader.entries(io.BytesIO(content), len(content), 1 << 20)
