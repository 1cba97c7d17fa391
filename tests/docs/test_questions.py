# SPDX-License-Identifier: Apache-2.0
"""Each command of docs/questions.md answers its question."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nri_scope.cli.main import run

ROOT = Path(__file__).parents[2]
_TEXT = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
_COMMANDS = re.findall(r"^nri-scope (.*)$", _TEXT, re.MULTILINE)
_FINDS = {"diff", "missing", "--diagnose"}
"""Commands that exit with 1 if they find something."""


def test_the_commands_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recordings").symlink_to(ROOT / "recordings")
    monkeypatch.chdir(tmp_path)
    assert len(_COMMANDS) > 12
    for command in _COMMANDS:
        words = shlex.split(command)
        status = run(words)
        printed = capfd.readouterr()
        assert status == (not _FINDS.isdisjoint(words)), (command, printed)
        assert words[0] == "export" or len(printed.out.splitlines()) > 1, (command, printed)


@pytest.mark.parametrize(
    "question",
    [
        "a device is missing",
        "my adjustment is lost",
        "which plugin is slow",
        "what did the upgrade",
    ],
)
def test_a_question_is_a_heading(question: str) -> None:
    headings = re.findall(r"^## (.*)$", _TEXT, re.MULTILINE)
    assert any(question in heading.lower() for heading in headings)
