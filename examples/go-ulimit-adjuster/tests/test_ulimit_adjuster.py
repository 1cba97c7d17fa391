# SPDX-License-Identifier: Apache-2.0
"""Tests that replay a scenario to the launched plugin; need Go and `pip install nri-scope`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nri_scope.pytest_plugin import NriReplay

FOLDER = Path(__file__).parents[1]

pytestmark = pytest.mark.nri_recording("../testdata/pods.yaml")


@pytest.fixture(scope="session")
def adjuster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin's binary, built for these tests."""
    program = tmp_path_factory.mktemp("bin") / "30-ulimit-adjuster"
    command = ["go", "build", "-tags", "nri_no_wasm", "-o", str(program), "."]
    built = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return program


def test_a_container_gets_its_requested_limits(nri_replay: NriReplay, adjuster: Path) -> None:
    cache = nri_replay(adjuster).container("data/cache/cache")
    assert {change.path: change.after for change in cache.changes} == {
        "/process/rlimits/RLIMIT_NOFILE": {"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 65536},
        "/process/rlimits/RLIMIT_MEMLOCK": {
            "type": "RLIMIT_MEMLOCK",
            "soft": 64 << 20,
            "hard": 128 << 20,
        },
    }
    assert cache.owner("/process/rlimits/RLIMIT_NOFILE") == "30-ulimit-adjuster"


def test_an_invalid_limit_fails_the_container(nri_replay: NriReplay, adjuster: Path) -> None:
    result = nri_replay(adjuster)
    assert [
        container.name for container in result.containers.values() if not container.created
    ] == ["data/greedy/app"]
    (failed,) = [reply for reply in result.replies if reply.problem]
    assert 'nofile="lots" is neither' in failed.problem


def test_replies_are_those_of_the_golden(nri_replay: NriReplay, adjuster: Path) -> None:
    nri_replay(adjuster).assert_golden()
