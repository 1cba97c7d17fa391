# SPDX-License-Identifier: Apache-2.0
"""Texts edited in an editor of the environment."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from nri_scope.debugger.message_edits import edit_text, editor_command
from nri_scope.errors import UsageError


def test_visual_precedes_editor() -> None:
    assert editor_command({"EDITOR": "vi", "VISUAL": "code --wait"}) == ["code", "--wait"]
    assert editor_command({"EDITOR": "vi"}) == ["vi"]
    assert editor_command({}) == []
    with pytest.raises(UsageError, match="close its quotes"):
        editor_command({"EDITOR": "vi '"})


async def test_the_saved_text_is_returned() -> None:
    former = signal.getsignal(signal.SIGINT)
    edited = await edit_text(["sed", "-i", "s/one/two/"], "a: one\n", "request")
    assert edited == "a: two\n"
    assert signal.getsignal(signal.SIGINT) is former


async def test_the_file_is_private(tmp_path: Path) -> None:
    script = f'stat -c %a "$(dirname "$1")" > {tmp_path}/mode; echo "$1" > {tmp_path}/path'
    await edit_text(["sh", "-c", script, "sh"], "secret", "request")
    assert (tmp_path / "mode").read_text() == "700\n"
    assert not Path((tmp_path / "path").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["false"], "false ended with exit status 1; nothing was sent"),
        (["/missing/editor"], "no such file or directory; set EDITOR to another one"),
        (["sh", "-c", 'rm "$1"', "sh"], "cannot be read"),
        (["sh", "-c", 'printf "\\377" > "$1"', "sh"], "it is not UTF-8"),
    ],
)
async def test_an_editor_that_fails_is_reported(command: list[str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        await edit_text(command, "text", "request")
    assert words in str(error.value)
