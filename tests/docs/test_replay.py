# SPDX-License-Identifier: Apache-2.0
"""docs/replay.md matches the code: its commands run, and its tables and lists are complete."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import COMPARE, cli
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.faults import FORMS
from nri_scope.replay.replies import Verdict
from nri_scope.share.extract import Selection, extract
from tests.cli.command import NRI_SCOPE
from tests.docs.plugin_script import PLUGIN
from tests.docs.readme import ROOT
from tests.replay.recordings import as_tapped
from tests.sample_names import NIGHTLY

TEXT = (ROOT / "docs" / "replay.md").read_text()
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
WAITING_COMMANDS = ["nri-scope replay FILE --listen /tmp/nri.sock"]
"""Commands that wait for a plugin: the test checks only that the page has them."""


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.exhaustive
def test_commands_run_in_order(tmp_path: Path) -> None:
    for name, variable in (("my-plugin", "MINE"), ("a", "A"), ("b", "B")):
        file = tmp_path / name
        file.write_text(PLUGIN.format(python=Path(NRI_SCOPE).parent / "python", variable=variable))
        file.chmod(0o755)
    _tapped(tmp_path / "my-plugin", tmp_path / "node.nriscope.db")
    with Recording.open(RECORDING) as recording:
        extract(recording, tmp_path / "FILE", Selection(pod=NIGHTLY))
    ran = 0
    for line in commands():
        if line in WAITING_COMMANDS:
            continue
        done = subprocess.run(
            ["sh", "-ec", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # These report the difference between two chains, which another order does not make here.
        is_different = "--with 10=./a" in line or "--without" in line
        expected = 1 if is_different else 0
        assert done.returncode == expected, (line, done.stdout, done.stderr)
        assert " replies: " in done.stdout
        ran += 1
    assert ran >= 5


def _tapped(plugin: Path, path: Path) -> None:
    """Write a recording of a tap of this plugin."""
    replayed = path.with_name("replayed.nriscope.db")
    words = [NRI_SCOPE, "replay", str(RECORDING), "-o", str(replayed), "--", str(plugin)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    as_tapped(replayed, path)
    replayed.unlink()


def test_the_page_names_every_option_and_only_existing_ones() -> None:
    options = options_of("replay") | options_of(COMPARE)
    of_pytest = {"--nri-golden"}
    without_plugins = re.sub(r" -- .*", "", TEXT)
    assert set(re.findall(r"(--[a-z][a-z0-9-]+)", without_plugins)) - of_pytest <= options
    assert not {
        option
        for option in options - {"--help", "--output", "--name", "--index"}
        if option not in TEXT
    }


def options_of(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return {opt for parameter in command.params for opt in parameter.opts if opt[:2] == "--"}


@pytest.mark.parametrize("line", WAITING_COMMANDS)
def test_waiting_commands_are_on_the_page(line: str) -> None:
    assert line in commands()


def test_the_table_of_faults_is_complete() -> None:
    table = TEXT.partition("## Faults")[2].partition("## ")[0]
    assert re.findall(r"^\| `([a-z][^`]+)` \|", table, re.MULTILINE) == list(FORMS.values())


def test_the_list_of_verdicts_is_complete() -> None:
    verdicts = re.search(r"^Verdicts: (.*?)\. Exit", TEXT, re.MULTILINE | re.DOTALL)
    assert verdicts is not None
    assert set(re.findall(r"`([^`]+)`", verdicts[1])) == set(Verdict)
