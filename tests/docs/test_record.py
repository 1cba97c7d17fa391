# SPDX-License-Identifier: Apache-2.0
"""docs/record.md matches the code: its filters, options, link and configuration are valid."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import cli, run
from nri_scope.logger.launched import LoggerSettings, parse_settings
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT, blocks

TEXT = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
PLUGINS = "/opt/nri/plugins"
EVENT = re.compile(r"^ +\d+ \d\d:\d\d:\d\d\.\d{3} +[\d.]+[mµ]?s +[A-Z]\w+", re.MULTILINE)


def lines(program: str) -> list[str]:
    found = [line for block in blocks("sh", TEXT) for line in block.splitlines()]
    return [line for line in found if line.startswith(program)]


@pytest.mark.parametrize("line", lines("nri-scope log"))
def test_a_filter_selects_events(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word.replace("FILE", str(RECORDING)) for word in shlex.split(line)][1:]) == 0
    assert EVENT.search(capsys.readouterr().out)


@pytest.mark.parametrize("line", lines("sudo"))
def test_a_command_for_root_exists(line: str) -> None:
    (name,) = shlex.split(line, comments=True)[2:]
    assert cli.get_command(click.Context(cli), name) is not None


def test_mentioned_options_exist() -> None:
    command = cli.get_command(click.Context(cli), "record")
    assert command is not None
    options = {option for param in command.params for option in param.opts}
    mentioned = set(re.findall(r"`(?:record )?(--[a-z-]+)", TEXT)) - {"--where"}
    assert len(mentioned) >= 3 and mentioned <= options


def test_the_link_starts_nri_scope(tmp_path: Path) -> None:
    (line,) = blocks("", TEXT)
    path = f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", "-ec", line.replace(PLUGINS, str(tmp_path))],
        check=True,
        env={**os.environ, "PATH": path},
    )
    (link,) = tmp_path.iterdir()
    done = subprocess.run([link, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nri-scope ")


def test_the_configuration_of_a_launched_plugin_is_valid() -> None:
    (text,) = blocks("yaml", TEXT)
    settings, problems = parse_settings(text)
    assert problems == ()
    assert settings != LoggerSettings()
