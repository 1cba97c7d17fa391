# SPDX-License-Identifier: Apache-2.0
"""Find a Go toolchain that can build the reference programs.

Distributions have older versions than upstream's packages require (Debian 12: 1.19). New Go
commands fetch the toolchain required by ``go.mod`` as a module; this module does so with an old Go.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cli.command import NRI_SCOPE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_EXECUTABLE = 0o555


class Unavailable(Exception):
    """The reference programs cannot be built; the message is the reason."""


def find_go(needed: str) -> Path:
    """Return the path of a ``go`` command of at least version ``needed``, such as "1.24.0"."""
    found = shutil.which("go")
    if found is None:
        raise Unavailable("Go is not installed")
    version = go_version(Path(found))
    number = re.match(r"go(\d+)\.(\d+)", version)
    wanted = tuple(map(int, needed.split(".")[:2]))
    # A version without a number is a development build: treat it as the newest.
    if number is None or tuple(map(int, number.groups())) >= wanted:
        return Path(found)
    return _fetch(Path(found), version, needed)


def environment_for(folder: Path) -> dict[str, str]:
    """Return an environment whose PATH has a ``go`` that can build the plugin in ``folder``.

    Skips the test if there is none; with CI set in the environment, raises Unavailable instead.
    """
    try:
        go = find_go("1.24.0")
        listed = subprocess.run(
            [go, "list", "-tags", "nri_no_wasm", "-deps", "."],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode:
            raise Unavailable(listed.stderr.strip().splitlines()[-1])
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the Go plugin cannot be built: {error}")
    path = f"{go.parent}:{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path}


def go_version(go: Path) -> str:
    """Return the version of a ``go`` command, such as ``go1.24.0``."""
    run = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def _fetch(old: Path, version: str, needed: str) -> Path:
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise Unavailable(f"{version} is too old for the NRI packages")
    module = f"golang.org/toolchain@v0.0.1-go{needed}.linux-{architecture}"
    with tempfile.TemporaryDirectory() as empty:
        # Outside of any module, whose go.mod an old Go may not parse.
        run = subprocess.run(
            [old, "mod", "download", "-json", module],
            cwd=empty,
            env={**os.environ, "GO111MODULE": "on", "GOFLAGS": "-mod=mod"},
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode:
        raise Unavailable(
            f"{version} is too old for the NRI packages, and a newer one cannot be fetched: "
            f"{(run.stderr or run.stdout).strip()}"
        )
    return _make_usable(Path(json.loads(run.stdout)["Dir"]))


def _make_usable(toolchain: Path) -> Path:
    """Set executable bits and add go.mod, which modules lack, like newer Go commands do."""
    for folder in ("bin", "pkg/tool"):
        for path in (toolchain / folder).rglob("*"):
            if path.is_file():
                path.chmod(_EXECUTABLE)
    source = toolchain / "src"
    if not (source / "go.mod").exists():
        source.chmod(0o755)
        shutil.copyfile(source / "_go.mod", source / "go.mod")
        source.chmod(0o555)
    return toolchain / "bin" / "go"
