# SPDX-License-Identifier: Apache-2.0
"""docs/diff.md matches the code: its commands run, and its options and evidence exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import cli
from nri_scope.differ.attribution.attributed_changes import Evidence
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT
from tests.replay.recordings import of_capture

TEXT = (ROOT / "docs" / "diff.md").read_text()
NAMES = {
    "payments-prod/ledger-db-0": "shop/web",
    "/postgres-exporter": "/sidecar",
    "/postgres": "/app",
}
"""Names on the page, and those of the captures."""
LIVE_COMMAND = "sudo nri-scope diff --live --probes 00,25,50,99 -o changes.nriscope.db"
"""Needs a runtime: the test checks only that its options exist."""


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the input files of the page's commands."""
    made = tmp_path_factory.mktemp("diff")
    of_capture("containerd-2.1.9", made / "one.nriscope.db")
    of_capture("containerd-1.7.24", made / "two.nriscope.db")
    for name, value in (("X", "1"), ("Y", "2")):
        spec = {"ociVersion": "1.2.0", "process": {"env": [f"FOO={value}"]}}
        (made / f"{name}.json").write_text(json.dumps(spec))
    return made


@pytest.mark.parametrize("line", [line for line in commands() if line != LIVE_COMMAND])
def test_a_command_of_the_page_runs_and_prints_output(line: str, folder: Path) -> None:
    text = re.sub(r"\bFILE\b", shlex.quote("one.nriscope.db"), line)
    text = re.sub(r"\bOTHER\b", shlex.quote("two.nriscope.db"), text)
    # The captures have other names.
    for name, captured in NAMES.items():
        text = text.replace(name, captured)
    done = subprocess.run(
        ["sh", "-ec", text],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = 0 if line.startswith("nri-scope blame") else 1
    assert (done.returncode, done.stderr) == (expected, ""), done.stdout
    assert done.stdout


def test_the_options_of_the_live_command_exist() -> None:
    assert LIVE_COMMAND in commands()
    command = cli.get_command(click.Context(cli), "diff")
    assert command is not None
    command.make_context("diff", shlex.split(LIVE_COMMAND)[3:])


def test_the_page_names_every_option_and_only_existing_ones() -> None:
    options = set()
    for name in ("diff", "blame"):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        options |= {
            opt for parameter in command.params for opt in parameter.opts if opt[:2] == "--"
        }
    assert set(re.findall(r"(--[a-z][a-z-]+)", TEXT)) <= options
    shared = {"--help", "--socket", "--name", "--wait", "--since", "--until", "--output"}
    assert not {option for option in options - shared if option not in TEXT}


def test_the_table_of_evidence_is_complete() -> None:
    table = TEXT.partition("## Evidence")[2].partition("##")[0]
    named = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {one.strip("`") for line in named for one in line.split(", ")} == set(Evidence)
