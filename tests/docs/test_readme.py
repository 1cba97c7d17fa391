# SPDX-License-Identifier: Apache-2.0
"""README.md matches the code. Its commands run in one shell, except for those listed here."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import COMMANDS, cli
from scripts.readme_page import SHOWN
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT, TEXT, commands, prose, subcommand
from tests.sample_names import CHECKOUT_API

STATUS = {"report": 1, "diff": 1}
"""Exit statuses of commands that find something."""

PRINTS = {
    "blame": r"^30-env-injector +T ~│ +- FOO=overridden  # was bar$",
    "report": r"^problem  40-image-check",
    "replay": r"^\d+ events, \d+ replies: \d+ ok in ",
    "demo": r"The recording is\n  .*/demo\.nriscope\.db\n",
    "recordings/demo.nriscope.db": rf"^ +20 .* CreateContainer +{CHECKOUT_API}",
    "diff": r"30-env-injector|40-image-check",
    "log": rf"^ +\d+ .* StartContainer +{CHECKOUT_API}",
    "export": r"",
}
"""Patterns of the output of nri-scope commands."""

INSTALL = "python3 -m venv .venv && .venv/bin/pip install . && . .venv/bin/activate"
NOT_RUN = {
    INSTALL: "downloads all dependencies; the environment of the tests is used instead",
    "sudo .venv/bin/nri-scope doctor": "needs root and a runtime",
    "sudo .venv/bin/nri-scope record": "needs root and a runtime, and runs until Ctrl-C",
}
"""Commands that do not run here, with the reasons."""

LINES = commands()
RUN = [line for line in LINES if line not in NOT_RUN]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Exit status and output of each command, typed into one shell in a clone, in order."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("recordings", "examples"):
        (clone / name).symlink_to(ROOT / name)
    # As after activating the environment.
    script = [f"PATH={Path(NRI_SCOPE).parent}:$PATH"]
    for number, line in enumerate(RUN):
        script += [f"echo @{number}", line, "echo @$?"]
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)],
        cwd=clone,
        env={
            **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
            "TMPDIR": str(clone),
            "LC_ALL": "C.UTF-8",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    printed = re.findall(r"^@(\d+)\n(.*?)^@(\d+)$", done.stdout, re.MULTILINE | re.DOTALL)
    assert len(printed) == len(RUN), done.stderr
    assert (clone / "checkout.nriscope.zip").exists()
    return {RUN[int(number)]: (int(status), output) for number, output, status in printed}


@pytest.mark.exhaustive
@pytest.mark.parametrize("line", RUN)
def test_a_command_runs(line: str, session: dict[str, tuple[int, str]]) -> None:
    status, output = session[line]
    name, _ = subcommand(line) or ("", [])
    assert status == STATUS.get(name, 0), output
    assert re.search(PRINTS[name], output, re.MULTILINE), output


def test_the_shown_output_is_what_the_commands_print(
    session: dict[str, tuple[int, str]],
) -> None:
    shown = re.findall(r"^```\n(.*)\n```\n\n```text\n((?:(?!```).*\n)*)```", TEXT, re.MULTILINE)
    assert len(shown) == len(SHOWN) == 3
    for command, output in shown:
        lines = iter(session[command][1].splitlines())
        assert len(output.splitlines()) == 2
        assert all(line in lines for line in output.splitlines()), (command, output)


def test_the_picture_and_the_first_command_agree(session: dict[str, tuple[int, str]]) -> None:
    (picture,) = re.findall(r"img alt=\".*: (FOO=.*)\" src", TEXT)
    content, _, owner = picture.partition("  ← ")
    assert re.search(rf"^{owner} .*- {content}$", session[RUN[0]][1], re.MULTILINE)


def test_the_page_has_commands_and_contains_the_excluded_ones() -> None:
    assert len(RUN) >= 8
    assert set(NOT_RUN) <= set(LINES)
    # nri-scope is on the PATH from the first command on.
    assert LINES[0] == INSTALL


@pytest.mark.parametrize("line", [line for line in LINES if line in NOT_RUN and line != INSTALL])
def test_an_excluded_command_exists(line: str) -> None:
    name, rest = subcommand(line) or ("", [])
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, rest)


def test_mentioned_commands_and_options_exist() -> None:
    root = click.Context(cli)
    options: set[str] = set()
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        options.update(option for param in command.params for option in param.opts)
    mentioned = set(re.findall(r"--[a-z][a-z-]*", prose()))
    assert mentioned and mentioned <= options
    named = set(re.findall(r"`([a-z0-9-]+) (?:FILE|DIR|--)", prose()))
    assert {"diff", "report", "log", "export"} <= named <= set(COMMANDS)


def test_mentioned_make_targets_exist() -> None:
    targets = re.findall(r"`make ([a-z-]+)`", prose())
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose())
    assert len(links) > 3
    for link in links:
        assert (ROOT / link).exists(), link
