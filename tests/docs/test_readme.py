# SPDX-License-Identifier: Apache-2.0
"""README.md matches the code. Every command runs here, or is listed with the reason why not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import COMMANDS, cli
from nri_scope.logger.settings import Settings, parse_settings
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT, blocks, commands, prose, subcommand

RECORDING = ROOT / "recordings" / "containerd-1.7.nriscope.db"
"""Recording used as FILE."""
PLUGINS = "/opt/nri/plugins"

LINE = r"^ +\d+ \d\d:\d\d:\d\d\.\d{3} +[\d.]+[mµ]?s +[A-Z]\w+"
"""Pattern of an event printed by `log`."""

PRINTS = {
    "demo": r"Recorded in\n  .*/new\.nriscope\.db\n",
    "log": LINE,
    "show": r"^  name: app$",
    "sql": r"^CreateContainer +4$",
    "stats": r"^events    32 in ",
    "new-plugin": r"^my-plugin/my_plugin\.py$",
    "replay": r"^\d+ events, \d+ replies: \d+ ok in ",
}
"""Patterns of the output of nri-scope commands."""

NOT_RUN = {
    "make demo": "takes 12 s; `demo` runs below at a higher speed",
    "sudo .venv/bin/nri-scope record": "needs root and a runtime, and runs until Ctrl-C",
    "python3 -m venv .venv && .venv/bin/pip install .": "downloads all dependencies",
}
"""Commands that do not run here, with the reasons."""

LINES = commands()


def parse(line: str) -> None:
    """Raise if a line contains an unknown program, make target, command or option."""
    for part in line.split(" && "):
        program, *arguments = part.split()
        if program == "make":
            (target,) = arguments
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        elif found := subcommand(part):
            name, rest = found
            command = cli.get_command(click.Context(cli), name)
            assert command is not None, name
            command.make_context(name, rest)
        else:
            # Other programs: only their names are checked.
            assert program in ("python3", ".venv/bin/pip"), program


def test_the_page_has_commands_and_contains_the_excluded_ones() -> None:
    assert len(LINES) >= 10
    assert set(NOT_RUN) <= set(LINES)


@pytest.mark.parametrize("line", [line for line in LINES if line in NOT_RUN])
def test_an_excluded_command_is_valid(line: str) -> None:
    parse(line)


@pytest.mark.parametrize(
    "line",
    ["make dmeo", "nri-scope recrod", "nri-scope record --ounce", "nri-scope log", "pyhton3 -m x"],
)
def test_an_unknown_command_is_rejected(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        parse(line)


@pytest.mark.parametrize("line", [line for line in LINES if line not in NOT_RUN])
def test_a_command_runs(line: str, tmp_path: Path) -> None:
    file = tmp_path / "x.nriscope.db"
    shutil.copy(RECORDING, file)
    name = (subcommand(line) or ("",))[0]
    if name == "demo":
        # `demo` writes a new recording.
        file = tmp_path / "new.nriscope.db"
    (tmp_path / "plugins").mkdir()
    text = re.sub(r"\bFILE\b", str(file), line).replace(PLUGINS, str(tmp_path / "plugins"))
    environment = {
        **{key: value for key, value in os.environ.items() if key != "COLUMNS"},
        "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
    }
    if name == "replay":
        # The previous line of the page creates the plugin.
        subprocess.run([NRI_SCOPE, "new-plugin", "my-plugin"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["sh", "-ec", text],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if name:
        assert re.search(PRINTS[name], done.stdout, re.MULTILINE), done.stdout
    else:
        # The link that installs nri-scope as a launched plugin.
        (link,) = (tmp_path / "plugins").iterdir()
        version = subprocess.run([link, "--version"], capture_output=True, text=True, check=True)
        assert version.stdout.startswith("nri-scope ")


# -- text and tables ----------------------------------------------------------------------------


def test_the_table_has_every_command_with_its_arguments() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+(?: [^`]+)?)` \|", prose(), re.MULTILINE)
    # Vertical bars are escaped in table cells.
    rows = [row.replace("\\|", "|") for row in rows]
    root = click.Context(cli)
    expected: list[str] = []
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        expected.append(
            " ".join([name, *(one.metavar or str(one.name).upper() for one in arguments)])
        )
    assert rows == expected


def test_mentioned_options_exist() -> None:
    root = click.Context(cli)
    options: set[str] = set()
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        options.update(option for one in command.params for option in one.opts)
    mentioned = set(re.findall(r"`(--[a-z-]+)", prose()))
    assert mentioned and mentioned <= options


def test_the_configuration_of_a_launched_plugin_is_valid() -> None:
    (text,) = blocks("yaml")
    settings, problems = parse_settings(text)
    assert problems == ()
    assert settings != Settings()


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose())
    assert len(links) > 3
    for link in links:
        assert (ROOT / link).exists(), link
