# SPDX-License-Identifier: Apache-2.0
"""Tell whether a recorder is writing to a file, and whether it does so in time.

The heartbeat is a small file beside a recording, which the process that replies to the runtime
overwrites in place, also on a full disk. Its lock tells that this process has not ended.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time_ns

from nri_scope.events import UNRESPONSIVE, UNWRITTEN

from .sqlite_text import HIGHEST
from .trusted_location import try_lock

BEAT_S = 2.0
"""Seconds between two heartbeats."""
LATE_NS = 10 * 10**9
"""Time after which a recorder without a heartbeat does not respond, and an event is late."""
_BYTES = 512
_CONTENT = re.compile(
    rb"([0-9]{1,19}) ([0-9]{1,19}) ([0-9]{1,19}) ([0-9]{1,19}) (.*?) *", re.DOTALL
)
"""Fields of a `Heartbeat`, padded to a constant size."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """State of a running recorder."""

    queued: int
    """Number of entries that wait to be written."""
    oldest_ns: int
    """Time since which the oldest event waits; 0 if none does."""
    lost: int
    """Number of events that this recorder has lost so far."""
    before_ns: int
    """Time of the heartbeat before; 0 for the first one. What arrived until then was read: a
    recorder that was stopped since may write a heartbeat before it reads what arrived meanwhile."""
    problem: str
    """Why nothing can be written; "" if it can."""
    at_ns: int = 0
    """Time of the heartbeat: that of the last write to its file."""

    def trouble(self, now_ns: int) -> str:
        """Return why the events of this time are not in the recording; "" if they are."""
        if now_ns - self.at_ns > LATE_NS:
            return UNRESPONSIVE
        if self.problem:
            return f"{UNWRITTEN}: {self.problem}"
        return UNWRITTEN if self.oldest_ns and now_ns - self.oldest_ns > LATE_NS else ""

    @property
    def written_ns(self) -> int:
        """Time up to which all events are certainly in the recording."""
        return min(self.before_ns, self.oldest_ns or self.before_ns)


class HeartbeatFile:
    """Heartbeat beside a recording, for its recorder. No method raises; a disk may block them."""

    def __init__(self, recording: Path) -> None:
        self._path = heartbeat_of(recording)
        self._file: int | None = None

    def write(self, heartbeat: Heartbeat) -> None:
        """Write a heartbeat; create the file if it is missing."""
        numbers = heartbeat.queued, heartbeat.oldest_ns, heartbeat.lost, heartbeat.before_ns
        text = f"{' '.join(map(str, numbers))} {heartbeat.problem}"
        content = text.encode()[:_BYTES].ljust(_BYTES)
        with suppress(OSError):
            if self._file is not None and not os.fstat(self._file).st_nlink:
                self.close()
            if self._file is None:
                # That of a killed recorder, or another user's.
                self._path.unlink(missing_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
                fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                os.pwrite(self._file, content, 0)
            except OSError:
                # On a full disk, a file system that copies on write can still set the time.
                os.utime(self._file)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with suppress(OSError):
                if os.fstat(self._file).st_nlink:
                    self._path.unlink()
            os.close(self._file)
            self._file = None


def heartbeat_of(recording: Path) -> Path:
    """Return the path of the heartbeat of a recording."""
    return recording.with_name(f"{recording.name}.heartbeat")


def read_heartbeat(recording: Path) -> Heartbeat | None:
    """Return the heartbeat of the recorder that is running; None if none is."""
    heartbeat, is_running = _read(recording)
    return heartbeat if is_running else None


def written_until(recording: Path) -> int:
    """Return the time in ns up to which a recorder that was killed wrote all events; 0: unknown."""
    heartbeat, is_running = _read(recording)
    was_killed = heartbeat is not None and not is_running and not heartbeat.problem
    return heartbeat.written_ns if heartbeat is not None and was_killed else 0


def _read(recording: Path) -> tuple[Heartbeat | None, bool]:
    """Return the newest heartbeat, and whether its recorder is running."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(heartbeat_of(recording), flags)
    except OSError:
        return None, False
    try:
        status = os.fstat(file)
        # Only the owner of the recording may tell about it.
        if not stat.S_ISREG(status.st_mode) or status.st_uid != recording.stat().st_uid:
            return None, False
        heartbeat = _parsed(os.pread(file, _BYTES, 0), min(status.st_mtime_ns, time_ns()))
        # A shared lock, so that several processes can check concurrently.
        return heartbeat, not try_lock(file, is_shared=True)
    except OSError:
        return None, False
    finally:
        os.close(file)


def _parsed(content: bytes, at_ns: int) -> Heartbeat:
    values = _CONTENT.fullmatch(content)
    if values is None:
        return Heartbeat(0, 0, 0, 0, "its heartbeat cannot be read", at_ns)
    queued, oldest_ns, lost, before_ns = (
        min(int(number), HIGHEST) for number in values.groups()[:4]
    )
    problem = values[5].decode(errors="replace")
    return Heartbeat(queued, oldest_ns, lost, min(before_ns, at_ns), problem, at_ns)
