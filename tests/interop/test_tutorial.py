# SPDX-License-Identifier: Apache-2.0
"""The plugin of docs/tutorial-go.md is built, replayed and tested as the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import NRI_SCOPE

ROOT = Path(__file__).parents[2]
_TEXT = (ROOT / "docs" / "tutorial-go.md").read_text(encoding="utf-8")


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)
    plugin, test = (text for language, text in blocks if language == "go")
    folder = tmp_path / "fuse-device"
    folder.mkdir()
    (folder / "main.go").write_text(plugin)
    (folder / "plugin_test.go").write_text(test)
    (tmp_path / "nri-scope").symlink_to(ROOT)
    # The same modules as an example's, so that no other ones are downloaded.
    example = ROOT / "examples" / "go-ulimit-adjuster"
    module = (example / "go.mod").read_text()
    (folder / "go.mod").write_text(re.sub(r"^module .*$", "module fuse-device", module, flags=re.M))
    shutil.copy(example / "go.sum", folder)

    path = f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"

    def output_of(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    commands = [
        command
        for language, text in blocks
        for command in text.splitlines()
        if not language and not command.startswith(("go mod", "go get", "sudo"))
    ]
    assert len(commands) == 7
    outputs = {command: output_of(command) for command in commands}
    (shown,) = (out for name, out in outputs.items() if "--format changes" in name)
    expected = re.search(r"^  \+ resources.*\n.*$", _TEXT, re.MULTILINE)
    assert expected is not None and expected[0] in shown

    (folder / "main.go").write_text(plugin.replace("Minor: 229", "Minor: 230"))
    done = subprocess.run(
        ["go", "test", "-count=1", "-tags", "nri_no_wasm", "."],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "differs in 1 place" in done.stdout and "got      230" in done.stdout
