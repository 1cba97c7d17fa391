# SPDX-License-Identifier: Apache-2.0
"""Help of the whole command, and a check that several commands share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from keyword import iskeyword
from pathlib import Path

import pytest

from nri_scope.cli.main import COMMANDS, run


def test_help_describes_every_command_in_a_whole_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    output = capsys.readouterr().out
    listed = [line.split(maxsplit=1) for line in output.partition("Commands:\n")[2].splitlines()]
    sentences = {words[0]: words[1] for words in listed if words and words[0] in COMMANDS}
    assert tuple(sentences) == COMMANDS
    for sentence in sentences.values():
        assert sentence.endswith(".") and not sentence.endswith("..")


def test_every_module_with_a_command_is_listed() -> None:
    modules = {
        path.stem
        for path in (Path(__file__).parents[2] / "nri_scope" / "cli").glob("*.py")
        if "\ndef command(" in path.read_text(encoding="utf-8")
    }
    assert modules == {name.replace("-", "_") + "_" * iskeyword(name) for name in COMMANDS}


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
    assert "RunPodSandbox        shop/web" in by_name.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["log"], "Missing argument 'FILE'; see `nri-scope log --help`; to open the file of this "
         "name, type `nri-scope ./log`"),
        (["lgo"], "no such command 'lgo'; did you mean log?; see `nri-scope --help`"),
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
