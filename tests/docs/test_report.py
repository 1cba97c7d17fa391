# SPDX-License-Identifier: Apache-2.0
"""docs/report.md matches the code: its commands run, and its limits and findings exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nri_scope.report import limits
from nri_scope.report.finding import FindingKind, Level
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT
from tests.report import problem_recordings
from tests.sample_names import CHECKOUT

TEXT = (ROOT / "docs" / "report.md").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Pods and containers have the names used on the page.
    return problem_recordings.unified(tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_page_runs(line: str, recording: Path, tmp_path: Path) -> None:
    assert line.startswith("nri-scope report FILE")
    arguments = shlex.split(line.replace("FILE", shlex.quote(str(recording))))[1:]
    done = subprocess.run(
        [NRI_SCOPE, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    has_findings = "--diagnose" in line and CHECKOUT not in line
    assert done.returncode == int(has_findings), done.stderr
    if "json" in line:
        keys = re.findall(r"`([a-z_]+)`", TEXT.partition("## JSON")[2].partition("`findings`")[0])
        assert set(json.loads(done.stdout)) == {*keys, "findings"}


def test_every_kind_of_finding_is_described_with_its_levels() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([a-z, ]+) \|", TEXT, re.MULTILINE)
    assert [kind for kind, _ in rows] == [str(kind) for kind in FindingKind]
    levels = {level for _, column in rows for level in column.split(", ")}
    assert levels == {str(level) for level in Level}


@pytest.mark.parametrize(
    "number",
    [
        limits.MARKDOWN_MAX,
        limits.CONTAINERS_MAX,
        limits.STEPS_MAX,
        limits.LANES_MAX,
        limits.EVENTS_KEPT,
    ],
)
def test_the_page_states_a_limit_of_the_code(number: int) -> None:
    assert re.search(rf"(?<![0-9,]){number:,}(?![0-9,])", TEXT)
