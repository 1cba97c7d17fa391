# SPDX-License-Identifier: Apache-2.0
"""A machine's files in a temporary folder."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nri_scope.doctor.host import Host

BOOT = 1_700_000_000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Machine:
    root: Path

    @property
    def host(self) -> Host:
        return Host(self.root)

    def at(self, path: str) -> Path:
        """Return the real path of ``path`` after creating its parent folder."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def write(self, path: str, text: str = "", *, mode: int = 0o644, changed: float = BOOT) -> Path:
        place = self.at(path)
        place.write_text(text)
        place.chmod(mode)
        os.utime(place, (changed, changed))
        return place

    def link(self, path: str, target: str) -> None:
        self.at(path).symlink_to(target)

    def process(
        self, pid: int, name: str, *arguments: str, program: str = "", started: float = BOOT + 100
    ) -> None:
        self.write("/proc/stat", f"cpu  1 2 3\nbtime {BOOT}\n")
        self.write(f"/proc/{pid}/comm", f"{name}\n")
        self.write(f"/proc/{pid}/cmdline", "".join(f"{a}\0" for a in (name, *arguments)))
        ticks = int((started - BOOT) * TICKS)
        self.write(f"/proc/{pid}/stat", f"{pid} (a ) name) S {'0 ' * 18}{ticks} 0 0\n")
        if program:
            self.link(f"/proc/{pid}/exe", program)


def let_through(folder: Path) -> None:
    """Let all users enter a temporary folder despite pytest's private parent folders."""
    for parent in folder.parents:
        if parent == Path(tempfile.gettempdir()) or parent.stat().st_uid != os.geteuid():
            break
        parent.chmod(parent.stat().st_mode | 0o011)
