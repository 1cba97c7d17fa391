# SPDX-License-Identifier: Apache-2.0
"""Lookup of plugins' programs, and errors of their command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.runtime.command import command_of

from .scripts import executable


def test_program_is_looked_up_like_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    in_path = executable(folder / "tool", "#!/bin/sh\n")
    here = executable(tmp_path / "tool", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"/nowhere:{folder}")
    monkeypatch.chdir(tmp_path)
    for word, path in [
        ("tool", in_path),
        ("./tool", here),
        (str(here), here),
        ("bin/tool", in_path),
    ]:
        command = command_of([word, "-v"], "10", "name")
        assert (command.path, command.argv) == (str(path), (str(path), "-v"))
    monkeypatch.setenv("PATH", "bin")
    assert command_of(["tool"], "10", "name").path == str(in_path)


def test_relative_program_is_found_and_runs_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = executable(tmp_path / "tool", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    command = command_of(["./tool"], "10", "name")
    assert (command.path, command.cwd) == (str(here), str(tmp_path))


def test_environment_has_the_runtime_s_variables_and_added_ones() -> None:
    command = command_of(["true"], "10", "name", {"LOG": "debug", "EMPTY": ""})
    assert command.environment == {
        "NRI_PLUGIN_NAME": "name",
        "NRI_PLUGIN_IDX": "10",
        "NRI_PLUGIN_SOCKET": "3",
        "LOG": "debug",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "the command of the plugin is empty"),
        ([""], "the command of the plugin is empty"),
        (["folder"], "folder: cannot be launched: no such program in the folders of PATH"),
        (["plain"], "no such program in the folders of PATH; for a file here write ./plain"),
        (["./folder"], "./folder: cannot be launched: it is a folder"),
        (["./plain"], "./plain: cannot be launched: permission denied; make it executable"),
        (["./missing"], "./missing: cannot be launched: no such file or directory"),
        (["./plain/on"], "./plain/on: cannot be launched: not a directory"),
        (["./" + 300 * "x"], "cannot be launched: file name too long"),
        (["true", "a\0b"], r"'a\x00b' cannot be passed to a program"),
        (["true", "\ud800"], r"'\ud800' cannot be passed to a program"),
    ],
)
def test_command_without_a_program_is_a_usage_error(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        command_of(argv, "10", "name")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"NRI_PLUGIN_IDX": "20"}, "NRI_PLUGIN_IDX cannot be set for a launched plugin"),
        ({"": "x"}, "'' is not a valid name of an environment variable"),
        ({"A=B": "x"}, "'A=B' is not a valid name of an environment variable"),
        ({"A": "\0"}, r"'\x00' cannot be passed to a program"),
    ],
)
def test_invalid_environment_is_a_usage_error(environment: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        command_of(["true"], "10", "name", environment)
    assert words in str(caught.value)
