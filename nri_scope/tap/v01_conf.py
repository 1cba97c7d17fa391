# SPDX-License-Identifier: Apache-2.0
"""Install the recording plugin of NRI 0.1 in ``conf.json``, and restore that file.

``conf.json`` has one complete content at any moment: installing gives the original a second name
and replaces the first one with a single rename, uninstalling renames the original back. After an
interruption, the next attempt completes the work or removes leftovers.

The recording plugin is a shell program, as Python would delay each pod by its start. Its answer is
written first, and is all that the runtime waits for if nothing can be spooled.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from nri_scope.errors import UsageError
from nri_scope.nri import v01
from nri_scope.nri.v01 import PROGRAM, with_plugin
from nri_scope.recording.trusted_location import private_place

from .wrapper import SHELL, copy_label, locked, no_step, sync_folders, usage_errors, write_file

RECORDER = "nri-scope"
"""Name of the recording plugin, in its results and as the folder in the spool."""
REQUESTS_MAX = 1_024
"""Maximum number of requests in the spool; further ones are only counted."""
REQUEST_BYTES_MAX = 1 << 20
"""Maximum bytes of a spooled request. Annotations and labels have up to 512 KiB."""
QUIET_S = 0.5
"""Seconds without a running plugin of NRI 0.1 after which the recording plugin is removed: a call
that has read the old list still needs its program."""
QUIET_WAIT_S = 20.0
"""Maximum time in seconds to wait for that."""

_FOLDER = ".nri-scope-v01"
_NAME_MAX = 4096

_PROGRAM = """\
#!/bin/sh
# Spools the requests of NRI 0.1 for `nri-scope record`. To remove it, call `nri-scope tap --unwrap`
# with the configuration that names it.
answer='{answer}'
printf '%s\\n' "$answer"
exec 2>/dev/null
trap '' 25
umask 077
cd {folder} || exit 0
ulimit -f {blocks}
set -C -- *.in
if [ "$#" -lt {most} ]; then
    name=$$-0
    while [ -e "$name.in" ]; do name=$name"0"; done
    if {cat} >"$name.in" && printf '%s\\n' "$answer" >"$name.out" && true >"$name.v1"; then
        exit 0
    fi
    {rm} -f "$name.in" "$name.out"
