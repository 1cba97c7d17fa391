# SPDX-License-Identifier: Apache-2.0
"""Versions of programs; a program that another user could have changed is not run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_scope.doctor import host as program_module
from nri_scope.doctor.host import ProgramVersion, program_version

from .machine import let_through

STRANGER = os.geteuid() + 1
"""A user that is neither root nor the user that runs the tests."""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: creates files and processes of other users"
)


class Process:
    """Files of process 7, whose program writes to ``trace`` when it is run."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.program = folder / "containerd"
        self.trace = folder / "trace"
        self.folder = self.proc / "7"
        self.folder.mkdir(parents=True)
        self.folder.joinpath("root").symlink_to("/")
        self.folder.joinpath("exe").symlink_to(self.program)
        self.set_output("2.1.4")
        self.set_uids(*[os.geteuid()] * 4)

    def set_output(self, text: str) -> None:
        script = f"#!/bin/sh\necho \"$@\" >>'{self.trace}'\necho '{text}'\n"
        self.program.write_text(script)
        self.program.chmod(0o755)

    def set_uids(self, *uids: int) -> None:
        line = "\t".join(map(str, uids))
        text = f"Name:\tcontainerd\nState:\tS (sleeping)\nUid:\t{line}\nGid:\t0\t0\t0\t0\n"
        self.folder.joinpath("status").write_text(text)

    def version(self) -> ProgramVersion:
        return program_version(7, self.proc)

    def is_not_run(self, reason: str) -> bool:
        """Check the reported reason, and return whether the program left no trace."""
        answer = self.version()
        assert answer == ProgramVersion("", f"{reason}, so it was not run")
        return not self.trace.exists()


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+b4", "1.7.24~ds1"),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7", "2.1.4"),
        ("crio version 1.34.0\nVersion: 1.34.0", "1.34.0"),
        ("Version 2.1.5, commit 3b3b3b", "2.1.5"),
    ],
)
def test_a_program_s_version_is_read(process: Process, output: str, version: str) -> None:
    process.set_output(output)
    assert process.version() == ProgramVersion(version)
    assert process.trace.read_text() == "--version\n"


def test_a_program_that_prints_no_version_is_reported(process: Process) -> None:
    process.set_output("no version at all")
    assert process.version() == ProgramVersion("", "--version printed no version")


def test_a_program_that_does_not_end_is_reported(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "VERSION_TIMEOUT", 0.05)
    process.program.write_text("#!/bin/sh\nexec sleep 60\n")
    assert process.version() == ProgramVersion("", "--version did not end within 0.05 s")


def test_an_ended_process_has_no_version(process: Process) -> None:
    process.folder.rename(process.proc / "8")
    assert process.version() == ProgramVersion("", "no such file or directory")


@pytest.mark.parametrize("position", range(4))
def test_every_user_id_of_the_process_is_checked(process: Process, position: int) -> None:
    # A program with the set-user-id bit has the user's real and root's effective id.
    uids = [0, 0, 0, 0]
    uids[position] = STRANGER
    process.set_uids(*uids)
    assert process.is_not_run(f"its process belongs to user {STRANGER}")


def test_the_program_of_a_process_with_unknown_user_is_not_run(process: Process) -> None:
    process.folder.joinpath("status").write_text("Name:\tUid:\\n0\n")
    assert process.is_not_run("its user is unknown")


def test_the_program_of_a_process_with_another_root_folder_is_not_run(process: Process) -> None:
    process.folder.joinpath("root").unlink()
    process.folder.joinpath("root").symlink_to(process.proc)
    assert process.is_not_run("its process has another root folder")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_program_that_others_can_write_is_not_run(process: Process, mode: int) -> None:
    process.program.chmod(mode)
    assert process.is_not_run(f"other users may write to its program (mode {mode:04o})")


def test_a_program_that_is_not_a_regular_file_is_not_run(process: Process) -> None:
    process.program.unlink()
    os.mkfifo(process.program, 0o755)
    assert process.is_not_run("its program is not a regular file")


@needs_root
def test_a_program_owned_by_another_user_is_not_run(process: Process) -> None:
    os.chown(process.program, STRANGER, STRANGER)
    assert process.is_not_run(f"its program belongs to user {STRANGER}")


# The following tests use the real /proc. The program must be a binary, as /proc/PID/exe of a
# script is its interpreter; bash --version prints three numbers like a runtime.


@contextmanager
def running(program: Path, user: int) -> Iterator[int]:
    """Start a waiting process of ``program``, and yield its id."""
    let_through(program)
    with subprocess.Popen(
        [program, "-c", "echo; read -r line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=user if user != os.geteuid() else None,
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started.pid
        started.communicate()


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "containerd"
    shutil.copyfile(bash, program)
    program.chmod(0o755)
    return program


def test_the_program_of_a_real_process_is_run_even_if_its_file_was_deleted(binary: Path) -> None:
    with running(binary, os.geteuid()) as pid:
        binary.unlink()
        version = program_version(pid)
    assert (version.text != "", version.why) == (True, "")


@needs_root
def test_the_program_of_a_real_process_of_another_user_is_not_run(binary: Path) -> None:
    with running(binary, STRANGER) as pid:
        version = program_version(pid)
    assert version == ProgramVersion(
        "", f"its process belongs to user {STRANGER}, so it was not run"
    )


@needs_root
def test_a_program_owned_by_another_user_is_not_run_even_if_root_runs_it(binary: Path) -> None:
    os.chown(binary, STRANGER, STRANGER)
    with running(binary, 0) as pid:
        version = program_version(pid)
    assert version == ProgramVersion(
        "", f"its program belongs to user {STRANGER}, so it was not run"
    )
