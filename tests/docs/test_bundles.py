# SPDX-License-Identifier: Apache-2.0
"""docs/bundles.md matches the code: its commands run, and its options and limits exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import cli
from nri_scope.recording.bundle.manifest import MANIFEST, README, RECORDING
from nri_scope.recording.bundle.unpack import MAX_BUNDLE, MAX_RECORDING
from nri_scope.recording.bundle.zip_reader import MAX_ENTRIES, MAX_RATIO, RATIO_FROM
from nri_scope.share.bundle import MAX_BYTES
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT

TEXT = (ROOT / "docs" / "bundles.md").read_text()
PLUGIN = ROOT / "examples" / "python-device-injector" / "device_injector.py"


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.exhaustive
def test_the_commands_of_the_page_run_in_order(tmp_path: Path) -> None:
    shutil.copy(ROOT / "recordings" / "containerd-2.1.nriscope.db", tmp_path / "FILE")
    plugin = tmp_path / "plugin"
    plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PLUGIN}"\n')
    plugin.chmod(0o700)
    assert len(commands()) == 9
    for line in commands():
        done = subprocess.run(
            ["sh", "-ec", line],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}",
                "XDG_STATE_HOME": str(tmp_path / "state"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "clean.nriscope.db").exists()


def test_the_page_names_every_option_and_only_existing_ones() -> None:
    command = cli.get_command(click.Context(cli), "export")
    assert command is not None
    options = {opt for parameter in command.params for opt in parameter.opts if opt[:2] == "--"}
    assert set(re.findall(r"(--[a-z][a-z-]+)", TEXT)) <= options
    shared = {"--help", "--output", "--force"}
    assert not {option for option in options - shared if option not in TEXT}


def test_names_and_limits_match_the_code() -> None:
    assert all(f"`{name}`" in TEXT for name in (MANIFEST, README, RECORDING))
    assert f"more than {MAX_BYTES // 1_000_000} MB" in TEXT
    assert f"bundles over {MAX_BUNDLE >> 30} GiB" in TEXT
    assert f"recordings over {MAX_RECORDING + 1 >> 30} GiB" in TEXT
    assert f"files over {RATIO_FROM >> 20} MiB" in TEXT
    assert f"more than {MAX_RATIO} times" in TEXT
    assert f"more than {MAX_ENTRIES} files" in TEXT
