# SPDX-License-Identifier: Apache-2.0
"""File of a user's marks beside a recording. Only recorders write into the recording itself.

``FILE.marks.json`` contains ``marks``, a list of ``{"event": 42, "at_ns": 1763673480000000000,
"comment": "", "made_ns": 1763673490000000000}``, and ``unmarked``, a list of removed marks that are
still in the recording, without comments. `marks_of` merges them with the marks in the recording,
which copies and bundles have.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from nri_scope.events import MAX_COMMENT, MAX_MARKS, MarkKey, UserMark
from nri_scope.nri.plain import Plain

from ..file.file_errors import LOCKED, error_words
from ..file.sqlite_text import HIGHEST
from ..file.trusted_location import read_regular, try_lock, write_atomically
from ..reading.reader import Recording
from ..reading.rows import ascending as in_order
from ..reading.rows import mark_of
from ..reading.sqlite_errors import recording_errors

SCHEMA_VERSION = 1
_MAX_FILE_BYTES = 8 << 20
"""Maximum size of a file that is read. It may be untrusted, like the recording."""
LOCK_SECONDS = 2.0
"""Maximum wait for another process. Any user who can read the folder can hold its lock."""


class Unusable(Exception):
    """File of marks that cannot be used, and is left unchanged. The text is the reason."""


def marks_in(recording: Recording) -> list[UserMark]:
    """Return the marks of existing events, ordered by event. Raises RecordingError."""
    with recording_errors(recording):
        rows = recording.rows(
            "SELECT m.event, e.at_ns, substr(m.comment, 1, ?), m.made_ns "
            "FROM mark AS m JOIN event AS e ON e.id = m.event ORDER BY m.event LIMIT ?",
            (MAX_COMMENT, MAX_MARKS),
        )
        return [mark_of(row) for row in in_order(rows, (0,))]


def path_of(recording: Path) -> Path:
    """Return the path of the marks file beside a recording, or beside the target of a link."""
    return Path(f"{os.path.realpath(recording)}.marks.json")


def read(path: Path) -> dict[MarkKey, UserMark]:
    """Return the marks in a file, by key; empty if it does not exist. Raises Unusable."""
    try:
        content = read_regular(path, _MAX_FILE_BYTES + 1, follows=False)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error_words(error)}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise Unusable(f"{path} is too large for a file of marks")
    try:
        document: Plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} is damaged: it is not JSON") from error
    return _marks_of(path, document)


def write(path: Path, marks: Iterable[UserMark]) -> None:
    """Replace the file atomically, readable by its owner only; remove it if there are no marks.
    Raises OSError.
    """
    ordered = sorted(marks)
    if not ordered:
        path.unlink(missing_ok=True)
        return
    record: dict[str, Plain] = {
        "schema_version": SCHEMA_VERSION,
        "marks": [_plain(mark) for mark in ordered if not mark.gone],
    }
    if any(mark.gone for mark in ordered):
        record["unmarked"] = [_plain(mark) for mark in ordered if mark.gone]
    write_atomically(path, f"{json.dumps(record, indent=1)}\n".encode("ascii"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file in the block, by a lock on its folder.

    Without effect on file systems that cannot lock folders, such as NFS. Raises OSError.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_locked = True
        with suppress(OSError):
            is_locked = try_lock(folder, LOCK_SECONDS)
        if not is_locked:
            raise OSError(errno.EWOULDBLOCK, LOCKED)
        yield
    finally:
        os.close(folder)


def _plain(mark: UserMark) -> dict[str, Plain]:
    record: dict[str, Plain] = {"event": mark.event, "at_ns": mark.at_ns}
    if not mark.gone:
        record["comment"] = mark.comment
    return {**record, "made_ns": mark.made_ns}


def _marks_of(path: Path, document: Plain) -> dict[MarkKey, UserMark]:
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int:
        raise Unusable(f"{path} is damaged: it contains no marks")
    if version > SCHEMA_VERSION:
        raise Unusable(f"{path} was written by a newer nri-scope")
    marks = [
        _mark_of(path, entry, gone=name == "unmarked")
        for name in ("unmarked", "marks")
        for entry in _listed(path, document, name)
    ]
    return {mark.key: mark for mark in marks}


def _listed(path: Path, document: Mapping[str, Plain], name: str) -> list[Plain]:
    listed = document.get(name, [] if name == "unmarked" else None)
    if not isinstance(listed, list) or len(listed) > MAX_MARKS:
        raise Unusable(f"{path} is damaged: it contains no marks, or too many")
    return listed


def _mark_of(path: Path, value: Plain, *, gone: bool) -> UserMark:
    if isinstance(value, dict):
        # Older files lack ``made_ns``.
        event, at_ns, made_ns = (value.get(name, 0) for name in ("event", "at_ns", "made_ns"))
        comment = value.get("comment", "")
        if (
            type(event) is int
            and type(at_ns) is int
            and type(made_ns) is int
            and isinstance(comment, str)
            and 0 < event <= HIGHEST
            and 0 <= at_ns <= HIGHEST
            and 0 <= made_ns <= HIGHEST
        ):
            return UserMark(event, at_ns, comment[:MAX_COMMENT], made_ns, gone)
    raise Unusable(f"{path} is damaged: an entry is not a mark")


def merged(*sources: Iterable[UserMark]) -> dict[MarkKey, UserMark]:
    """Return the newest mark of each event, without removed marks.

    Between equally new marks, the last source takes precedence.
    """
    newest: dict[MarkKey, UserMark] = {}
    for marks in sources:
        for mark in marks:
            stored = newest.get(mark.key)
            if stored is None or stored.made_ns <= mark.made_ns:
                newest[mark.key] = mark
    return {key: mark for key, mark in newest.items() if not mark.gone}


def marks_of(recording: Recording) -> list[UserMark]:
    """Return all marks in a recording and beside it, ordered by event. Raises RecordingError.

    An unusable file of marks counts as empty.
    """
    marks: Mapping[MarkKey, UserMark] = {}
    with suppress(Unusable):
        marks = read(path_of(recording.path))
    return sorted(merged(marks_in(recording), marks.values()).values())
