# SPDX-License-Identifier: Apache-2.0
"""The user's redaction key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.share.redaction import derive, local_key
from nri_scope.share.redaction.tokens import key_folder


def test_the_key_is_created_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    umask = os.umask(0)
    try:
        key = local_key(folder)
    finally:
        os.umask(umask)

    modes = [one.stat().st_mode & 0o777 for one in (folder, folder.parent)]
    assert modes == [0o700, 0o700]
    assert len(key) == 32
    assert local_key(folder) == key
    (file,) = folder.iterdir()
    assert file.name == "redaction.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert local_key(tmp_path / "other") != key


def test_a_key_readable_by_others_is_refused(tmp_path: Path) -> None:
    local_key(tmp_path)
    (tmp_path / "redaction.key").chmod(0o644)

    with pytest.raises(UsageError, match="users other than the owner can read this key"):
        local_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_key_of_wrong_length_is_rejected(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "redaction.key"
    file.write_bytes(content)
    file.chmod(0o600)

    with pytest.raises(UsageError, match="not a key of 32 bytes"):
        local_key(tmp_path)


def test_an_error_names_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be used"):
        local_key(tmp_path / "file" / "folder")


def test_the_folder_follows_xdg_state_home() -> None:
    assert key_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/nri-scope")
    home = Path("~/.local/state/nri-scope").expanduser()
    assert key_folder({"XDG_STATE_HOME": "relative"}) == home
    assert key_folder({}) == home


def test_derived_keys_differ_by_purpose() -> None:
    key = bytes(range(32))

    assert derive(key, b"a") == derive(key, b"a")
    assert len({key, derive(key, b"a"), derive(key, b"b"), derive(bytes(32), b"a")}) == 4
