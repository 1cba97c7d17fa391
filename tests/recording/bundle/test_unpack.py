# SPDX-License-Identifier: Apache-2.0
"""Bundles from strangers are unpacked, or rejected in one line."""

from __future__ import annotations

import io
import os
import resource
import shutil
import stat
import struct
import warnings
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import RecordingError
from nri_scope.recording.bundle import zip_reader
from nri_scope.recording.bundle.manifest import MANIFEST, README, RECORDING, to_bytes
from nri_scope.recording.bundle.unpack import unpack
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.share.bundle.bundles import SAMPLE, TEXT, a_bundle, a_manifest, a_zip, with_manifest

SMALL = b"SQLite format 3\0" + bytes(range(256)) * 8


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


def rejection_of(path: Path, folder: Path) -> str:
    """Return the problem of a rejected bundle, and check that no file is left behind."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(RecordingError) as caught:
        unpack(path, folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert sorted(path.parent.rglob("*")) == before
    return caught.value.problem


def test_a_bundle_s_recording_is_unpacked_with_private_permissions(
    tmp_path: Path, private: Path
) -> None:
    path = unpack(a_bundle(tmp_path / "x.zip"), private)
    assert path.parent == private
    assert path.read_bytes() == SAMPLE.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_bundle_repacked_by_another_program_is_unpacked(tmp_path: Path, private: Path) -> None:
    again = tmp_path / "again.zip"
    with (
        zipfile.ZipFile(a_bundle(tmp_path / "x.zip", SMALL)) as source,
        zipfile.ZipFile(again, "w") as target,
    ):
        for name in reversed(source.namelist()):
            target.writestr(name, source.read(name))
    assert unpack(again, private).read_bytes() == SMALL


def test_a_bundle_written_to_a_pipe_is_unpacked(tmp_path: Path, private: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, offset: int, whence: int = 0, /) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    files = {MANIFEST: to_bytes(a_manifest(SMALL)), README: TEXT, RECORDING: SMALL}
    with zipfile.ZipFile(pipe, "w") as file:
        for name, content in files.items():
            # With an extra field for times, as written by other programs.
            file.writestr(_with_extra(name, struct.pack("<2HBL", 0x5455, 5, 1, 0)), content)
    assert pipe.getvalue().count(b"PK\x07\x08") == 3
    (tmp_path / "x.zip").write_bytes(pipe.getvalue())
    assert unpack(tmp_path / "x.zip", private).read_bytes() == SMALL


def test_additional_files_in_the_manifest_are_accepted(tmp_path: Path, private: Path) -> None:
    import json

    from tests.share.bundle.bundles import a_file

    document = json.loads(to_bytes(a_manifest(SMALL)))
    one = a_file(b"later")
    document["files"]["later.bin"] = {"size": one.size, "sha256": one.sha256}
    path = a_zip(
        tmp_path / "x.zip",
        (MANIFEST, json.dumps(document).encode()),
        (README, TEXT),
        (RECORDING, SMALL),
        ("later.bin", b"later"),
    )
    assert unpack(path, private).read_bytes() == SMALL
    assert list(private.iterdir()) == [private / RECORDING]


class TestTricks:
    def _with(self, path: Path, *more: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
        files = ((MANIFEST, to_bytes(a_manifest(SMALL))), (README, TEXT), (RECORDING, SMALL))
        return a_zip(path, *files, *more)

    @pytest.mark.parametrize(
        "name",
        [
            "../evil",
            "/etc/passwd",
            "folder/file",
            "folder/",
            "..",
            ".",
            ".hidden",
            "a\\b",
            "C:evil",
            "tab\tname",
            "new\nline",
            "\x1b[2J",
            "ünï",
            "n" * 65,
            "n" * 5000,
        ],
    )
    def test_an_unsafe_file_name_is_rejected(
        self, name: str, tmp_path: Path, private: Path
    ) -> None:
        problem = rejection_of(self._with(tmp_path / "x.zip", (name, b"evil")), private)
        assert "no bundle has such a name" in problem and len(problem) < 250

    @pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFBLK])
    def test_links_folders_and_devices_are_rejected(
        self, kind: int, tmp_path: Path, private: Path
    ) -> None:
        entry = zipfile.ZipInfo(RECORDING)
        entry.create_system = 3
        entry.external_attr = (kind | 0o777) << 16
        path = a_zip(tmp_path / "x.zip", (MANIFEST, b"{}"), (entry, b"/etc/passwd"))
        assert "a link, a folder or a device" in rejection_of(path, private)

    @pytest.mark.parametrize("name", [RECORDING, RECORDING.upper()])
    def test_two_files_of_one_name_are_rejected(
        self, name: str, tmp_path: Path, private: Path
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = self._with(tmp_path / "x.zip", (name, b"other"))
        assert "two files" in rejection_of(path, private)

    def test_a_file_missing_in_the_manifest_is_rejected(
        self, tmp_path: Path, private: Path
    ) -> None:
        path = self._with(tmp_path / "x.zip", ("extra.sh", b"#!/bin/sh"))
        assert "extra.sh that its manifest does not list" in rejection_of(path, private)

    def test_many_files_are_rejected(self, tmp_path: Path, private: Path) -> None:
        path = self._with(tmp_path / "x.zip", *((f"f{n}", b"") for n in range(2000)))
        assert "2003 files" in rejection_of(path, private)

    def test_encryption_is_rejected(self, tmp_path: Path, private: Path) -> None:
        path = self._with(tmp_path / "x.zip")
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(content)
        assert "encrypted" in rejection_of(path, private)

    def test_an_unsupported_compression_method_is_rejected(
        self, tmp_path: Path, private: Path
    ) -> None:
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_LZMA) as file:
            file.writestr(MANIFEST, b"{}" * 100)
        assert "method 14" in rejection_of(tmp_path / "x.zip", private)

    @pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"])
    def test_data_before_or_after_the_archive_is_rejected(
        self, before: bytes, tmp_path: Path, private: Path
    ) -> None:
        path = self._with(tmp_path / "x.zip")
        path.write_bytes(before + path.read_bytes() + (b"" if before else b"more"))
        rejection_of(path, private)

    @pytest.mark.parametrize("where", range(4))
    def test_data_between_files_is_rejected(
        self, where: int, tmp_path: Path, private: Path
    ) -> None:
        path = self._with(tmp_path / "x.zip")
        path.write_bytes(_with_more_before(path.read_bytes(), where, b"PK\x03\x04 and more"))
        if where:
            # Other programs unpack the archive without an error.
            with zipfile.ZipFile(path) as file:
                assert file.testzip() is None
        assert "data outside its files" in rejection_of(path, private)

    @pytest.mark.parametrize("number", [0x7075, 0x0001, 0x9901])
    def test_an_extra_field_that_overrides_name_or_size_is_rejected(
        self, number: int, tmp_path: Path, private: Path
    ) -> None:
        entry = zipfile.ZipInfo("extra.bin")
        entry.extra = struct.pack("<2H4s", number, 4, b"evil")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = self._with(tmp_path / "x.zip", (entry, b"more"))
        assert f"an unsupported extra field ({number:#06x})" in rejection_of(path, private)

    @pytest.mark.parametrize("extra", [b"\x55", b"\x55\x54\x09\0short"])
    def test_a_truncated_extra_field_is_rejected(
        self, extra: bytes, tmp_path: Path, private: Path
    ) -> None:
        path = self._with(tmp_path / "x.zip", (_with_extra("extra.bin", extra), b"more"))
        assert "damaged extra fields" in rejection_of(path, private)

    def test_an_archive_comment_is_rejected(self, tmp_path: Path, private: Path) -> None:
        path = self._with(tmp_path / "x.zip")
        with zipfile.ZipFile(path, "a") as file:
            file.comment = b"hello"
        rejection_of(path, private)

    def test_a_pipe_does_not_block(self, tmp_path: Path, private: Path) -> None:
        os.mkfifo(tmp_path / "x.zip")
        assert "not a regular file" in rejection_of(tmp_path / "x.zip", private)

    def test_overlapping_files_are_rejected(self, tmp_path: Path, private: Path) -> None:
        path = self._with(tmp_path / "x.zip")
        content = bytearray(path.read_bytes())
        start = content.rindex(b"PK\x05\x06")
        (directory,) = struct.unpack_from("<L", content, start + 16)
        # The third file's entry points to the second file's local header.
        second = content.index(b"PK\x01\x02", directory + 4)
        third = content.index(b"PK\x01\x02", second + 4)
        content[third + 42 : third + 46] = content[second + 42 : second + 46]
        path.write_bytes(content)
        assert "contradicts the headers" in rejection_of(path, private)


def _with_extra(name: str, extra: bytes) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.extra = extra
    return entry


def _with_more_before(content: bytes, where: int, more: bytes) -> bytes:
    """Insert ``more`` before file number ``where`` or the directory, and correct all offsets."""
    end = content.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<2L", content, end + 12)
    entries = bytearray(content[start : start + size])
    offsets = []
    at = 0
    while at < size:
        (begin,) = struct.unpack_from("<L", entries, at + 42)
        offsets.append(begin)
        if len(offsets) > where:
            struct.pack_into("<L", entries, at + 42, begin + len(more))
        at += 46 + sum(struct.unpack_from("<3H", entries, at + 28))
    cut = [*offsets, start][where]
    tail = content[end : end + 16] + struct.pack("<L", start + len(more)) + content[end + 20 :]
    return content[:cut] + more + content[cut:start] + bytes(entries) + tail


@pytest.mark.beyond_core
class TestBombs:
    def _bomb(self, path: Path, claimed: int | None = None) -> Path:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
            file.writestr(MANIFEST, to_bytes(a_manifest(bytes(64 << 20))))
            file.writestr(README, TEXT)
            file.writestr(RECORDING, bytes(64 << 20))
        if claimed is not None:
            content = bytearray(path.read_bytes())
            at = content.rindex(b"PK\x01\x02")
            content[at + 24 : at + 28] = struct.pack("<L", claimed)
            path.write_bytes(content)
        return path

    def test_a_compression_ratio_over_the_limit_is_rejected(
        self, tmp_path: Path, private: Path
    ) -> None:
        path = self._bomb(tmp_path / "x.zip")
        assert path.stat().st_size < 100_000
        assert "times its size" in rejection_of(path, private)

    def test_a_declared_size_below_the_actual_one_is_rejected(
        self, tmp_path: Path, private: Path
    ) -> None:
        assert "is not the one in its manifest" in rejection_of(
            self._bomb(tmp_path / "x.zip", 1000), private
        )

    def test_no_more_than_the_declared_size_is_unpacked(self, tmp_path: Path) -> None:
        path = self._bomb(tmp_path / "x.zip", 1000)
        with path.open("rb") as file:
            entry = zip_reader.entries(file, path.stat().st_size, 1 << 30)[RECORDING]
            pieces: list[bytes] = []
            with pytest.raises(zip_reader.ArchiveError, match="larger than its declared size"):
                pieces.extend(zip_reader.unpacked(file, entry))
        assert sum(map(len, pieces)) <= 1000

    def test_a_declared_size_over_the_limit_is_rejected(
        self, tmp_path: Path, private: Path
    ) -> None:
        assert "at most" in rejection_of(self._bomb(tmp_path / "x.zip", 0xFFFFFFF0), private)

    def test_a_bundle_over_the_size_limit_is_rejected(self, tmp_path: Path, private: Path) -> None:
        path = tmp_path / "x.zip"
        with path.open("wb") as file:
            file.truncate((1 << 30) + 1)
        assert "at most 1,073,741,824" in rejection_of(path, private)


class TestContent:
    @pytest.mark.parametrize("name", [README, RECORDING])
    def test_a_file_that_differs_from_its_manifest_entry_is_rejected(
        self, name: str, tmp_path: Path, private: Path
    ) -> None:
        files = {MANIFEST: to_bytes(a_manifest(SMALL)), README: TEXT, RECORDING: SMALL}
        files[name] = bytes([files[name][0] ^ 1]) + files[name][1:]
        path = a_zip(tmp_path / "x.zip", *files.items())
        assert f"{name} is not the file that its manifest describes" in rejection_of(path, private)

    @pytest.mark.parametrize("name", [MANIFEST, README, RECORDING])
    def test_a_missing_file_is_named(self, name: str, tmp_path: Path, private: Path) -> None:
        files = {MANIFEST: to_bytes(a_manifest(SMALL)), README: TEXT, RECORDING: SMALL}
        del files[name]
        path = a_zip(tmp_path / "x.zip", *files.items())
        assert f"it has no {name}" in rejection_of(path, private)

    def test_a_newer_bundle_s_error_says_to_upgrade(self, tmp_path: Path, private: Path) -> None:
        path = with_manifest(tmp_path / "x.zip", {"version": 2, "files": None})
        with pytest.raises(RecordingError, match=r"version 2, and .* up to 1; upgrade nri-scope"):
            unpack(path, private)

    def test_a_folder_without_space_is_an_os_error(self, tmp_path: Path, private: Path) -> None:
        path = a_bundle(tmp_path / "x.zip")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                unpack(path, private)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not any(private.iterdir())


_damage = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "fill", "double"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=6,
)


def _damaged(content: bytearray, damage: list[tuple[str, float, int]]) -> bytearray:
    for kind, where, value in damage:
        at = int(where * len(content))
        match kind:
            case "flip":
                content[at : at + 1] = bytes([content[at] ^ value]) if content else b""
            case "fill":
                content[at : at + 8] = bytes([value]) * 8
            case "double":
                content[at:at] = content[at : at + value]
            case _:
                del content[at : at + value]
    return content


@settings(max_examples=amount(300, 60))
@given(damage=_damage)
def test_a_damaged_bundle_is_unpacked_unchanged_or_rejected(
    damage: list[tuple[str, float, int]],
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        path = a_bundle(folder / "x.zip", SMALL)
        path.write_bytes(_damaged(bytearray(path.read_bytes()), damage))
        target = folder / "private"
        target.mkdir()
        try:
            found = unpack(path, target)
        except RecordingError:
            assert not any(target.iterdir())
        else:
            assert found.read_bytes() == SMALL


def test_a_bundle_without_enough_disk_space_is_not_unpacked(
    tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_bundle(tmp_path / "x.zip", SMALL)
    # The package also has a function named unpack.
    module = import_module("nri_scope.recording.bundle.unpack")
    # A threshold above every size disables the check.
    monkeypatch.setattr(module, "LARGE_BYTES", 1 << 62)
    assert unpack(path, private).read_bytes() == SMALL
    (private / RECORDING).unlink()
    monkeypatch.setattr(module, "LARGE_BYTES", len(SMALL))
    assert unpack(path, private).read_bytes() == SMALL
    (private / RECORDING).unlink()
    usage = shutil.disk_usage(private)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * len(SMALL) - 1))
    problem = rejection_of(path, private)
    assert f"it takes 2.02 KiB unpacked, and {tmp_path} has 4.03 KiB free" in problem
