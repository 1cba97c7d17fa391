# SPDX-License-Identifier: Apache-2.0
"""Prometheus: installed, or Debian's package, unpacked into a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_CACHE = Path(__file__).parents[2] / ".cache" / "prometheus"


def promtool() -> Path:
    """Return the path of promtool, as `program`."""
    return program("promtool")


def program(name: str) -> Path:
    """Return the path of ``promtool`` or ``prometheus``.

    Without it, skip the test, or fail with CI in the environment.
    """
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    path = _CACHE / "usr/bin" / name
    if not path.exists() and not _unpack(path):
        if os.environ.get("CI"):
            pytest.fail(f"no {name}, and no Debian package of it")
        pytest.skip(f"no {name}, and no Debian package of it")
    return path


def _unpack(path: Path) -> bool:
    _CACHE.mkdir(parents=True, exist_ok=True)
    (_CACHE.parent / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=_CACHE) as name:
        try:
            subprocess.run(
                ["apt-get", "download", "prometheus"], cwd=name, check=True, capture_output=True
            )
            (package,) = Path(name).glob("*.deb")
            subprocess.run(["dpkg", "-x", package, f"{name}/out"], check=True, capture_output=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            Path(name, "out/usr/bin", path.name).rename(path)
        except (OSError, subprocess.CalledProcessError, ValueError):
            return False
    return True
