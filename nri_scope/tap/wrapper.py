# SPDX-License-Identifier: Apache-2.0
"""A pre-installed plugin that is tapped whenever the runtime launches it, and the way back.

The original moves into a folder of its own below the folder of plugins, and a wrapper takes its
place. Runtimes do not look into folders there: containerd's and CRI-O's NRI skips them, as iSulad
does. But with NRI up to today one executable file beside the plugins that is not called ``NN-name``
keeps containerd from starting, so nothing of ours is ever there except under the plugin's own name.

At each moment the plugin's name leads to the original or to a wrapper that is complete. Wrapping
gives the original a second name and takes the first one away by one rename; unwrapping is one
rename. Whatever is left when either is interrupted is taken up, or removed, by the next try.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from time import monotonic, sleep

from nri_scope.errors import UsageError
from nri_scope.nri.identity import KEPT_FOLDER, parse_plugin_file

SHELL = "/bin/sh"

MARK = b"#!/bin/sh\n# nri-scope tap: "
"""How each wrapper begins, and nothing else does."""

_WASM = b"\0asm"
"""How a plugin begins that a runtime runs inside itself."""

_WRAPPER = """\
#!/bin/sh
# nri-scope tap: records what the runtime and this plugin say to each other. The plugin itself is
# {original}
# and runs as if this were not here where nri-scope cannot. To take this away:
# nri-scope tap --unwrap {place}
unset PWD OLDPWD SHLVL _
if [ -r {starter} ] && {python} -I -S -c '' </dev/null >/dev/null 2>&1; then
    exec {python} -I {starter} "$0" "$@"
fi
{{ echo {python} does not run, or {starter} is missing > {untapped}; }} 2>/dev/null
exec {program} "$@"
"""

_LABEL = "security.selinux"

ALONE_S = 5.0
"""How long to wait for another who wraps or unwraps plugins of the same folder; it takes less than
one."""


class State(Enum):
    """What is found of a plugin."""

    PLAIN = "as it was installed"
    BEGUN = "wrapping was interrupted: the original is in its place, and has a second name"
    WRAPPED = "wrapped"
    TAKEN = "wrapped once, but its place was taken by something else"
    GONE = "wrapped once, and nothing is in its place any more"
    LOST = "a wrapper whose original is missing"


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one wrapped plugin."""

    place: Path
    """Where the runtime looks for it, ``NN-name``."""

    @classmethod
    def of(cls, plugin: Path) -> Places:
        """Those of the plugin at ``plugin``; raises `UsageError` where no plugin can be."""
        parse_plugin_file(plugin.name)
        # The folder as it is, the plugin as it is named: that may be a link to its program.
        return cls(Path(os.path.realpath(plugin.parent)) / plugin.name)

    @property
    def folder(self) -> Path:
        """All of ours, but the wrapper once it is in place."""
        return self.place.parent / KEPT_FOLDER / self.place.name

    @property
    def original(self) -> Path:
        """The plugin as it was installed, under its own name: programs look at it."""
        return self.folder / self.place.name

    @property
    def starter(self) -> Path:
        """What the wrapper runs."""
        return self.folder / "start.py"

    @property
    def manner(self) -> Path:
        """How it is to be tapped, for the starter."""
        return self.folder / "tap.json"

    @property
    def untapped(self) -> Path:
        """Where the wrapper says why the plugin ran without a tap the last time."""
        return self.folder / "untapped.txt"

    @property
    def draft(self) -> Path:
        """The wrapper before it is in place."""
        return self.folder / "wrapper"

    @property
    def program(self) -> Path:
        """What to execute: a relative link leads somewhere else from where it is kept."""
        if not self.original.is_symlink():
            return self.original
        target = self.original.readlink()
        return self.original if target.is_absolute() else self.place.parent / target

    def state(self) -> State:
        """What is there now."""
        here, kept = _status(self.place), _status(self.original)
        if here is None:
            return State.PLAIN if kept is None else State.GONE
        if kept is not None and os.path.samestat(here, kept):
            return State.BEGUN
        if _begins(self.place, MARK):
            return State.LOST if kept is None else State.WRAPPED
        return State.PLAIN if kept is None else State.TAKEN


