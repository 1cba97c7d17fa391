# SPDX-License-Identifier: Apache-2.0
"""The image: what it is locked to, and what its Containerfile copies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from importlib.metadata import requires
from io import BytesIO
from pathlib import Path

import pytest

from scripts.make_image import (
    _UNUSED,
    _UNUSED_PACKAGES,
    ENVIRONMENT,
    USER,
    debian_packages,
    layer,
    licence_files,
    status,
)

ROOT = Path(__file__).parents[2]


def locked(name: str) -> dict[str, str]:
    """Return the entries of a lock file by package."""
    text = (ROOT / "requirements" / name).read_text()
    return {
        entry.partition("==")[0]: entry for entry in re.findall(r"(?m)^[a-z].*(?:\n +.*)+", text)
    }


def needed(name: str, seen: set[str]) -> Iterator[str]:
    """Yield the packages that an installed package needs, itself included."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return
    seen.add(name)
    yield name
    for requirement in requires(name) or ():
        if not re.search(r"extra ==|win32|Windows|python_version <", requirement):
            yield from needed(re.split(r"[^\w.-]", requirement)[0], seen)


def test_the_image_has_the_tested_versions_of_what_nri_scope_needs_and_no_more() -> None:
    runtime, dev = locked("runtime.txt"), locked("dev.txt")
    assert runtime.items() <= dev.items()
    # Only `sqlite-utils install` uses pip.
    assert set(needed("nri-scope", set())) - {"nri-scope", "pip"} <= set(runtime)
    assert not set(runtime) & {"pytest", "mypy", "ruff", "hypothesis", "pip", "hatchling", "uv"}


CONTAINERFILE = (ROOT / "Containerfile").read_text()


def test_what_the_containerfile_copies_exists() -> None:
    sources = [
        source
        for line in re.findall(r"(?m)^COPY (?!--from)(.*)$", CONTAINERFILE)
        for source in line.split()[:-1]
    ]
    assert len(sources) == 8
    assert [each for each in sources if not (ROOT / each).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    assert sorted(sources) == [each[1:] for each in ignored if each.startswith("!")]
    assert f"USER {USER}:{USER}" in CONTAINERFILE
    for name in ("LANG", "HOME", "PYTHONDONTWRITEBYTECODE"):
        assert f"{name}={ENVIRONMENT[name]}" in CONTAINERFILE


def test_what_builds_nri_scope_is_locked() -> None:
    build = locked("build.txt")
    assert build.items() <= locked("dev.txt").items()
    assert set(needed("hatchling", set())) <= set(build)
    assert all("--hash=sha256:" in entry for entry in build.values())


def test_all_files_of_a_layer_belong_to_root() -> None:
    with tarfile.open(fileobj=BytesIO(layer({"usr/bin/run": b"x"}, folders=True))) as tar:
        owners = {each.name: (each.uid, each.gid) for each in tar}
    assert {"tmp", "usr/bin", "usr/bin/run", "usr/local/bin/python3"} <= owners.keys()
    assert {*owners.values()} == {(0, 0)}


def test_layers_are_the_same_each_time_and_belong_to_no_user_of_the_machine(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x")
    first = layer({"etc/one": one, "usr/local/bin/run": b"y"}, folders=True)
    two.write_bytes(b"x")
    assert layer({"usr/local/bin/run": b"y", "etc/one": two}, folders=True) == first


def test_tests_and_unneeded_libraries_are_left_out() -> None:
    for name in ("test/test_os.py", "ensurepip/__init__.py", "lib-dynload/_testcapi.so"):
        assert _UNUSED.match(name) is not None
    for name in ("readline", "nis", "ossaudiodev", "_ctypes_test", "_crypt"):
        assert _UNUSED.match(f"lib-dynload/{name}.cpython-311-x86_64-linux-gnu.so") is not None
    for name in ("unittest/mock.py", "testing.py", "lib-dynload/_sqlite3.so"):
        assert _UNUSED.match(name) is None
    for name in ("multidict/_testcapi.so", "zstandard/_cffi.so"):
        assert _UNUSED_PACKAGES.match(name) is not None
    for name in ("multidict/_multidict.so", "zstandard/backend_c.so"):
        assert _UNUSED_PACKAGES.match(name) is None


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no packages of Debian")
def test_packages_of_libraries_are_described_with_licences() -> None:
    listed = subprocess.run(["ldd", shutil.which("sh") or ""], capture_output=True, text=True)
    found = re.search(r"/\S*libc\.so\S*", listed.stdout)
    assert found is not None
    packages = debian_packages([Path(os.path.realpath(found[0]))])
    assert packages == ["libc6"]
    names = dict(licence_files(packages)).keys()
    assert "usr/share/doc/libc6/copyright" in names
    assert "usr/share/common-licenses/LGPL-2.1" in names
    assert b"Package: libc6\n" in status("libc6")
