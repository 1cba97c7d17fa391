# SPDX-License-Identifier: Apache-2.0
"""Wrapping and unwrapping a plugin's file, interrupted before every change of a file or folder."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.identity import ORIGINALS_FOLDER
from nri_scope.process.signals import root_hint
from nri_scope.tap.wrapper import TapPaths, WrapperState, unwrap, wrap

STARTER = b"import sys; print('tapped', sys.argv[2])\n"
KILLED = 77
CHANGES = ("open", "mkdir", "link", "rename", "replace", "unlink", "rmdir", "chmod", "chown")


class FileState(NamedTuple):
    """Content and metadata of a file that unwrapping must restore."""

    data: bytes
    inode: int
    mode: int
    owner: int
    group: int
    modified_ns: int
    links: int
    attributes: dict[str, bytes]


def file_state(path: Path) -> FileState:
    status = path.lstat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return FileState(
        path.read_bytes(),
        status.st_ino,
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        status.st_nlink,
        attributes,
    )


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "it's here"
    folder.mkdir()
    path = folder / "10-thing"
    path.write_text("#!/bin/sh\necho plain $0 $1\n")
    path.chmod(0o751)
    os.utime(path, ns=(1_000_000_001, 2_000_000_003))
    try:
        os.setxattr(path, "user.note", b"kept \0 too")
    except OSError:
        pass
    return path


@contextlib.contextmanager
def before_changes(call: Callable[[], None]) -> Iterator[None]:
    """Call a function before each change of a folder, or of a file's access, in the block."""

    def patched(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            if change is not opened or arguments[1] & os.O_CREAT:
                call()
            return change(*arguments, **options)

        return changed

    opened = os.open
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, patched(getattr(os, name)))
        yield


def is_killed_at(number: int, work: Callable[[], object]) -> bool:
    """Run ``work`` in a child that exits before a change; return if it got there."""
    pid = os.fork()
    if not pid:
        remaining = number

        def end() -> None:
            nonlocal remaining
            if not remaining:
                os._exit(KILLED)
            remaining -= 1

        try:
            with before_changes(end):
                work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == KILLED


def unwrap_if_wrapped(plugin: Path) -> None:
    """Unwrap the plugin if it is wrapped."""
    with contextlib.suppress(UsageError):
        unwrap(plugin)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(plugin: Path) -> str:
    return subprocess.run([plugin, "x"], capture_output=True, text=True, check=True).stdout


def test_the_wrapper_runs_instead_of_the_plugin_until_unwrap_restores_it(plugin: Path) -> None:
    before = file_state(plugin)
    places = wrap(plugin, STARTER, b"{}")
    assert run(plugin) == "tapped x\n"
    assert stat.S_IMODE(plugin.stat().st_mode) == 0o751
    assert file_state(places.original) == before
    assert places.instructions.read_bytes() == b"{}"
    assert unwrap(plugin) is WrapperState.WRAPPED
    assert file_state(plugin) == before
    assert names(plugin.parent) == [plugin.name]


def test_wrapping_adds_only_a_folder_beside_the_plugins(plugin: Path) -> None:
    """containerd does not start if there is another executable file or a link."""
    steps: list[list[str]] = []

    def look() -> None:
        steps.append([e.name for e in os.scandir(plugin.parent) if not e.is_dir()])

    with before_changes(look):
        wrap(plugin, STARTER, b"{}")
        unwrap(plugin)
    assert steps and all(names == [plugin.name] for names in steps)
    assert TapPaths.of(plugin).folder.parent.name == ORIGINALS_FOLDER


