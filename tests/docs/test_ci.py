# SPDX-License-Identifier: Apache-2.0
"""The action for GitHub and the template for GitLab: their steps run in shells, as documented."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.docs.readme import ROOT
from tests.sample_names import CHECKOUT

TEXT = (ROOT / "docs" / "ci.md").read_text()
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
TEMPLATE: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text())
JOB: dict[str, Any] = TEMPLATE[".nri-scope-replay"]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
PLUGIN = """#!{python}
import sys
from nri_scope.plugin import api, run

NAME = sys.argv.pop() if sys.argv[1:] else "ADDED"

class Plugin:
    def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key=NAME, value="1")])

run(Plugin(), name="plugin")
"""
INSTALLED = {**os.environ, "PATH": f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"}
"""Environment in which `nri-scope` and its python3 are found first."""
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_CONFIG_FILE": os.devnull,
    "PYTHONPATH": sysconfig.get_path("purelib"),
}
"""With these, pip builds the wheel with the packages of this environment."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plugin and a recording."""
    plugin = tmp_path / "my plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable))
    plugin.chmod(0o755)
    shutil.copy(RECORDING, tmp_path / "web.nriscope.db")
    return tmp_path


def bash(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    environment = {**INSTALLED, **variables}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def failures(path: Path) -> list[str | None]:
    root = ElementTree.parse(path).getroot()
    assert len(root.findall(".//testcase")) >= 3
    return [one.get("message") for one in root.findall(".//failure")]


# -- GitHub -----------------------------------------------------------------------------------


def step(name: str) -> dict[str, Any]:
    (found,) = [one for one in ACTION["runs"]["steps"] if one["name"] == name]
    assert isinstance(found, dict)
    return found


def replayed(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that replays, with the action's inputs."""
    values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    assert values.keys() == ACTION["inputs"].keys()

    def value(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: values[match[1]], text)

    variables = {name: value(text) for name, text in step("Replay")["env"].items()}
    return bash(step("Replay")["run"], folder, **variables)


@pytest.mark.exhaustive
def test_the_action_installs_the_command(tmp_path: Path) -> None:
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_PATH": str(tmp_path / "path"),
        **OFFLINE,
    }
    for _ in range(2):
        done = bash(step("Install nri-scope")["run"], tmp_path, **variables)
        assert done.returncode == 0, done.stderr
    added = (tmp_path / "path").read_text().split()[0]
    words = [f"{added}/nri-scope", "--version"]
    subprocess.run(words, env={**os.environ, **OFFLINE}, check=True, capture_output=True)


@pytest.mark.exhaustive
def test_the_action_compares_with_a_golden(folder: Path) -> None:
    inputs = {"recording": "web.nriscope.db", "plugin": "'./my plugin'", "golden": "replies.yaml"}
    done = replayed(folder, **inputs, options=f"--update-golden --only {CHECKOUT}")
    assert done.returncode == 0, done.stderr
    done = replayed(folder, **inputs, options=f"--only {CHECKOUT}")
    assert done.returncode == 0, done.stderr
    assert failures(folder / "nri-scope.xml") == []
    inputs["plugin"] += " 'OTHER NAME'"
    done = replayed(folder, **inputs, options=f"--only '{CHECKOUT}'", junit="other.xml")
    assert done.returncode == 1
    assert "OTHER NAME" in done.stdout
    assert len(failures(folder / "other.xml")) == 2


def test_the_action_replays_to_a_chain(folder: Path) -> None:
    plugins = "10='./my plugin'\n\n20='./my plugin' B\n"
    done = replayed(folder, recording="web.nriscope.db", plugins=plugins)
    assert done.returncode == 0, done.stderr
    assert '+ env B = "1"' in done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"plugin": "./none"}, "nri-scope: ./none: "),
        ({}, "neither COMMAND, --plugin nor --listen was given"),
        ({"plugin": "$(touch expanded) `touch expanded` *"}, "nri-scope: $(touch: "),
        ({"plugin": "'./my plugin'", "options": "--golden=x"}, "write it with --update-golden"),
        ({"plugin": "'./my plugin'", "options": "'open"}, "quote"),
    ],
)
def test_invalid_inputs_end_the_action_with_one_line(
    folder: Path, inputs: dict[str, str], words: str
) -> None:
    done = replayed(folder, recording="web.nriscope.db", **inputs)
    assert done.returncode not in (0, 1) or "quote" in words
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "expanded").exists()


def test_expressions_are_no_part_of_scripts() -> None:
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one.get("run", "")
        assert "run" not in one or one["shell"] == "bash"
    texts = str([{**one, "run": ""} for one in ACTION["runs"]["steps"]])
    assert set(re.findall(r"inputs\.([a-z-]+)", texts)) == set(ACTION["inputs"])


def test_all_inputs_are_documented() -> None:
    section = TEXT.partition("## GitHub")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(ACTION["inputs"])


# -- GitLab -----------------------------------------------------------------------------------


def job(folder: Path, shell: str, part: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a part of the job as GitLab's runner does, in one shell."""
    known = {name: value for name, value in JOB["variables"].items() if "$" not in value}
    assert variables.keys() <= known.keys()
    script = "set -e\n" + "\n".join(JOB[part])
    return subprocess.run(
        [shell, "-c", script],
        cwd=folder,
        env={**INSTALLED, **known, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("shell", sampled(["sh", "bash"]))
def test_the_template_compares_with_a_golden(folder: Path, shell: str) -> None:
    variables = {
        "NRI_SCOPE_RECORDING": "web.nriscope.db",
        "NRI_SCOPE_PLUGIN": "'./my plugin'",
        "NRI_SCOPE_GOLDEN": "replies.yaml",
    }
    done = job(folder, shell, "script", **variables, NRI_SCOPE_OPTIONS="--update-golden")
    assert done.returncode == 0, done.stderr
    done = job(folder, shell, "script", **variables)
    assert done.returncode == 0, done.stderr
    assert failures(folder / "nri-scope.xml") == []
    variables["NRI_SCOPE_PLUGIN"] += " OTHER"
    done = job(folder, shell, "script", **variables)
    assert done.returncode == 1
    assert len(failures(folder / "nri-scope.xml")) == 4


@pytest.mark.exhaustive
def test_the_template_replays_to_a_chain(folder: Path) -> None:
    options = "--plugin \"10='./my plugin'\" --plugin \"20='./my plugin' B\""
    done = job(
        folder, "sh", "script", NRI_SCOPE_RECORDING="web.nriscope.db", NRI_SCOPE_OPTIONS=options
    )
    assert done.returncode == 0, done.stderr
    assert '+ env B = "1"' in done.stdout


def test_the_template_needs_a_package(folder: Path) -> None:
    done = job(folder, "sh", "before_script")
    assert done.returncode == 1
    assert done.stderr == "set NRI_SCOPE_PACKAGE to what pip installs\n"


def test_all_variables_are_documented() -> None:
    section = TEXT.partition("## GitLab")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(NRI_SCOPE_[A-Z]+)` \|", section, re.MULTILINE)
    assert documented == [name for name in JOB["variables"] if name.startswith("NRI_SCOPE_")]
