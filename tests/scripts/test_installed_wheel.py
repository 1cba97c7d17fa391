# SPDX-License-Identifier: Apache-2.0
"""Tests of an installed wheel: command, manual pages and shell completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import COMMANDS, cli

ROOT = Path(__file__).parent.parent.parent


def run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which imports its dependencies from this one."""
    wheels = tmp_path_factory.mktemp("wheels")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", wheels)
    (wheel,) = wheels.glob("nri_scope-*.whl")
    prefix = tmp_path_factory.mktemp("installed")
    venv.create(prefix)
    python = prefix / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (packages,) = prefix.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return prefix


def completed(prefix: Path, line: str) -> list[str]:
    """Bash's completions at the end of the line."""
    script = prefix / "share" / "bash-completion" / "completions" / "nri-scope"
    text = f"""
        # The builtin fails outside of a completion by readline.
        compopt() {{ local IFS=" "; echo "compopt $*"; }}
        source {script}
        COMP_WORDS=({line})
        [[ "{line}" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _nri_scope_completion nri-scope
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", text],
        env={**os.environ, "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.exhaustive
def test_the_installed_command_imports_the_wheel(prefix: Path) -> None:
    code = "import nri_scope; print(nri_scope.__file__)"
    command = (prefix / "bin" / "python", "-P", "-c", code)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert Path(done.stdout).is_relative_to(prefix)
    assert (prefix / "bin" / "nri-scope").exists()


def test_doctor_names_the_installed_unit(prefix: Path) -> None:
    unit = prefix / "lib" / "systemd" / "system" / "nri-scope.service"
    assert unit.read_text() == (ROOT / "deploy" / "systemd" / unit.name).read_text()
    command = (prefix / "bin" / "nri-scope", "doctor", "--install", "--root", prefix)
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True)
    (way,) = (one for one in json.loads(done.stdout)["ways"] if one["name"] == "unit")
    assert way["commands"][:2] == [
        f"sudo ln -s {prefix}/bin/nri-scope /usr/local/bin/nri-scope",
        f"sudo install -m 0644 {unit} /etc/systemd/system/",
    ]


def test_bash_completes_commands(prefix: Path) -> None:
    assert completed(prefix, "nri-scope ") == list(COMMANDS)
    assert completed(prefix, "nri-scope rec") == ["record"]


def test_bash_completes_options_and_their_values(prefix: Path) -> None:
    assert completed(prefix, "nri-scope record --max") == [
        "--max-size",
        "--max-age",
        "--max-folder-size",
    ]
    assert completed(prefix, "nri-scope log --format j") == ["jsonl"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "line",
    [
        "log ",
        "diff ",
        "diff one.nriscope.db ",
        "record --output ",
        "record --socket ",
        "export one.nriscope.db --redact ",
        "replay one.nriscope.db -- ",
        "tap -- ",
    ],
)
def test_bash_completes_paths(prefix: Path, line: str) -> None:
    assert completed(prefix, f"nri-scope {line}")[0] == "compopt -o default"


def test_zsh_and_fish_find_their_scripts(prefix: Path) -> None:
    zsh = prefix / "share" / "zsh" / "site-functions" / "_nri-scope"
    assert zsh.read_text().startswith("#compdef nri-scope\n")
    fish = prefix / "share" / "fish" / "vendor_completions.d" / "nri-scope.fish"
    assert "complete --no-files --command nri-scope" in fish.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_manual_page_with_its_options(prefix: Path, name: str) -> None:
    page = (prefix / "share" / "man" / "man1" / f"nri-scope-{name}.1").read_text()
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    plain = page.replace("\\-", "-")
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert all(text in plain for each in options if not each.hidden for text in each.opts)
    assert f"nri-scope {name}" in plain