fi
[ -e lost.from ] || true >lost.from
printf x >>lost
exit 0
"""


@dataclass(frozen=True, slots=True)
class ConfPlaces:
    """The files of an installation."""

    conf: Path
    """The configuration that the runtime reads."""

    @classmethod
    def of(cls, conf: Path) -> ConfPlaces:
        """Return the files for a configuration at ``conf``."""
        return cls(Path(os.path.realpath(conf.parent)) / conf.name)

    @property
    def folder(self) -> Path:
        """The folder of all files below."""
        return self.conf.parent / _FOLDER

    @property
    def before(self) -> Path:
        """The original, by a second name; missing if there was none."""
        return self.folder / "before.json"

    @property
    def after(self) -> Path:
        """A copy of the configuration with the recording plugin."""
        return self.folder / "after.json"

    @property
    def facts(self) -> Path:
        """The spool, and whether there was a configuration, as JSON."""
        return self.folder / "install.json"

    @property
    def draft(self) -> Path:
        """The new configuration before it is moved into place."""
        return self.folder / "draft.json"


def install(conf: Path, spool: Path, step: Callable[[str], None] = no_step) -> ConfPlaces:
    """Make the recording plugin the last of the list in ``conf``, with its spool in ``spool``.

    ``step`` is called with the name of each step before the step. `UsageError` means that ``conf``
    was not changed, and that no files or folders were made.
    """
    places = ConfPlaces.of(conf)
    with usage_errors(conf), contextlib.ExitStack() as undo:
        spool = private_place(spool, "name another --v01")
        made = not places.conf.parent.is_dir()
        for folder in _missing_folders(spool / RECORDER, places.conf.parent):
            undo.callback(_remove, folder)
        places.conf.parent.mkdir(mode=0o755, exist_ok=True)
        with locked(places.conf.parent, _missing(places)):
            facts = _facts(places)
            if facts is not None:
                if _is_in_place(places, facts):
                    raise UsageError(
                        f"{places.conf} already has the recording plugin",
                        "remove it first, with --unwrap",
                    )
                if not _is_untouched(places, facts):
                    raise _changed(places)
                _remove_leftovers(places, step=no_step)
            before = _content(places.conf)
            program = spool / PROGRAM
            try:
                after = with_plugin(before, str(program))
            except UsageError as error:
                raise UsageError(f"{places.conf}: {error.problem}", error.hint) from error
            if not os.path.lexists(program):
                undo.callback(_remove, program)
            try:
                step("program")
                _write_program(spool, program)
                _prepare(
                    places,
                    after,
                    {"spool": str(spool), "had_conf": before is not None, "made_folder": made},
                    step,
                )
                step("in place")
                _replace(places, before)
            except BaseException:
                with contextlib.suppress(OSError):
                    _remove_leftovers(places, step=no_step)
                raise
            undo.pop_all()
            with contextlib.suppress(OSError):
                sync_folders(places.conf.parent, places.folder)
    return places


def uninstall(
    conf: Path,
    step: Callable[[str], None] = no_step,
    *,
    is_busy: Callable[[], bool] | None = None,
) -> tuple[Path, int]:
    """Restore the configuration, the same file as before.

    Returns the spool, and the number of requests that are still in it; an empty spool is removed.
    `UsageError` means that ``conf`` was not changed, or that the program is still needed, and was
    kept.
    """
    places = ConfPlaces.of(conf)
    with usage_errors(conf), locked(places.conf.parent, _missing(places)):
        facts = _facts(places)
        if facts is None:
            raise UsageError(
                f"{places.conf} has no recording plugin of nri-scope", "nothing was changed"
            )
        step("in place")
        if _is_in_place(places, facts):
            if facts["had_conf"]:
                os.rename(places.before, places.conf)  # noqa: PTH104
            else:
                places.conf.unlink()
            sync_folders(places.conf.parent, places.folder)
        elif not _is_untouched(places, facts):
            raise _changed(places)
        spool = Path(str(facts["spool"]))
        if not _wait_for_calls(is_busy or _has_running_plugin):
            raise UsageError(
                f"{places.conf} is restored, but a running call of NRI 0.1 may still need "
                f"{spool / PROGRAM}",
                "repeat this command when no plugin runs any more",
            )
        step("without program")
        (spool / PROGRAM).unlink(missing_ok=True)
        waiting = _remove_empty(spool)
        _remove_leftovers(places, step)
        if facts["made_folder"]:
            with contextlib.suppress(OSError):
                places.conf.parent.rmdir()
    return spool, waiting


def _replace(places: ConfPlaces, before: bytes | None) -> None:
    """Move the new configuration into place, unless another program has changed the old one."""
    changed = UsageError(
        f"{places.conf} was changed by another program meanwhile", "repeat this command"
    )
    if before is None:
        try:
            os.link(places.draft, places.conf)
        except FileExistsError:
            raise changed from None
        places.draft.unlink()
        return
    if not places.before.samefile(places.conf) or places.conf.read_bytes() != before:
        raise changed
    os.rename(places.draft, places.conf)  # noqa: PTH104
    if places.before.read_bytes() != before:
        # Written to at the last moment: that content is the one to keep.
        os.rename(places.before, places.conf)  # noqa: PTH104
        raise changed


def _prepare(
    places: ConfPlaces, after: bytes, facts: dict[str, object], step: Callable[[str], None]
) -> None:
    """Create all files of the installation, with the new configuration as a draft."""
    step("folder")
    places.folder.mkdir(mode=0o700, exist_ok=True)
    step("facts")
    write_file(places.facts, json.dumps(facts).encode(), 0o600)
    step("copy")
    write_file(places.after, after, 0o600)
    step("draft")
    write_file(places.draft, after, 0o600)
    if facts["had_conf"]:
        status = places.conf.stat()
        os.chown(places.draft, status.st_uid, status.st_gid)
        places.draft.chmod(stat.S_IMODE(status.st_mode))
        copy_label(places.draft, places.conf)
        step("second name")
        os.link(places.conf, places.before, follow_symlinks=False)
    else:
        places.draft.chmod(0o644)
    sync_folders(places.folder, places.conf.parent)


def _facts(places: ConfPlaces) -> dict[str, object] | None:
    """Return the facts of an installation; None if there is none."""
    try:
        facts = json.loads(places.facts.read_bytes())
        if isinstance(facts["spool"], str):
            return {key: facts[key] for key in ("spool", "had_conf", "made_folder")}
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            # A leftover if the first step was interrupted.
            places.folder.rmdir()
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise UsageError(f"{places.facts} is damaged", f"the original file is {places.before}")


def _is_in_place(places: ConfPlaces, facts: dict[str, object]) -> bool:
    """Return whether the configuration is the installed one, and can be restored."""
    try:
        is_ours = places.conf.read_bytes() == places.after.read_bytes()
        return is_ours and (not facts["had_conf"] or places.before.is_file())
    except FileNotFoundError:
        return False


def _is_untouched(places: ConfPlaces, facts: dict[str, object]) -> bool:
    """Return whether the configuration is the original: an attempt was interrupted."""
    if not os.path.lexists(places.before):
        # Not yet made, or already moved back.
        if not facts["had_conf"]:
            return not os.path.lexists(places.conf)
        return not (places.after.exists() and places.conf.read_bytes() == places.after.read_bytes())
    try:
        return Path(places.before).samefile(places.conf)
    except FileNotFoundError:
        return False


def _changed(places: ConfPlaces) -> UsageError:
    former = f"the former file is {places.before}; " if places.before.exists() else ""
    return UsageError(
        f"{places.conf} was changed since the recording plugin was installed",
        f"{former}remove the plugin from the list by hand, and then {places.folder}",
    )


def _missing(places: ConfPlaces) -> UsageError:
    return UsageError(f"{places.conf.parent}: no such folder", "name another file")


def _content(conf: Path) -> bytes | None:
    """Return the configuration; None for no file."""
    try:
        status = conf.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise UsageError(f"{conf} is {kind}", "name the file itself")
    if status.st_nlink > 1:
        raise UsageError(
            f"{conf} has {status.st_nlink} names", "remove the others: replacing it would split it"
        )
    return conf.read_bytes()


def _write_program(spool: Path, program: Path) -> None:
    spool.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = spool / RECORDER
    for each in (spool, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        status = each.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            raise UsageError(f"{each} is not a folder of this user", "name another --v01")
        if status.st_mode & 0o022:
            raise UsageError(f"{each}: other users can write to it", "run chmod 700 on it")
    if os.statvfs(spool).f_flag & os.ST_NOEXEC:
        raise UsageError(f"{spool}: no program can run there (noexec)", "name another --v01")
    cat, rm = shutil.which("cat"), shutil.which("rm")
    if not os.access(SHELL, os.X_OK) or not cat or not rm:
        raise UsageError(f"the recording plugin needs {SHELL}, cat and rm", "install them")
    text = _PROGRAM.format(
        answer=json.dumps({"plugin": RECORDER, "version": v01.VERSION, "error": ""}),
        folder=shlex.quote(str(folder)),
        blocks=REQUEST_BYTES_MAX // 512,
        most=REQUESTS_MAX,
        cat=shlex.quote(cat),
        rm=shlex.quote(rm),
    )
    write_file(program, os.fsencode(text), 0o700)


def _missing_folders(*folders: Path) -> list[Path]:
    """Return which of these folders and their parents do not exist, each after its parent."""
    every = {each for folder in folders for each in (folder, *folder.parents)}
    return sorted(each for each in every if not os.path.lexists(each))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def _remove_empty(spool: Path) -> int:
    """Remove the spool if it has no requests; return how many it has."""
    waiting = 0
    with contextlib.suppress(FileNotFoundError):
        for folder in (each for each in spool.iterdir() if each.is_dir()):
            waiting += sum(name.endswith(".in") for name in os.listdir(folder))  # noqa: PTH208
            with contextlib.suppress(OSError):
                folder.rmdir()
        # A folder with other files stays.
        with contextlib.suppress(OSError):
            spool.rmdir()
    return waiting


def _remove_leftovers(places: ConfPlaces, step: Callable[[str], None]) -> None:
    """Remove the files of the installation; the facts last, as they announce the others."""
    for path in (places.draft, places.after, places.before, places.facts):
        for each in (path.with_name(f"{path.name}.part"), path):
            step(f"without {each.name}")
            each.unlink(missing_ok=True)
    step("without folder")
    with contextlib.suppress(OSError):
        places.folder.rmdir()


def _wait_for_calls(is_busy: Callable[[], bool]) -> bool:
    """Wait until no call can still be about to start the recording plugin, at most a while.

    Returns whether that is so.
    """
    now = quiet = monotonic()
    until = now + QUIET_WAIT_S
    while (now := monotonic()) < until and now - quiet < QUIET_S:
        if is_busy():
            quiet = now
        sleep(0.02)
    return now - quiet >= QUIET_S


def _has_running_plugin() -> bool:
    """Return whether a process runs that was started as ``TYPE invoke``."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{entry.name}/cmdline", "rb") as file:  # noqa: PTH123
                if file.read(_NAME_MAX).endswith(b"\0invoke\0"):
                    return True
    return False
