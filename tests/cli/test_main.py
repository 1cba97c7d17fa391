# SPDX-License-Identifier: Apache-2.0
"""Help of the whole command, and a check that several commands share."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from pathlib import Path

import click
import pytest

from nri_scope.cli.help_topics import TOPICS
from nri_scope.cli.kubectl.main import GROUPS as CLUSTER_GROUPS
from nri_scope.cli.kubectl.main import cli as cluster
from nri_scope.cli.main import COMMANDS, COMPARE, GROUPS, cli, run
from nri_scope.filter import FIELDS
from nri_scope.replay.faults import FORMS
from tests.cli.commands import ALL_COMMANDS
from tests.sample_names import CHECKOUT


@pytest.mark.parametrize(("group", "groups"), [(cli, GROUPS), (cluster, CLUSTER_GROUPS)])
def test_help_describes_every_command_in_a_whole_sentence_on_a_terminal(
    group: click.Group,
    groups: Mapping[str, Sequence[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"], group) == 0
    lines = capsys.readouterr().out.splitlines()
    # The prompt with the command is above the help, and another one below it.
    assert len(lines) + 2 <= 24 and max(map(len, lines)) <= 80
    listed: dict[str, list[str]] = {}
    for line in lines:
        if found := re.fullmatch(
            r"(?P<title>[A-Z][a-z ]+)? {2,}(?P<name>[a-z-]+) +(?P<words>[A-Z].*)", line
        ):
            title = found["title"] or [*listed][-1]
            listed.setdefault(title.strip(), []).append(found["name"])
            assert found["words"].endswith(".") and not found["words"].endswith("..")
    assert listed == {title: [*names] for title, names in groups.items()}


def test_there_are_few_commands_and_no_command_has_many_options() -> None:
    assert len(COMMANDS) <= 18
    for _, path, command in ALL_COMMANDS:
        options = [
            one for one in command.params if isinstance(one, click.Option) and not one.hidden
        ]
        assert len(options) <= 25, path


@pytest.mark.parametrize(("group", "title"), [(cli, "nri-scope"), (cluster, "kubectl nri-scope")])
def test_help_lists_topics_and_shows_those_and_commands(
    group: click.Group, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["help"], group) == 0
    text = capsys.readouterr().out
    assert f"`{title} help TOPIC`" in text
    assert re.findall(r"(?m)^  ([a-z]+) ", text) == [*TOPICS]
    assert run(["help", "filters"], group) == 0
    text = capsys.readouterr().out
    for words in ("Filters:", "Fields:", "Times:", *(field.name for field in FIELDS)):
        assert words in text
    assert run(["help", "faults"], group) == 0
    assert re.findall(r"(?m)^  ([a-z][^ ]+) ", capsys.readouterr().out) == [*FORMS.values()]
    for topic in "plugins", "log":
        assert run(["help", topic], group) == 0
    by_help = capsys.readouterr().out
    assert run(["log", "--help"], group) == 0
    assert by_help.endswith(capsys.readouterr().out)
    assert run(["help", "replay", "compare"], group) == (2 if group is cluster else 0)
    capsys.readouterr()
    assert run(["help", "nosuch"], group) == 2
    assert (
        "no topic or command 'nosuch'; topics are filters, what, plugins" in capsys.readouterr().err
    )


def test_options_that_another_help_describes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ["tui"], ["debug"], ["replay", "compare"]:
        assert run([*words, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        other, names = text.partition("Options that `nri-scope ")[2].split(" --help` describes: ")
        assert run([other, "--help"]) == 0
        described = set(re.findall(r"(?m)^  (?:-., )?(--?[a-z-]+)", capsys.readouterr().out))
        named = {name for name in names.rstrip(".").split(", ") if name.startswith("--")}
        assert named and named <= described


def test_every_module_with_a_command_is_listed() -> None:
    modules = {
        path.stem
        for path in (Path(__file__).parents[2] / "nri_scope" / "cli").glob("*.py")
        if "\ndef command(" in path.read_text(encoding="utf-8")
    }
    names = [*COMMANDS, COMPARE]
    assert modules == {re.sub("[- ]", "_", name) + "_" * iskeyword(name) for name in names}


@pytest.mark.parametrize(
    "command",
    [
        "record -o",
        "tap --listen plugins.sock -o",
        "replay recording.nriscope.db --listen nri.sock -o",
        "diff --live -o",
    ],
)
def test_an_output_named_like_a_bundle_is_rejected(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), "node.nriscope.zip"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a recording must not be named *.zip" in line and "name it node.nriscope.db" in line
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a recording under several names."""
    monkeypatch.chdir(tmp_path)
    source = Path(__file__).parents[2] / "recordings" / "containerd-1.7.nriscope.db"
    for name in ("x.nriscope.db", "log", "other"):
        shutil.copy(source, tmp_path / name)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", ["x.nriscope.db", "./log", "other"])
def test_a_file_is_opened_as_by_tui(
    folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--where", "event:RunPodSandbox"]) == 0
    by_name = capfd.readouterr()
    assert run(["tui", name, "--where", "event:RunPodSandbox"]) == 0
    assert by_name == capfd.readouterr()
    assert f"RunPodSandbox        {CHECKOUT}" in by_name.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["log"], "Missing argument 'FILE'; see `nri-scope log --help`; to open the file of this "
         "name, type `nri-scope ./log`"),
        (["lgo"], "no such command 'lgo'; did you mean log?; see `nri-scope --help`"),
        (["stats", "log"], "there is no command 'stats' any more; use `nri-scope report FILE`; see "
         "`nri-scope --help`"),
        (["nosuchcommand"], "no such command 'nosuchcommand'; see `nri-scope --help`"),
        (["./nosuch"], "no such file './nosuch'; see `nri-scope --help`"),
        (["nosuch.db"], "no such file 'nosuch.db'; see `nri-scope --help`"),
        (["./folder"], "'./folder' is a folder, not a recording; see `nri-scope --help`"),
        (["folder/"], "'folder/' is a folder, not a recording; see `nri-scope --help`"),
        (["log", ""], "Invalid value for 'FILE': the path is empty; see `nri-scope log --help`"),
        (["diff", "log", "a", "", "b"], "an argument is empty; see `nri-scope diff --help`"),
        (["diff", "", "b"], "an argument is empty; see `nri-scope diff --help`"),
        (["./" + "a" * 300], f"no such file './{'a' * 300}'; see `nri-scope --help`"),
        (["nosuch.nriscope.db"], "nosuch.nriscope.db: no such file; give a *.nriscope.db that "
         "`nri-scope record` wrote, or a *.nriscope.zip"),
        (["show"], "Missing argument 'FILE'; see `nri-scope show --help`"),
    ],
)  # fmt: skip
def test_other_names_are_commands_or_errors(
    folder: Path, arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capfd.readouterr().err.splitlines()[-1] == f"nri-scope: {words}"


@pytest.mark.parametrize("program", ["main", "cluster"])
def test_an_interrupted_import_ends_without_a_traceback(program: str) -> None:
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name.endswith(".main"):
            raise KeyboardInterrupt
from nri_scope.cli.start import {program}
sys.meta_path.insert(0, Interrupting())
{program}()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