def _no_step(step: str) -> None:
    pass


def wrap(
    plugin: Path, starter: bytes, manner: bytes, step: Callable[[str], None] = _no_step
) -> Places:
    """Put a wrapper in place of ``plugin`` that runs ``starter`` with Python, if it can.

    ``starter`` is given how the runtime called the wrapper, and the arguments; it finds ``manner``
    beside itself, and the original. ``step`` hears of each step before
    it is done. Raises `UsageError` with everything as it was.
    """
    places = Places.of(plugin)
    with _told(places), _alone(places):
        _check_wrappable(places)
        try:
            _prepare(places, starter, manner, step)
            step("in place")
            # Not `Path.replace`: it is the one moment of all this, and it should be seen.
            os.rename(places.draft, places.place)  # noqa: PTH104
        except OSError:
            _tidy(places, step=_no_step)
            raise
        # It is done, whatever is said of it.
        with contextlib.suppress(OSError):
            _settle(places.place.parent, places.folder)
    return places


def _check_wrappable(places: Places) -> None:
    found = places.state()
    if found is State.GONE:
        raise UsageError(
            f"{places.place}: nothing is there any more, but it was wrapped once",
            "--unwrap brings the original back",
        )
    _check_original(places)
    if found is State.WRAPPED:
        raise UsageError(
            f"{places.place} is wrapped already", "take that away first, with --unwrap"
        )
    if found is State.TAKEN:
        raise UsageError(
            f"{places.place} was replaced since it was wrapped",
            f"remove {places.folder}, where the former one is, and wrap it again",
        )
    if found is State.LOST:
        raise _lost(places)


def _prepare(places: Places, starter: bytes, manner: bytes, step: Callable[[str], None]) -> None:
    """All but the wrapper's place."""
    step("folder")
    places.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if places.state() is not State.BEGUN:
        step("second name")
        os.link(places.place, places.original, follow_symlinks=False)
    step("manner")
    _write(places.manner, manner, 0o600)
    step("starter")
    _write(places.starter, starter, 0o644)
    step("wrapper")
    _write(places.draft, _wrapper(places), 0o600)
    _look_like(places.draft, places.place)
    _settle(places.folder, places.folder.parent, places.place.parent)


def unwrap(plugin: Path, step: Callable[[str], None] = _no_step) -> State:
    """Put the original of ``plugin`` back, the same file as before; returns what was found.

    Raises `UsageError` with everything as it was.
    """
    places = Places.of(plugin)
    with _told(places), _alone(places):
        found = places.state()
        match found:
            case State.PLAIN if not _remains(places):
                _check_there(places)
                with contextlib.suppress(OSError):
                    # Interrupted at the very last step, it would stay for ever.
                    places.folder.parent.rmdir()
                raise UsageError(f"{places.place} is not wrapped", "nothing was changed")
            case State.TAKEN:
                raise UsageError(
                    f"{places.place} is not wrapped any more: it was replaced since",
                    f"the former one is {places.original}; remove {places.folder} if that is not"
                    " needed",
                )
            case State.LOST:
                raise _lost(places)
            case State.WRAPPED | State.GONE:
                step("in place")
                os.rename(places.original, places.place)  # noqa: PTH104
                _settle(places.place.parent, places.folder)
            case _:
                pass
        _tidy(places, step)
    return found


def check_unwrapped(program: str) -> None:
    """Raise `UsageError` for a command that is a wrapper: it would record to the recording of the
    plugin that the runtime launches, beside that.
    """
    found = shutil.which(program)
    try:
        wrapped = found is not None and _begins(Path(found), MARK)
    except OSError:
        # Whoever runs it tells of that.
        return
    if wrapped:
        raise UsageError(
            f"{program} is wrapped: it is tapped whenever a runtime launches it",
            "give the plugin itself, which is in .nri-scope/NN-name beside it",
        )


