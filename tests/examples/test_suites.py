# SPDX-License-Identifier: Apache-2.0
"""The plugins in ``examples/`` pass their own tests, copied to another place as a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import NRI_SCOPE
from tests.interop.toolchain import environment_for

EXAMPLES = Path(__file__).parents[2] / "examples"


def copied(name: str, folder: Path) -> Path:
    skipped = shutil.ignore_patterns("__pycache__", "target")
    return shutil.copytree(EXAMPLES / name, folder / name, ignore=skipped)


def run_pytest(folder: Path, **environment: str) -> None:
    without = ("asyncio", "hypothesispytest", "cacheprovider")
    options = ["-q", *(f"-pno:{name}" for name in without), "-W", "error"]
    run_tests([sys.executable, "-m", "pytest", *options], folder, **environment)


def run_tests(words: list[str], folder: Path, **environment: str) -> None:
    finished = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("python-*")))
def test_the_python_example_passes_its_tests(name: str, tmp_path: Path) -> None:
    run_pytest(copied(name, tmp_path))


@pytest.mark.interop
def test_the_go_example_passes_its_tests(tmp_path: Path) -> None:
    folder = copied("go-ulimit-adjuster", tmp_path)
    path = environment_for(folder)["PATH"]
    run_pytest(folder, PATH=path)
    run_tests(["go", "test", "-tags", "nri_no_wasm", "./..."], folder, PATH=path)


@pytest.mark.interop
def test_the_rust_example_passes_its_tests(tmp_path: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("the Rust example cannot be built: cargo is not installed")
    # rustup's cargo needs a toolchain in the user's home.
    asked = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(f"the Rust example cannot be built: {asked.stderr.strip().splitlines()[0]}")
    path = f"{Path(NRI_SCOPE).parent}:{os.environ['PATH']}"
    words = [cargo, "test", "--offline", "--locked"]
    run_tests(words, copied("rust-pod-info", tmp_path), PATH=path)
