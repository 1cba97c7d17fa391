# SPDX-License-Identifier: Apache-2.0
"""Wrap a pre-installed plugin, so that it is tapped whenever a runtime launches it, or unwrap it.

The original moves into its own folder below the plugin folder, and a wrapper replaces it. Runtimes
ignore subfolders: NRI in containerd and CRI-O skips them, and so does iSulad. But all NRI versions
to date keep containerd from starting if an executable file in the plugin folder is not called
``NN-name``, so nri-scope creates no files there except under the plugin's own name.

At any moment, the plugin's name leads to the original or to a complete wrapper. Wrapping gives the
original a second name and replaces the first one with a single rename; unwrapping is a single
rename. After an interruption, the next attempt completes the work or removes leftovers.

An installed file is replaced in steps such that an interruption leaves a complete one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nri_scope.errors import UsageError, reason_of
from nri_scope.nri.identity import ORIGINALS_FOLDER, WASM_MAGIC, parse_plugin_file
from nri_scope.process.signals import root_hint
from nri_scope.recording.file.trusted_location import try_lock

_LABEL = "security.selinux"

LOCK_WAIT_S = 5.0
"""Maximum time in seconds to wait for another process that wraps or unwraps a plugin in the same
folder, which takes less than one second."""

SHELL = "/bin/sh"

MARK = b"#!/bin/sh\n# nri-scope tap: "
"""The first bytes of each wrapper, unique to wrappers."""

"""The first bytes of a WebAssembly plugin, which runs inside the runtime."""

_WRAPPER = """\
#!/bin/sh
# nri-scope tap: records the messages between the runtime and this plugin. The plugin itself is
# {original}
# and runs without a tap if nri-scope cannot run. To remove this wrapper:
# nri-scope tap --unwrap {place}
unset PWD OLDPWD SHLVL _
if [ -r {starter} ] && {python} -I -S -c '' </dev/null >/dev/null 2>&1; then
    exec {python} -I {starter} "$0" "$@"
fi
{{ echo {python} does not run, or {starter} is missing > {untapped}; }} 2>/dev/null
exec {program} "$@"
"""


class WrapperState(Enum):
    """The state of a plugin's files, as found on disk."""

    PLAIN = "as it was installed"
    BEGUN = "wrapping was interrupted: the original is still in place, and has a second name"
    WRAPPED = "wrapped"
    TAKEN = "was wrapped, but another file has replaced the wrapper"
    GONE = "was wrapped, but the wrapper is missing"
    LOST = "a wrapper whose original is missing"


@dataclass(frozen=True, slots=True)
class TapPaths:
    """The paths of the files of one wrapped plugin."""

    plugin: Path
    """The path where the runtime looks for the plugin, ``NN-name``."""

    @classmethod
    def of(cls, plugin: Path) -> TapPaths:
        """Return the paths for the plugin at ``plugin``, which has any name in NRI 0.1."""
        # Links are resolved for the folder only: the plugin may be a link to its executable.
        return cls(Path(os.path.realpath(plugin.parent)) / plugin.name)

    @property
    def folder(self) -> Path:
        """The folder of all files made by wrapping, except the wrapper once it is in place."""
        return self.plugin.parent / ORIGINALS_FOLDER / self.plugin.name

    @property
    def original(self) -> Path:
        """The installed plugin under its own file name, which some programs read."""
        return self.folder / self.plugin.name

    @property
    def starter(self) -> Path:
        """The Python program that the wrapper runs."""
        return self.folder / "start.py"

    @property
    def instructions(self) -> Path:
        """The settings of the tap, for the starter."""
        return self.folder / "tap.json"

    @property
    def untapped(self) -> Path:
        """The file in which the wrapper records why the plugin last ran without a tap."""
        return self.folder / "untapped.txt"

    @property
    def draft(self) -> Path:
        """The wrapper before it is moved into place."""
        return self.folder / "wrapper"

    @property
    def program(self) -> Path:
        """The file to execute: the original, or its target if it is a relative link.

        Such a link does not resolve in the original's new folder.
        """
        if not self.original.is_symlink():
            return self.original
        target = self.original.readlink()
        return self.original if target.is_absolute() else self.plugin.parent / target

    def state(self) -> WrapperState:
        """Return the current state of the files."""
        current, original = _status(self.plugin), _status(self.original)
        if current is None:
            return WrapperState.PLAIN if original is None else WrapperState.GONE
        if original is not None and os.path.samestat(current, original):
            return WrapperState.BEGUN
        if _starts_with(self.plugin, MARK):
            return WrapperState.LOST if original is None else WrapperState.WRAPPED
        return WrapperState.PLAIN if original is None else WrapperState.TAKEN