@pytest.mark.parametrize("broken", ["no python", "no starter"])
def test_without_nri_scope_the_original_plugin_runs(
    plugin: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "no python":
        monkeypatch.setattr("sys.executable", str(plugin.parent / "no" / "python"))
    places = wrap(plugin, STARTER, b"{}")
    if broken == "no starter":
        places.starter.unlink()
    assert run(plugin) == f"plain {places.original} x\n"
    assert "does not run" in places.untapped.read_text()
    unwrap(plugin)
    assert names(plugin.parent) == [plugin.name]


def test_the_plugin_runs_if_the_untapped_notice_cannot_be_written(plugin: Path) -> None:
    places = wrap(plugin, STARTER, b"{}")
    places.starter.unlink()
    places.untapped.mkdir()
    assert run(plugin) == f"plain {places.original} x\n"


def test_a_relative_link_to_a_program_is_wrapped_and_restored(plugin: Path) -> None:
    program = plugin.rename(plugin.parent.parent / "program")
    plugin.symlink_to("../program")
    places = wrap(plugin, STARTER, b"{}")
    assert run(plugin) == "tapped x\n"
    places.starter.unlink()
    assert run(plugin).startswith("plain")
    unwrap(plugin)
    assert plugin.readlink() == Path("../program")
    assert run(plugin).startswith("plain") and program.exists()


@pytest.mark.parametrize("finish", ["wrap", "unwrap"])
def test_wrapping_killed_at_any_step_is_recoverable(plugin: Path, finish: str) -> None:
    before = file_state(plugin)
    number = 0
    while is_killed_at(number, lambda: wrap(plugin, STARTER, b"{}")):
        assert run(plugin).startswith("plain")
        if finish == "wrap":
            wrap(plugin, STARTER, b"{}")
            assert run(plugin) == "tapped x\n"
            unwrap(plugin)
        else:
            unwrap_if_wrapped(plugin)
        assert file_state(plugin) == before
        assert names(plugin.parent) == [plugin.name]
        number += 1
    assert number >= 10
    assert run(plugin) == "tapped x\n"


@pytest.mark.parametrize("finish", ["wrap", "unwrap"])
def test_unwrapping_killed_at_any_step_is_recoverable(plugin: Path, finish: str) -> None:
    before = file_state(plugin)
    wrap(plugin, STARTER, b"{}")
    number = 0
    while is_killed_at(number, lambda: unwrap(plugin)):
        if number:
            assert run(plugin).startswith("plain")
        if finish == "wrap" and number:
            wrap(plugin, STARTER, b"{}")
            assert run(plugin) == "tapped x\n"
        unwrap_if_wrapped(plugin)
        assert file_state(plugin) == before
        assert names(plugin.parent) == [plugin.name]
        wrap(plugin, STARTER, b"{}")
        number += 1
    assert number >= 10
    assert file_state(plugin) == before


def test_a_failed_wrap_changes_nothing(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file_state(plugin)

    def raise_disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    with pytest.raises(UsageError, match="no space left"):
        wrap(plugin, STARTER, b"{}")
    assert file_state(plugin) == before
    assert names(plugin.parent) == [plugin.name]


def test_concurrent_wraps_and_unwraps_are_rejected(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file_state(plugin)
    monkeypatch.setattr("nri_scope.tap.wrapper.LOCK_WAIT_S", 0.0)

    def try_both() -> None:
        for work in (lambda: wrap(plugin, STARTER, b"{}"), lambda: unwrap(plugin)):
            with pytest.raises(UsageError, match="is locked by another"):
                work()

    with before_changes(try_both):
        wrap(plugin, STARTER, b"{}")
    assert run(plugin) == "tapped x\n"
    with before_changes(try_both):
        unwrap(plugin)
    assert file_state(plugin) == before
    assert names(plugin.parent) == [plugin.name]


def test_a_folder_without_lock_support_can_be_wrapped(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", fail)
    wrap(plugin, STARTER, b"{}")
    assert run(plugin) == "tapped x\n"
    unwrap(plugin)
    assert names(plugin.parent) == [plugin.name]


def test_unwrapping_leaves_another_wrapped_plugin_alone(plugin: Path) -> None:
    other = plugin.with_name("20-thing.sh")
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    wrap(plugin, STARTER, b"{}")
    wrap(other, STARTER, b"{}")
    unwrap(plugin)
    assert run(other) == "tapped x\n"
    unwrap(other)
    assert names(plugin.parent) == [plugin.name, other.name]


def test_invalid_plugin_files_are_rejected(plugin: Path) -> None:
    folder = plugin.parent
    with pytest.raises(UsageError, match="not a name for a plugin file"):
        wrap(folder / "thing", STARTER, b"")
    with pytest.raises(UsageError, match="no such plugin"):
        wrap(folder / "11-thing", STARTER, b"")
    (folder / "12-folder").mkdir()
    with pytest.raises(UsageError, match="not a regular file"):
        wrap(folder / "12-folder", STARTER, b"")
    (folder / "13-plain").write_text("")
    with pytest.raises(UsageError, match="not executable"):
        wrap(folder / "13-plain", STARTER, b"")
    (folder / "14-wasm").write_bytes(b"\0asm\1\0\0\0")
    (folder / "14-wasm").chmod(0o755)
    with pytest.raises(UsageError, match="WebAssembly"):
        wrap(folder / "14-wasm", STARTER, b"")
    (folder / "15-link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="no such file"):
        wrap(folder / "15-link", STARTER, b"")
    assert not (folder / ORIGINALS_FOLDER).exists()


def test_wrapping_twice_and_unwrapping_an_unwrapped_plugin_are_rejected(plugin: Path) -> None:
    with pytest.raises(UsageError, match="is not wrapped"):
        unwrap(plugin)
    wrap(plugin, STARTER, b"1")
    with pytest.raises(UsageError, match="already wrapped"):
        wrap(plugin, STARTER, b"2")
    assert TapPaths.of(plugin).instructions.read_bytes() == b"1"


def test_a_plugin_installed_over_the_wrapper_is_not_changed(plugin: Path) -> None:
    places = wrap(plugin, STARTER, b"")
    newer = plugin.with_name("newer")
    newer.write_text("#!/bin/sh\necho newer\n")
    newer.chmod(0o755)
    newer.replace(plugin)
    for action in (lambda: wrap(plugin, STARTER, b""), lambda: unwrap(plugin)):
        with pytest.raises(UsageError, match="was replaced"):
            action()
    assert run(plugin) == "newer\n"
    assert places.original.exists()


def test_unwrapping_restores_a_plugin_whose_wrapper_was_removed(plugin: Path) -> None:
    before = file_state(plugin)
    wrap(plugin, STARTER, b"")
    plugin.unlink()
    with pytest.raises(UsageError, match="--unwrap"):
        wrap(plugin, STARTER, b"")
    assert unwrap(plugin) is WrapperState.GONE
    assert file_state(plugin) == before


def test_a_missing_original_is_reported(plugin: Path) -> None:
    wrap(plugin, STARTER, b"").original.unlink()
    for action in (lambda: wrap(plugin, STARTER, b""), lambda: unwrap(plugin)):
        with pytest.raises(UsageError, match="is missing"):
            action()


def test_a_folder_without_write_permission_is_reported_and_unchanged(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file_state(plugin)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(plugin))

    monkeypatch.setattr(os, "link", deny)
    with pytest.raises(UsageError, match="permission denied; " + root_hint("run it as root")):
        wrap(plugin, STARTER, b"{}")
    assert file_state(plugin) == before
    assert names(plugin.parent) == [plugin.name]
