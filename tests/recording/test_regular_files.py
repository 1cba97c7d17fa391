# SPDX-License-Identifier: Apache-2.0
"""Files beside recordings: no read blocks, and written files are private to their owner."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.file.trusted_location import read_regular, write_private
from nri_scope.recording.marks import sidecar
from nri_scope.replay.checked_replay import check_junit_file, write_junit_file
from nri_scope.replay.golden.entries import Origin
from nri_scope.replay.golden.golden import Golden
from nri_scope.share.redaction import rules
from nri_scope.share.redaction.tokens import KEY_BYTES, local_key
from tests.recording.other_user import USER, give, make_other_kind, needs_root

_KINDS = ["pipe", "socket", "folder"]


def _key(path: Path) -> object:
    return local_key(path.rename(path.with_name("redaction.key")).parent)


_READERS: dict[str, Callable[[Path], object]] = {
    "golden": Golden.load,
    "rules": rules.read_rules,
    "marks": sidecar.read,
    "bundle": lambda path: unpack(path, path.parent),
    "junit": check_junit_file,
    "key": _key,
}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", _READERS)
def test_special_files_are_rejected_without_blocking(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "file"
    make_other_kind(path, kind, path)
    with pytest.raises((NriScopeError, sidecar.Unusable)) as caught:
        _READERS[name](path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", _KINDS)
def test_special_files_are_not_written_to(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    make_other_kind(path, kind, path)
    with pytest.raises(OSError):
        write_private(path, b"")
    with pytest.raises(UsageError):
        write_junit_file(path, "<testsuites/>")


def _save_golden(path: Path) -> None:
    Golden(Origin("a", "b", "c"), {}).save(path)


_WRITERS: list[Callable[[Path], None]] = [
    _save_golden,
    lambda path: write_junit_file(path, "<testsuites/>"),
    lambda path: write_private(path, b"secret"),
]


@pytest.mark.parametrize("write", _WRITERS)
def test_goldens_and_results_are_private_to_their_owner(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "out"
    before = os.umask(0)
    try:
        write(path)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        write(path)
        # Permissions that a user has widened are kept.
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


@needs_root
@pytest.mark.parametrize("write", _WRITERS)
def test_another_user_s_file_receives_no_content(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "out"
    path.touch()
    path.chmod(0o666)
    give(path)
    with path.open("rb") as opened_before:
        with suppress(OSError, UsageError):
            write(path)
        assert opened_before.read() == b""
        status = path.stat()
        assert status.st_uid == 0 or path.read_bytes() == b""
        assert status.st_uid != 0 or status.st_mode & 0o777 == 0o600


@needs_root
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("write", _WRITERS)
def test_another_user_s_link_is_not_followed(
    tmp_path: Path, write: Callable[[Path], None], exists: bool
) -> None:
    victim, link, own = tmp_path / "victim", tmp_path / "link", tmp_path / "own link"
    if exists:
        victim.touch()
    link.symlink_to(victim)
    give(link)
    # A link of our own to the other user's link is not followed either.
    own.symlink_to("link")
    for path in link, own:
        with pytest.raises((OSError, UsageError), match="belongs to another user"):
            write(path)
        assert victim.exists() == exists
        assert not exists or not victim.read_bytes()


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("write", _WRITERS)
def test_own_links_are_followed(
    tmp_path: Path, write: Callable[[Path], None], exists: bool
) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    if exists:
        (folder / "out").touch()
    link.symlink_to("folder/second")
    (folder / "second").symlink_to("out")
    write(link)
    assert (folder / "out").read_bytes()
    assert link.is_symlink()


def test_a_shorter_content_truncates_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_private(path, b"much")
    write_private(path, b"few")
    assert read_regular(path, 10) == b"few"
    with pytest.raises(FileExistsError):
        write_private(path, b"", only_new=True)


class TestKey:
    @needs_root
    def test_of_another_user_is_rejected(self, tmp_path: Path) -> None:
        path = tmp_path / "redaction.key"
        path.write_bytes(bytes(KEY_BYTES))
        path.chmod(0o600)
        give(path)
        with pytest.raises(UsageError, match=r"belongs to another user .*; set XDG_STATE_HOME"):
            local_key(tmp_path)

    @needs_root
    def test_in_another_user_s_folder_is_rejected_and_not_created(self, tmp_path: Path) -> None:
        folder = tmp_path / "nri-scope"
        folder.mkdir(0o700)
        give(folder)
        with pytest.raises(UsageError, match="belongs to another user"):
            local_key(folder)
        assert not list(folder.iterdir())
        os.chown(folder, 0, 0)
        local_key(folder)
        os.chown(folder, USER, USER)
        with pytest.raises(UsageError, match="belongs to another user"):
            local_key(folder)

    def test_in_a_folder_writable_by_others_is_rejected(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(UsageError, match=r"other users can write .*; set XDG_STATE_HOME"):
            local_key(tmp_path)
