# SPDX-License-Identifier: Apache-2.0
"""Build the reference programs in ``go/``, cached by a digest of their sources.

Binaries are stored in ``.cache/interop`` below the project's folder, which git ignores.
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

__all__ = [
    "Merger",
    "Programs",
    "Unavailable",
    "Variant",
    "build",
    "build_covered",
    "build_grpcurl",
    "build_merger",
    "build_oldest",
    "build_programs",
]

SOURCES = Path(__file__).parent / "go"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl"
CACHE = Path(__file__).parents[2] / ".cache"
LINK = "-ldflags=-s -w"
"""Without symbol tables and debug information, linking takes half the time."""


class Variant(Enum):
    """The NRI versions that the programs are built on, with their ``go build`` options."""

    NRI_0_12 = ("-tags=nri_no_wasm",)
    NRI_0_8 = ("-modfile=go.nri-0.8.mod", "-tags=nri_statechange")

    @property
    def dedicated(self) -> bool:
        """Whether each event has its own request; otherwise most travel as StateChange."""
        return self is Variant.NRI_0_12


class Merger(Enum):
    """The NRI versions that refmerge is built on, with the ``go build`` options of each.

    Merging differs between all of them.
    """

    NRI_0_6 = ("-modfile=go.nri-0.6.mod",)
    NRI_0_8 = ("-modfile=go.nri-0.8.mod", "-tags=nri_statechange")
    NRI_0_10 = ("-modfile=go.nri-0.10.mod", "-tags=nri_no_wasm")
    NRI_0_11 = ("-modfile=go.nri-0.11.mod", "-tags=nri_no_wasm")
    NRI_0_12_2 = ("-modfile=go.nri-0.12.2.mod", "-tags=nri_no_wasm")
    NRI_0_12 = ("-tags=nri_no_wasm",)

    @property
    def runtime_tags(self) -> str:
        """The tags that refruntime needs with this version."""
        if self is Merger.NRI_0_6:
            return "nri_statechange,nri_no_block"
        if self is Merger.NRI_0_8:
            return "nri_statechange"
        dedicated = self in (Merger.NRI_0_12_2, Merger.NRI_0_12)
        return "nri_no_wasm" if dedicated else "nri_no_wasm,nri_statechange"

    @property
    def nri_version(self) -> str:
        """The exact version, as in "0.12.5"."""
        (line,) = (one for one in _module_file(self.value) if "containerd/nri v" in one)
        return line.rpartition("v")[2].strip()


@dataclass(frozen=True)
class Programs:
    """Paths of the reference programs of one variant."""

    runtime: Path
    plugin: Path


@cache
def build(variant: Variant) -> Programs:
    """Return the programs of ``variant``, built if their sources changed. Raises Unavailable.

    With CI set in the environment, a missing Go or module raises RuntimeError instead.
    """
    folder = _built(variant.name.lower(), variant.value, "refruntime", "refplugin")
    return Programs(folder / "refruntime", folder / "refplugin")


@cache
def build_covered() -> Path:
    """Return the plugin of the newest version that writes coverage data, built like ``build``."""
    return _built("covered", ("-cover", *Variant.NRI_0_12.value), "refplugin") / "refplugin"


@cache
def build_merger(merger: Merger) -> Path:
    """Return the merging program for a version, built like ``build`` does."""
    return _built(f"merge_{merger.name.lower()}", merger.value, "refmerge") / "refmerge"


@cache
def build_programs(merger: Merger) -> Programs:
    """Return a runtime with a version, and a compatible plugin, built like ``build`` does.

    The plugin is built on the nearer of 0.8 and 0.12: both pass scripted replies through unchanged.
    """
    old = merger in (Merger.NRI_0_6, Merger.NRI_0_8)
    plugin = build(Variant.NRI_0_8 if old else Variant.NRI_0_12).plugin
    modules = [option for option in merger.value if option.startswith("-modfile=")]
    options = (*modules, f"-tags={merger.runtime_tags}")
    folder = _built(f"runtime_{merger.name.lower()}", options, "refruntime")
    return Programs(runtime=folder / "refruntime", plugin=plugin)


@cache
def build_oldest() -> Programs:
    """Return a runtime with NRI 0.3, the first with today's messages, and a compatible plugin.

    Both are built like ``build`` does.
    """
    tags = "-tags=nri_statechange,nri_no_block,nri_no_client_options"
    folder = _built("runtime_nri_0_3", ("-modfile=go.nri-0.3.mod", tags), "refruntime")
    return Programs(runtime=folder / "refruntime", plugin=build(Variant.NRI_0_8).plugin)


@cache
def build_grpcurl() -> Path:
    """Return a gRPC client, built like ``build`` does."""
    return _built("grpcurl", ("-modfile=go.grpcurl.mod",), GRPCURL) / "grpcurl"


def _built(name: str, options: tuple[str, ...], *programs: str) -> Path:
    try:
        return _build(name, options, programs)
    except Unavailable as error:
        if os.environ.get("CI"):
            raise RuntimeError(f"must not be skipped, as CI is set: {error}") from error
        raise


def _build(name: str, options: tuple[str, ...], programs: tuple[str, ...]) -> Path:
    """Return the folder with the programs."""
    go = find_go(_needed_go(options))
    version = go_version(go)
    folder = CACHE / "interop" / f"{name}-{_digest(version)}"
    if folder.exists():
        return folder
    packages = [program if "." in program else f"./{program}" for program in programs]
    # Separate from the build, to distinguish a missing network from a broken program.
    listed = _run(go, "list", *options, "-deps", *packages)
    if listed.returncode:
        raise Unavailable(f"Go modules unavailable: {listed.stderr.strip().splitlines()[-1]}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        target = Path(unfinished) / "programs"
        target.mkdir()
        built = _run(go, "build", LINK, *options, "-o", f"{target}/", *packages)
        if built.returncode:
            raise RuntimeError(f"go build failed:\n{built.stderr}")
        if not folder.exists():
            target.rename(folder)
    for older in folder.parent.glob(f"{name}-*"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    return folder


def _needed_go(options: tuple[str, ...]) -> str:
    (line,) = (line for line in _module_file(options) if line[:3] == "go ")
    return line.split()[1]


def _module_file(options: tuple[str, ...]) -> list[str]:
    named = [option.partition("=")[2] for option in options if option.startswith("-modfile=")]
    return (SOURCES / (*named, "go.mod")[0]).read_text().splitlines()


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # GOROOT would point a toolchain fetched as a module to the installed one.
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
