# SPDX-License-Identifier: Apache-2.0
"""docs/scenarios.md matches the code: its commands run, its scenarios are valid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from nri_scope.cli.main import cli
from nri_scope.recording.reading.reader import Recording
from nri_scope.scenario.compile import compile_scenario
from nri_scope.scenario.document import KEYS, parse_scenario
from nri_scope.scenario.model import Verb
from tests.cli.command import NRI_SCOPE
from tests.docs.plugin_script import PLUGIN
from tests.docs.readme import ROOT
from tests.sample_names import CHECKOUT_API

TEXT = (ROOT / "docs" / "scenarios.md").read_text()
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
SCENARIOS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: app, image: x}]}
"""


@pytest.mark.exhaustive
def test_commands_run_in_order(tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path / "FILE")
    (tmp_path / "web.yaml").write_text(SCENARIOS[0])
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    program = tmp_path / "my-plugin"
    program.write_text(PLUGIN.format(python=Path(NRI_SCOPE).parent / "python", variable="MINE"))
    program.chmod(0o755)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for language, text in blocks if not language for line in text.splitlines()]
    assert len(lines) == 9
    for line in lines:
        if "-o web.yaml" in line:
            (tmp_path / "web.yaml").unlink()
        done = subprocess.run(
            ["sh", "-ec", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "replay" in line:
            assert (
                "MINE" in done.stdout
                and (CHECKOUT_API if "FILE" in line else "shop/web/app") in done.stdout
            )
    with Recording.open(tmp_path / "all.nriscope.db") as recording:
        assert len(list(recording.events())) == 32


@pytest.mark.parametrize("text", SCENARIOS, ids=["format", "steps"])
def test_the_scenarios_are_valid(text: str, tmp_path: Path) -> None:
    assert compile_scenario(parse_scenario(text), tmp_path / "x.nriscope.db") > 5


def test_every_key_and_step_is_described() -> None:
    rows = re.findall(r"^\| (.*?) \|", TEXT, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)[`:]", row)}
    assert named == KEYS.keys() | set(Verb)


def test_options_exist() -> None:
    options = set()
    group = cli.get_command(click.Context(cli), "scenario")
    assert isinstance(group, click.Group)
    for command in (*group.commands.values(), cli.get_command(click.Context(cli), "replay")):
        assert command is not None
        options |= {opt for parameter in command.params for opt in parameter.opts}
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", TEXT)) <= options
