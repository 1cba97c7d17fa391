# SPDX-License-Identifier: Apache-2.0
"""Help of the whole command, and a check that several commands share."""

from __future__ import annotations

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
