# SPDX-License-Identifier: Apache-2.0
"""What somebody meets who types the command's name alone."""

from __future__ import annotations

import pytest

from nri_scope.cli.main import COMMANDS, run


def test_help_tells_of_every_command_in_a_whole_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    said = capsys.readouterr().out
    listed = [line.split(maxsplit=1) for line in said.partition("Commands:\n")[2].splitlines()]
    sentences = {words[0]: words[1] for words in listed if words and words[0] in COMMANDS}
    assert tuple(sentences) == COMMANDS
    for sentence in sentences.values():
        assert sentence.endswith(".") and not sentence.endswith("..")