def _lost(places: Places) -> UsageError:
    return UsageError(
        f"{places.place} is a wrapper whose plugin {places.original} is missing",
        "install the plugin again",
    )


def _check_there(places: Places) -> None:
    if _status(places.place) is None:
        raise _missing(places)


def _check_original(places: Places) -> None:
    """Refuse what no runtime would execute."""
    _check_there(places)
    status = places.place.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{places.place} is no program", "a plugin is an executable file")
    if not status.st_mode & 0o111:
        raise UsageError(
            f"{places.place} is not executable: no runtime launches it", "make it so: chmod +x"
        )
    if _begins(places.place, _WASM):
        raise UsageError(
            f"{places.place} is WebAssembly, which a runtime runs inside itself",
            "there is no connection to tap",
        )
    if not os.access(SHELL, os.X_OK):
        raise UsageError(f"there is no {SHELL} here, which a wrapper needs")
    if not sys.executable:
        raise UsageError("nri-scope cannot be run by a wrapper: Python does not know its program")


def _wrapper(places: Places) -> bytes:
    text = _WRAPPER.format(
        original=_comment(places.original),
        place=_comment(places.place),
        python=shlex.quote(sys.executable),
        starter=shlex.quote(str(places.starter)),
        program=shlex.quote(str(places.program)),
        untapped=shlex.quote(str(places.untapped)),
    )
    return os.fsencode(text)


def _comment(path: Path) -> str:
    return shlex.quote("".join(c if c.isprintable() else "?" for c in str(path)))


def _look_like(wrapper: Path, original: Path) -> None:
    """The wrapper is run by whom the original was."""
    status = original.stat()
    with contextlib.suppress(PermissionError):
        os.chown(wrapper, status.st_uid, status.st_gid)
    # Read by its interpreter, which the original may have done without. No setuid: scripts have
    # none, and the original keeps it.
    wrapper.chmod(status.st_mode & 0o777 | 0o400)
    # Systems without labels have none to copy.
    with contextlib.suppress(OSError):
        os.setxattr(wrapper, _LABEL, os.getxattr(original, _LABEL))


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file whole; nobody sees a part of it under its name."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _settle(*folders: Path) -> None:
    """Names reach the disk in the order in which they were given, even if the power goes."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _missing(places: Places) -> UsageError:
    return UsageError(f"{places.place}: no such plugin", "name its file in the folder of plugins")


def _remains(places: Places) -> bool:
    return places.folder.is_dir()


def _tidy(places: Places, step: Callable[[str], None]) -> None:
    """Remove what is ours. The original must be in its place, by whatever name else."""
    for path in (places.draft, places.starter, places.manner, places.untapped):
        for each in (path, path.with_name(f"{path.name}.part")):
            step(f"without {each.name}")
            each.unlink(missing_ok=True)
    here, kept = _status(places.place), _status(places.original)
    if here is not None and kept is not None and os.path.samestat(here, kept):
        step("without second name")
        places.original.unlink()
    for folder in (places.folder, places.folder.parent):
        step(f"without {folder.name}")
        # Somebody else's things, or another plugin's, keep it.
        with contextlib.suppress(OSError):
            folder.rmdir()


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _begins(path: Path, data: bytes) -> bool:
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(data)) == data


@contextlib.contextmanager
def _alone(places: Places) -> Iterator[None]:
    """Nobody else wraps or unwraps meanwhile: one who tidies up may remove what another needs.

    The lock is the folder's own, as no file of ours may be in it.
    """
    folder = places.place.parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(places) from None
    try:
        deadline = monotonic() + ALONE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > deadline:
                    raise UsageError(
                        f"{folder} is locked by another program, maybe one that wraps plugins",
                        "try again when that is done",
                    ) from None
                sleep(0.02)
            except OSError:
                # Some file systems, such as NFS, have no locks for folders.
                break
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told(places: Places) -> Iterator[None]:
    """Errors of the system in one line."""
    try:
        yield
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        hint = "run it as root" if isinstance(error, PermissionError) else ""
        raise UsageError(f"{error.filename or places.place}: {words}", hint) from error