def wrap(plugin: Path, starter: bytes, instructions: bytes, *, any_name: bool = False) -> TapPaths:
    """Replace ``plugin`` with a wrapper that runs ``starter`` with Python, if Python works.

    The arguments of ``starter`` are the name under which the runtime called the wrapper, and the
    runtime's arguments; ``instructions`` and the original are in the folder of ``starter``. Plugins
    of NRI 0.1 have ``any_name``, others ``NN-name``. `UsageError` means that nothing was changed.
    """
    if not any_name:
        parse_plugin_file(plugin.name)
    paths = TapPaths.of(plugin)
    with usage_errors(paths.plugin), locked(paths.plugin.parent, _missing(paths)):
        _check_wrappable(paths)
        try:
            _prepare(paths, starter, instructions)
            # Not `Path.replace`: this rename is the decisive step, and should be easy to spot.
            os.rename(paths.draft, paths.plugin)  # noqa: PTH104
        except OSError:
            _remove_leftovers(paths)
            raise
        # The plugin is wrapped even if the folders cannot be synced.
        with contextlib.suppress(OSError):
            sync_folders(paths.plugin.parent, paths.folder)
    return paths


def _check_wrappable(paths: TapPaths) -> None:
    state = paths.state()
    if state is WrapperState.GONE:
        raise UsageError(
            f"{paths.plugin} is missing, although it was wrapped",
            "restore the original with --unwrap",
        )
    _check_original(paths)
    if state is WrapperState.WRAPPED:
        raise UsageError(
            f"{paths.plugin} is already wrapped", "remove the wrapper first, with --unwrap"
        )
    if state is WrapperState.TAKEN:
        raise UsageError(
            f"{paths.plugin} was replaced since it was wrapped",
            f"remove {paths.folder}, which contains the former plugin, and try again",
        )
    if state is WrapperState.LOST:
        raise _lost(paths)


def _prepare(paths: TapPaths, starter: bytes, instructions: bytes) -> None:
    """Create all files, including the wrapper as a draft."""
    paths.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if paths.state() is not WrapperState.BEGUN:
        os.link(paths.plugin, paths.original, follow_symlinks=False)
    write_file(paths.instructions, instructions, 0o600)
    write_file(paths.starter, starter, 0o644)
    write_file(paths.draft, _wrapper(paths), 0o600)
    _copy_access(paths.draft, paths.plugin)
    sync_folders(paths.folder, paths.folder.parent, paths.plugin.parent)


def unwrap(plugin: Path) -> WrapperState:
    """Restore the original of ``plugin``, the same file as before; return the state found.

    `UsageError` means that nothing was changed.
    """
    paths = TapPaths.of(plugin)
    with usage_errors(paths.plugin), locked(paths.plugin.parent, _missing(paths)):
        state = paths.state()
        match state:
            case WrapperState.PLAIN if not paths.folder.is_dir():
                _check_exists(paths)
                with contextlib.suppress(OSError):
                    # A leftover if the last step was interrupted.
                    paths.folder.parent.rmdir()
                raise UsageError(f"{paths.plugin} is not wrapped", "nothing was changed")
            case WrapperState.TAKEN:
                raise UsageError(
                    f"{paths.plugin} is no longer wrapped: it was replaced",
                    f"the former plugin is {paths.original}; remove {paths.folder} if it is not"
                    " needed",
                )
            case WrapperState.LOST:
                raise _lost(paths)
            case WrapperState.WRAPPED | WrapperState.GONE:
                os.rename(paths.original, paths.plugin)  # noqa: PTH104
                sync_folders(paths.plugin.parent, paths.folder)
            case _:
                pass
        _remove_leftovers(paths)
    return state


def check_unwrapped(program: str) -> None:
    """Raise `UsageError` if a command is a wrapper.

    Its recording belongs to the plugin that the runtime launches.
    """
    path = shutil.which(program)
    try:
        wrapped = path is not None and _starts_with(Path(path), MARK)
    except OSError:
        # Running the command will report this error.
        return
    if wrapped:
        raise UsageError(
            f"{program} is wrapped: it is tapped whenever a runtime launches it",
            "use the plugin itself, which is in .nri-scope/NN-name in the same folder",
        )


