# SPDX-License-Identifier: Apache-2.0
"""The user's redaction key, which makes tokens stable across runs and never leaves the machine."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.trusted_location import folder_access, name_of, trusted_users

KEY_BYTES = 32


def key_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the key according to the XDG Base Directory Specification."""
    folder = environ.get("XDG_STATE_HOME", "")
    # The specification requires ignoring a relative path.
    base = Path(folder) if folder.startswith("/") else Path("~/.local/state").expanduser()
    return base / "nri-scope"


def local_key(folder: Path | None = None) -> bytes:
    """Return the user's key on this machine, created on first use. Raises UsageError.

    Only the owner may read the file: with the key, guesses of a token's original can be verified.
    """
    path = (folder if folder is not None else key_folder()) / "redaction.key"
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _make(path)
    except OSError as error:
        raise _unusable(path, error) from error


def derive(key: bytes, purpose: bytes) -> bytes:
    """Return a key for ``purpose``, e.g. one recording; tokens of two purposes cannot be linked."""
    return hmac.digest(key, b"nri-scope redaction\0" + purpose, hashlib.sha256)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path}: the redaction key is not a regular file", "remove it")
        _check_owners(path, status.st_uid)
        if status.st_mode & 0o077:
            raise UsageError(
                f"{path}: users other than the owner can read this key",
                "remove it: the next run makes a new key and other tokens",
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: not a key of {KEY_BYTES} bytes", "remove it")
    return key


def _check_owners(path: Path, owner: int) -> None:
    """Raise UsageError if another user owns the key or could replace it with a known one.

    Also raises OSError.
    """
    problem = folder_access(Path(os.path.realpath(path.parent))).problem
    if owner not in trusted_users():
        problem = f"it belongs to another user ({name_of(owner)})"
    if problem:
        raise UsageError(
            f"{path}: the redaction key cannot be trusted: {problem}",
            "set XDG_STATE_HOME to a folder of your own",
        )


def _make(path: Path) -> bytes:
    _check_owners(path, os.geteuid())
    key = secrets.token_bytes(KEY_BYTES)
    # The link makes the complete file appear at once, and fails if another process was faster.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return _read(path)
    finally:
        temporary.unlink(missing_ok=True)
    return key


def _unusable(path: Path, error: OSError) -> UsageError:
    words = (error.strerror or str(error)).lower()
    return UsageError(f"{path}: the redaction key cannot be used: {words}", "check its folder")
