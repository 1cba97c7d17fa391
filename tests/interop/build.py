# SPDX-License-Identifier: Apache-2.0
"""Builds the reference programs in ``go/`` once per state of their sources.

The binaries go to ``.cache/interop`` in the project's folder, which git ignores.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from tests.interop.toolchain import Unavailable, find_go, go_version

__all__ = ["Programs", "Unavailable", "Variant", "build"]

SOURCES = Path(__file__).parent / "go"
CACHE = Path(__file__).parents[2] / ".cache"


class Variant(Enum):
    """The NRI versions that the programs are built on, with their ``go build`` options."""

    NRI_0_12 = ("-tags=nri_no_wasm",)
    NRI_0_8 = ("-modfile=go.nri-0.8.mod", "-tags=nri_statechange")

    @property
    def dedicated(self) -> bool:
        """Whether each event has its own request, or most travel as StateChange."""
        return self is Variant.NRI_0_12


@dataclass(frozen=True)
class Programs:
    """Paths of the reference programs of one variant."""

    runtime: Path
    plugin: Path


@cache
def build(variant: Variant) -> Programs:
    """Return the programs of ``variant``, built if their sources changed. Raises Unavailable.

    Where the environment says CI, a missing Go or module is a RuntimeError: there it must not
    go unnoticed.
    """
    try:
        return _build(variant)
    except Unavailable as error:
        if os.environ.get("CI"):
            raise RuntimeError(f"CI is set, so this is no reason to skip: {error}") from error
        raise


def _build(variant: Variant) -> Programs:
    go = find_go(_needed_go())
    version = go_version(go)
    folder = CACHE / "interop" / f"{variant.name.lower()}-{_digest(version)}"
    programs = Programs(runtime=folder / "refruntime", plugin=folder / "refplugin")
    if folder.exists():
        return programs
    options = variant.value
    # Separate from the build, so that a machine without a network is told from a broken program.
    listed = _run(go, "list", *options, "-deps", "./...")
    if listed.returncode:
        raise Unavailable(f"Go modules are not to be had: {listed.stderr.strip().splitlines()[-1]}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        target = Path(unfinished) / "programs"
        target.mkdir()
        built = _run(go, "build", *options, "-o", f"{target}/", "./refruntime", "./refplugin")
        if built.returncode:
            raise RuntimeError(f"go build failed:\n{built.stderr}")
        if not folder.exists():
            target.rename(folder)
    for older in folder.parent.glob(f"{variant.name.lower()}-*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return programs


def _needed_go() -> str:
    (line,) = (line for line in (SOURCES / "go.mod").read_text().splitlines() if line[:3] == "go ")
    return line.split()[1]


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # A toolchain that was fetched as a module must not look for the one it was fetched with.
    environment = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return subprocess.run(
        command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
    )


def _digest(go_version: str) -> str:
    digest = hashlib.blake2b(go_version.encode(), digest_size=8)
    for path in sorted(SOURCES.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(SOURCES)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
