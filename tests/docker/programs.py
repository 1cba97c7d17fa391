# SPDX-License-Identifier: Apache-2.0
"""Programs of a Docker Engine, in a cache folder outside the checkout.

dockerd is built from the Go module proxy, once: 6 minutes on two cores. Its containerd is that of
the runtime testbed; runc and busybox are the machine's. No client is needed: tests use the API.
``python -m tests.docker.programs`` builds and fetches what is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.programs import build_program, download_module, newest_containerd, run_command
from tests.runtime.testbed.packages import (
    SeriesUnavailable,
    TestbedError,
    check_machine,
    containerd_binaries,
    locked,
)

MODULE = "github.com/moby/moby/v2"
VERSION = "2.0.0-beta.24"
"""Version of the module; releases of Docker Engine are not versions of it."""
ENGINE = "29.2.0-beta24"
"""Version that the built dockerd reports."""
NRI = "0.12.3"
"""Version of NRI in the module's go.mod."""
_TAGS = "exclude_graphdriver_btrfs no_systemd netgo osusergo"


@dataclass(frozen=True)
class Programs:
    """Folders with the programs of an engine."""

    dockerd: Path
    containerd: Path

    @property
    def path(self) -> str:
        """Value of PATH for dockerd."""
        folders = (self.dockerd.parent, self.containerd)
        return os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])


def programs(*, build: bool = True) -> Programs:
    """Return the programs; build and fetch what is missing.

    :raises TestbedError: a build or a download failed; without ``build``, dockerd was not built.
    """
    check_machine()
    dockerd = _cache_folder() / "dockerd"
    with locked("docker"):
        if not dockerd.exists():
            if not build:
                raise TestbedError("dockerd is not built; run `make docker`")
            _build(dockerd)
    try:
        return Programs(dockerd, containerd_binaries("2.1").bin)
    except SeriesUnavailable:
        return Programs(dockerd, newest_containerd().bin)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "nri-scope" / "docker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _build(dockerd: Path) -> None:
    sys.stderr.write("building dockerd\n")
    flags = f"-s -w -X {MODULE}/dockerversion.Version={ENGINE}"
    with tempfile.TemporaryDirectory(prefix="build-", dir=dockerd.parent) as work:
        # The build completes go.sum, so it needs a writable copy.
        source = shutil.copytree(download_module(MODULE, VERSION), Path(work, "source"))
        run_command(work, "chmod", "-R", "u+w", str(source))
        build_program(source, "./cmd/dockerd", dockerd, "-tags", _TAGS, "-ldflags", flags)


if __name__ == "__main__":
    programs()
