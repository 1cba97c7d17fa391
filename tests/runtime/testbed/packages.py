# SPDX-License-Identifier: Apache-2.0
"""Programs of the testbed: Debian packages, unpacked into a cache folder.

``runc`` and ``busybox-static`` must be installed on the machine. containerd with NRI is only in
newer Debian releases: its package is fetched from the machine's configured mirror (with another
suite name and separate apt state) and unpacked without installation. It requires glibc 2.34.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SUITES = {"1.7": "trixie", "2.1": "sid"}
"""containerd series → Debian suite. The version in sid changes: 2.1 is best effort."""

BEFORE_NRI = {"1.6": "bookworm"}
"""The same for a series with NRI 0.1 only."""

BEST_EFFORT = frozenset({"2.1"})

NEEDED = {
    # program → Debian package
    "runc": "runc",
    "busybox": "busybox-static",
    "apt-get": "apt",
    "dpkg": "dpkg",
    "umount": "mount",
}


class TestbedError(Exception):
    """The testbed cannot be set up, or an operation failed."""

    __test__ = False  # not a test class, whatever its name starts with


class SeriesUnavailable(TestbedError):
    """The configured mirror has no package of this containerd series."""


@dataclass(frozen=True)
class Binaries:
    """An unpacked containerd package: ``bin`` contains containerd, its shim and ctr."""

    series: str
    bin: Path


def check_machine() -> None:
    """Check the requirements for running real containers.

    :raises TestbedError: not Linux, not root, or packages missing.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise TestbedError("the runtime testbed starts real containers: it needs root on Linux")
    missing = sorted({package for tool, package in NEEDED.items() if not shutil.which(tool)})
    if missing:
        raise TestbedError(
            f"the runtime testbed needs {', '.join(missing)}; apt-get install {' '.join(missing)}"
        )


def containerd_binaries(series: str) -> Binaries:
    """Return the binaries of a containerd series, such as ``"1.7"``, from the cache or the mirror.

    :raises SeriesUnavailable: the mirror cannot be reached or has no such package.
    """
    folder = _cache_folder() / f"containerd-{series}"
    with locked("packages"):
        if not (folder / "usr/bin/containerd").exists():
            _fetch(series, folder)
    return Binaries(series, folder / "usr/bin")


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nri-scope-testbed"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock between all test processes."""
    folder = _cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _suite(series: str) -> str:
    return (SUITES | BEFORE_NRI)[series]


def _fetch(series: str, folder: Path) -> None:
    suite = _suite(series)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as name:
        work = Path(name)
        for part in ("lists/partial", "cache/archives/partial"):
            (work / part).mkdir(parents=True)
        (work / "sources.list").write_text(_source_line(suite) + "\n")
        options = _private_apt(work)
        _apt(["update", *options], work, series)
        _apt(["download", *options, f"containerd={series}.*"], work, series)
        (package,) = work.glob("containerd_*.deb")
        unpacked = work / "unpacked"
        subprocess.run(["dpkg", "-x", package, unpacked], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.rename(folder)


def _private_apt(work: Path) -> list[str]:
    settings = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",  # the folder is private, the _apt user cannot enter it
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        "Acquire::Retries": "2",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _apt(arguments: list[str], work: Path, series: str) -> None:
    # By default `apt-get update` exits with 0 even if every source failed.
    done = subprocess.run(
        ["apt-get", "-q", *arguments, "-o", "APT::Update::Error-Mode=any"],
        cwd=work,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
        reason = complaints[0] if complaints else f"exit status {done.returncode}"
        raise SeriesUnavailable(
            f"no containerd {series} from Debian {_suite(series)}: apt-get {arguments[0]}: {reason}"
        )


def _source_line(suite: str) -> str:
    """Return an apt source line for ``suite`` on this machine's configured Debian mirror."""
    done = subprocess.run(
        [
            *("apt-get", "indextargets", "--format", "$(REPO_URI)|$(CODENAME)|$(COMPONENT)"),
            *("Created-By: Packages",),
        ],
        capture_output=True,
        text=True,
    )
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    codename = release.get("VERSION_CODENAME", "").strip('"')
    for line in done.stdout.splitlines():
        uri, found, component = line.split("|")
        if found == codename and component == "main":
            return f"deb {_keyring_option()}{uri} {suite} main"
    raise SeriesUnavailable(
        f"no apt source for Debian {codename or '(unknown)'} main is configured on this machine,"
        " so there is no mirror to take containerd from"
    )


def _keyring_option() -> str:
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    return f"[signed-by={keyring}] " if keyring.exists() else ""