def _lost(paths: TapPaths) -> UsageError:
    return UsageError(
        f"{paths.plugin} is a wrapper whose plugin {paths.original} is missing",
        "install the plugin again",
    )


def _check_exists(paths: TapPaths) -> None:
    if _status(paths.plugin) is None:
        raise _missing(paths)


def _check_original(paths: TapPaths) -> None:
    """Reject files that a runtime would not execute, and hosts on which a wrapper cannot run."""
    _check_exists(paths)
    status = paths.plugin.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{paths.plugin} is not a regular file", "a plugin is an executable file")
    if not status.st_mode & 0o111:
        raise UsageError(
            f"{paths.plugin} is not executable, so no runtime launches it", "run chmod +x on it"
        )
    if _starts_with(paths.plugin, WASM_MAGIC):
        raise UsageError(
            f"{paths.plugin} is WebAssembly, which runs inside the runtime",
            "only plugins that are processes can be tapped",
        )
    if not os.access(SHELL, os.X_OK):
        raise UsageError(f"a wrapper requires {SHELL}, which is missing or not executable")
    if not sys.executable:
        raise UsageError(
            "nri-scope cannot be run by a wrapper: the path of the Python interpreter is unknown"
        )


def _wrapper(paths: TapPaths) -> bytes:
    text = _WRAPPER.format(
        original=_comment(paths.original),
        place=_comment(paths.plugin),
        python=shlex.quote(sys.executable),
        starter=shlex.quote(str(paths.starter)),
        program=shlex.quote(str(paths.program)),
        untapped=shlex.quote(str(paths.untapped)),
    )
    return os.fsencode(text)


def _comment(path: Path) -> str:
    return shlex.quote("".join(char if char.isprintable() else "?" for char in str(path)))


def _copy_access(wrapper: Path, original: Path) -> None:
    """Copy owner, mode and label of the original, so that the same users can run the wrapper."""
    status = original.stat()
    with contextlib.suppress(PermissionError):
        os.chown(wrapper, status.st_uid, status.st_gid)
    # The shell must be able to read the wrapper, unlike an executable. Setuid bits have no effect
    # on scripts; the original keeps them.
    wrapper.chmod(status.st_mode & 0o777 | 0o400)
    copy_label(wrapper, original)


def _missing(paths: TapPaths) -> UsageError:
    return UsageError(
        f"{paths.plugin}: no such plugin", "give the path of its file in the plugin folder"
    )


def _remove_leftovers(paths: TapPaths) -> None:
    """Remove the files made by wrapping. The plugin's name must already lead to the original."""
    for path in (paths.draft, paths.starter, paths.instructions, paths.untapped):
        for leftover in (path, path.with_name(f"{path.name}.part")):
            leftover.unlink(missing_ok=True)
    current, original = _status(paths.plugin), _status(paths.original)
    if current is not None and original is not None and os.path.samestat(current, original):
        paths.original.unlink()
    for folder in (paths.folder, paths.folder.parent):
        # A folder with other files, such as those of another plugin, stays.
        with contextlib.suppress(OSError):
            folder.rmdir()


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _starts_with(path: Path, data: bytes) -> bool:
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(data)) == data


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically: under its name, it is never incomplete."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def sync_folders(*folders: Path) -> None:
    """Sync folders in this order, so that after a power failure no later step is on disk alone."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def copy_label(path: Path, original: Path) -> None:
    """Copy the SELinux label of a file, if it has one."""
    # Some systems have no labels.
    with contextlib.suppress(OSError):
        os.setxattr(path, _LABEL, os.getxattr(original, _LABEL))


@contextlib.contextmanager
def locked(folder: Path, missing: UsageError) -> Iterator[None]:
    """Lock a folder against other processes that replace files in it.

    The lock is on the folder itself, as the folder must not contain a lock file. ``missing`` is
    raised if there is no such folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise missing from None
    try:
        is_locked = True
        # Some file systems, such as NFS, cannot lock folders.
        with contextlib.suppress(OSError):
            is_locked = try_lock(descriptor, LOCK_WAIT_S)
        if not is_locked:
            raise UsageError(
                f"{folder} is locked by another process, maybe by another nri-scope",
                "try again later",
            )
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def usage_errors(path: Path) -> Iterator[None]:
    """Translate OSError to UsageError."""
    try:
        yield
    except OSError as error:
        hint = root_hint("run it as root") if isinstance(error, PermissionError) else ""
        raise UsageError(f"{error.filename or path}: {reason_of(error)}", hint) from error
