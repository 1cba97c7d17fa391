# SPDX-License-Identifier: Apache-2.0
"""Real containerds read the configuration that doctor prints as intended."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from nri_scope.doctor.config_checks import Installation, check_installation
from nri_scope.doctor.containerd import NRI_PLUGIN, read_containerd
from nri_scope.doctor.host import Host
from tests.runtime.testbed.packages import Binaries

pytestmark = pytest.mark.runtime

OFF = f'[plugins."{NRI_PLUGIN}"]\n  disable = true\n  disable_connections = true\n'


@pytest.mark.parametrize("content", [None, "", OFF], ids=["no file", "no table", "a table"])
def test_containerd_reads_the_lines_as_enabling_nri(
    binaries: Binaries, tmp_path: Path, content: str | None
) -> None:
    major = int(binaries.series[0])
    file = tmp_path / "config.toml"
    if content is not None:
        file.write_text(f"version = {major + 1}\n{content}")
    for _ in range(2):
        config = read_containerd(Host(Path("/")), str(file), major)
        checks = check_installation(Installation(config, f"{binaries.series}.0", None))
        check = next((check for check in checks if check.config), None)
        if check is None:
            break
        header, _, line = check.config.rpartition("\n")
        if check.fix.startswith("set this in the table of "):
            key = line.partition("=")[0]
            kept = [one for one in file.read_text().splitlines() if not one.startswith(key)]
            kept.insert(kept.index(header) + 1, line)
            file.write_text("\n".join(kept))
        else:
            before = file.read_text() if file.exists() else ""
            file.write_text(f"{before}{check.config}\n")
    found = subprocess.run(
        [binaries.bin / "containerd", "--config", file, "config", "dump"],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    nri = tomllib.loads(found.stdout)["plugins"][NRI_PLUGIN]
    assert (nri["disable"], nri["disable_connections"]) == (False, False)
