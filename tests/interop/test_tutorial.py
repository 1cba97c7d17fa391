# SPDX-License-Identifier: Apache-2.0
"""The plugins of the tutorials in Go are built, replayed and tested as the pages say."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from tests.interop.toolchain import environment_for

ROOT = Path(__file__).parents[2]
TEST = "go test -count=1 -tags nri_no_wasm ."


def blocks(page: str) -> list[tuple[str, str]]:
    """Return each code block of a page in docs/, with its language."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@dataclass
class Reader:
    """Follows a page, in the folder of a plugin."""

    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environment = environment_for(self.folder)

    def run(self, command: str, status: int = 0) -> str:
        """Run a command in a shell and return what it prints to stdout."""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, (command, done.stdout, done.stderr)
        return done.stdout

    def check(self, shown: str, output: str) -> None:
        """Check that an output has the lines of a page, except for durations."""
        for line in filter(None, re.sub(r" \([\d.]+s\)", "", shown).splitlines()):
            assert line.strip() in re.sub(r" \([\d.]+s\)", "", output), output


@pytest.mark.interop
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    page = blocks("tutorial-go.md")
    plugin, test = (text for language, text in page if language == "go")
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

    reader = Reader(folder)
    commands = [
        command
        for language, text in page
        for command in text.splitlines()
        if not language and not command.startswith(("go mod", "go get", "sudo"))
    ]
    assert len(commands) == 7
    outputs = {command: reader.run(command) for command in commands}
    (printed,) = (out for name, out in outputs.items() if "--format changes" in name)
    changed, failed = (text for language, text in page if language == "text")
    expected = re.search(r"^  \+ resources.*\n.*$", changed, re.MULTILINE)
    assert expected is not None and expected[0] in printed

    (folder / "main.go").write_text(plugin.replace("Minor: 229", "Minor: 230"))
    assert "--- FAIL" in failed and "got      230" in failed
    reader.check(failed, reader.run(TEST, status=1))


@pytest.mark.interop
def test_a_lost_adjustment_is_found_as_on_the_page(tmp_path: Path) -> None:
    page = blocks("tutorial-lost-adjustment.md")
    handler, defaults, removal, test = (text for language, text in page if language == "go")
    folder = tmp_path / "gomaxprocs"
    assert page[0] == ("", f"nri-scope new-plugin {folder.name} --go\ncd {folder.name}\n")
    assert run(["new-plugin", str(folder), "--go"]) == 0

    template = (folder / "main.go").read_text()
    written = re.sub(r"^func \(plugin\).*?^}\n", lambda _: handler, template, flags=re.M | re.S)
    written = re.sub(r"^const annotation .*\n\n", "", written, flags=re.M)
    written = written.replace('\t"log"\n', '\t"log"\n\t"strconv"\n')
    added = re.search(r"^.*AddEnv.*$", written, re.MULTILINE)
    assert added is not None
    fixed = written.replace(added[0], removal + added[0])
    (folder / "main.go").write_text(written)
    (folder / "defaults").mkdir()
    (folder / "defaults" / "main.go").write_text(defaults)
    (pod,) = (text for language, text in page if language == "yaml")
    (folder / "testdata" / "checkout.yaml").write_text(pod)

    reader = Reader(folder)
    checked = 0
    printed = ""
    for language, text in page[1:]:
        if not language:
            printed = "".join(reader.run(command) for command in text.splitlines())
        elif language == "text":
            reader.check(text, printed)
            checked += 1
        elif text == removal:
            (folder / "main.go").write_text(fixed)
        elif text == test:
            (folder / "chain_test.go").write_text(test)
    assert checked == 6
    assert reader.run("gofmt -l .") == ""

    (folder / "main.go").write_text(written)
    failed = reader.run(f"{TEST} -run TestLimitsReachTheContainers", status=1)
    assert failed.count("    --- FAIL: TestLimitsReachTheContainers/") == 2
