# SPDX-License-Identifier: Apache-2.0
"""Programs of other people's plugins, in a cache folder outside the checkout, or as given.

A module that the Go module proxy serves is built from there. Other programs, such as those of
containerd/nri, which replace a module by a folder of their repository, are taken from the folder
``NRI_SCOPE_PLUGINS``, if it has them. ``python -m tests.plugins`` builds what is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.programs import build_program, download_module
from tests.runtime.testbed.packages import TestbedError, locked

GIVEN = "NRI_SCOPE_PLUGINS"
"""Variable with the folder of programs that are not built here."""


@dataclass(frozen=True)
class Module:
    """A module of the Go module proxy."""

    name: str
    version: str

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name.removeprefix('github.com/')} {self.version}"

    def fetch(self, folder: Path) -> None:
        """Write a writable copy of the module to a new folder, as a build completes its go.sum.

        :raises TestbedError: it is not served.
        """
        shutil.copytree(download_module(self.name, self.version), folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)


@dataclass(frozen=True)
class Given:
    """A project whose plugins are not served by the Go module proxy. They are not built here."""

    name: str
    version: str

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Program:
    """A program to build."""

    source: Module | Given
    package: str = ""
    """Folder of its main package in a module."""
    cgo: bool = False


def build(programs: dict[str, Program], name: str) -> Path:
    """Return a program; build all that are missing of its module, which is fetched once.

    :raises TestbedError: it cannot be fetched or built, or is not given; the message says why.
    """
    source = programs[name].source
    if isinstance(source, Given):
        given = Path(os.environ.get(GIVEN, "/nonexistent"), name)
        if not given.exists():
            raise TestbedError(
                f"{source.title} is not served by the Go module proxy, and {GIVEN} does not have it"
            )
        return given
    built = _cache_folder() / source.title.replace("/", "+").replace(" ", "-")
    with locked("plugins"):
        if not (built / name).exists():
            built.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=built) as work:
                folder = Path(work, "source")
                source.fetch(folder)
                for other, program in programs.items():
                    if program.source == source and not (built / other).exists():
                        sys.stderr.write(f"building {other}\n")
                        package = f"./{program.package}"
                        build_program(folder, package, built / other, cgo=program.cgo)
    return built / name


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "nri-scope" / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
