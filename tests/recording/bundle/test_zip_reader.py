# SPDX-License-Identifier: Apache-2.0
"""A zip is read in one way or not at all."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from nri_scope.recording.bundle import zip_reader


@pytest.mark.parametrize("more", [0, 1, 30, 100, 257, 258, 259, 4096])
def test_content_that_ends_just_behind_a_piece_comes_out(more: int) -> None:
    # Deflate has taken the last byte before all that it stands for was given.
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
def test_an_end_that_tells_something_impossible_is_refused(
    change: Callable[[bytearray], None],
) -> None:
    content = _broken(change)
    with pytest.raises(zip_reader.ArchiveError):
        zip_reader.entries(io.BytesIO(content), len(content), 1 << 20)
