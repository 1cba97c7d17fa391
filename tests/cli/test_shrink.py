# SPDX-License-Identifier: Apache-2.0
"""The ``shrink`` command with real plugins: recordings and test cases."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection, extract
from tests.cli.command import NRI_SCOPE

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recordings" / "containerd-2.1.nriscope.db"
ANNOTATED = ROOT / "examples" / "recordings" / "annotated.nriscope.db"
GO_PLUGIN = ROOT / "examples" / "go-ulimit-adjuster"

PLUGIN = """#!{python}
import os, signal
from nri_scope.plugin import Adjustment, run

class Plugin:
    def configure(self, config, runtime):
        self.config = config

    def create_container(self, pod, container):
        value = "wrong" if os.environ.get("WRONG") == container.name else "right"
        return Adjustment().add_env("IS", value)

    def stop_container(self, pod, container):
        if container.name == self.config.strip():
            raise ValueError("cannot stop " + container.name)
        if os.environ.get("DIES") == container.name:
            os.kill(os.getpid(), signal.SIGKILL)

run(Plugin(), name="plugin")
"""


CRASHES = """#!{python}
import os, signal, traceback
from nri_scope.plugin import run

def crash(what):
    def die():
        traceback.print_exc()
        os._exit(1)
    try:
        {{}}[1] if what == 1 else int("x")
    except Exception:
        die()

class Plugin:
    seen = False

    def create_container(self, pod, container):
        self.seen = self.seen or container.name == "sidecar"

    def stop_container(self, pod, container):
        if container.name == "app":
            {first} if self.seen else {then}

run(Plugin(), name="plugin")
"""


@pytest.fixture(scope="session")
def few_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording for a short search: two pods, three created containers, two of them stopped."""
    path = tmp_path_factory.mktemp("few") / "few.nriscope.db"
    with Recording.open(RECORDING) as recording:
        extract(recording, path, Selection(numbers=[3, 4, 5, 9, 15, 22, 24], bare=True))
    return path


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, few_events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a plugin and the configuration it fails with, and recordings: FILE and FEW."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FEW").symlink_to(few_events)
    program = tmp_path / "plugin"
    program.write_text(PLUGIN.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "conf").write_text("sidecar\n")
    (tmp_path / "FILE").symlink_to(RECORDING)


def shrink(line: str) -> int:
    """Run ``shrink`` with a line of arguments."""
    return run(["shrink", *shlex.split(line)])


def remaining_events(path: Path) -> list[str]:
    """Return the events of a recording after its Synchronize."""
    with Recording.open(path) as recording:
        return [
            f"{event.event} {event.container or event.pod}"
            for event in recording.events()
            if event.event not in ("Configure", "Synchronize")
        ]


def pytest_output(folder: Path) -> str:
    """Run the tests of a folder without other settings; return the output."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            # Saves a third of the start time.
            "-p",
            "no:hypothesispytest",
            "--rootdir",
            folder,
            folder,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.exhaustive
def test_the_result_is_a_recording_with_the_same_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shrink("FILE -o small.nriscope.db --config conf -- ./plugin") == 0
    captured = capsys.readouterr()
    failure = "StopContainer shop/web/sidecar: 10-plugin: error: rpc error: code 2: ValueError: "
    lines = captured.out.splitlines()
    assert lines[0] == f"{failure}cannot stop sidecar"
    assert lines[1].startswith("30 events → 3, of 1 pod and 1 container; ")
    assert lines[2:] == ["wrote small.nriscope.db"]
    progress = captured.err.splitlines()
    assert progress[0] == f"searching for the fewest events with: {failure}cannot stop sidecar"
    assert progress[-1].endswith(": 3 left")
    assert remaining_events(tmp_path / "small.nriscope.db") == [
        "RunPodSandbox web", "CreateContainer sidecar", "StopContainer sidecar",
    ]  # fmt: skip
    assert stat.S_IMODE((tmp_path / "small.nriscope.db").stat().st_mode) == 0o600
    assert run(shlex.split("replay small.nriscope.db --config conf -- ./plugin")) == 1
    assert "cannot stop sidecar" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_a_test_case_fails_until_the_plugin_is_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shrink("FEW --pytest cases --config conf -- ./plugin") == 0
    assert capsys.readouterr().out.endswith("wrote cases/test_stop_container_shop_web_sidecar.py\n")
    assert "1 failed" in pytest_output(tmp_path / "cases")
    (tmp_path / "plugin").write_text((tmp_path / "plugin").read_text().replace("raise", "0 and "))
    output = pytest_output(tmp_path / "cases")
    assert "1 passed" in output, output


@pytest.mark.exhaustive
def test_a_test_case_starts_an_external_plugin_as_shrink_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = "./plugin --once --index 42 --name own --socket {socket}"
    assert shrink(f"FEW --ideal --pytest cases --env DIES=sidecar -- {plugin}") == 0
    assert "42-own: crash" in capsys.readouterr().out
    (case,) = (tmp_path / "cases").glob("test_*.py")
    assert "        ideal=True,\n        external=True,\n" in case.read_text()
    assert "1 failed" in pytest_output(tmp_path / "cases")
    case.write_text(case.read_text().replace('"sidecar"', '"another"'))
    output = pytest_output(tmp_path / "cases")
    assert "1 passed" in output, output


@pytest.mark.exhaustive
def test_a_golden_is_shrunk_with_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split("replay FEW --golden g.yaml --update-golden -- ./plugin")) == 0
    assert shrink("FEW --golden g.yaml --pytest cases -o small.db -- ./plugin") == 2
    assert "no check fails: every reply matches the golden" in capsys.readouterr().err
    command = "FEW --golden g.yaml --pytest cases -o small.db --env WRONG=job -- ./plugin"
    assert shrink(command) == 0
    assert "7 events → 2, of 1 pod and 1 container" in capsys.readouterr().out
    assert remaining_events(tmp_path / "small.db") == ["RunPodSandbox batch", "CreateContainer job"]
    (golden,) = (tmp_path / "cases" / "goldens").rglob("*.yaml")
    assert "right" in golden.read_text()
    assert "wrong" not in golden.read_text()
    output = pytest_output(tmp_path / "cases")
    assert "1 failed" in output
    assert "jobs/batch/job" in output
    (test,) = (tmp_path / "cases").glob("test_*.py")
    test.write_text(test.read_text().replace('"WRONG": "job",', ""))
    assert "1 passed" in pytest_output(tmp_path / "cases")


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_a_failure_of_a_go_plugin_is_shrunk_to_one_creation(tmp_path: Path) -> None:
    program = tmp_path / "30-ulimit-adjuster"
    built = subprocess.run(
        ["go", "build", "-tags", "nri_no_wasm", "-o", str(program), "."],
        cwd=GO_PLUGIN, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert shrink(f"{ANNOTATED} -o small.nriscope.db -- ./30-ulimit-adjuster") == 0
    assert remaining_events(tmp_path / "small.nriscope.db") == [
        "RunPodSandbox greedy",
        "CreateContainer app",
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("os._exit(3)", "os._exit(4)"),
        ("os._exit(3)", "os.kill(os.getpid(), signal.SIGSEGV)"),
        ("crash(1)", "crash('1')"),
    ],
)
def test_a_different_crash_is_not_the_same_failure(tmp_path: Path, first: str, then: str) -> None:
    """The plugin crashes differently with and without the sidecar."""
    program = tmp_path / "plugin"
    program.write_text(CRASHES.format(python=sys.executable, first=first, then=then))
    assert shrink("FEW -o small -- ./plugin") == 0
    assert "CreateContainer sidecar" in remaining_events(tmp_path / "small")


@pytest.mark.exhaustive
def test_existing_files_are_replaced_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "FEW -o small --pytest cases --config conf -- ./plugin"
    (tmp_path / "small").write_text("something else")
    assert shrink(f"{command}") == 2
    assert shrink(f"--force {command}") == 0
    (test,) = (tmp_path / "cases").glob("test_*.py")
    written = test.read_text()
    test.write_text("something else")
    # From the shrunk recording, which takes less time.
    assert shrink(f"--force {command.replace('FEW -o small', 'small -o other')}") == 0
    assert test.read_text() == written
    assert remaining_events(tmp_path / "small") == remaining_events(tmp_path / "other")
    capsys.readouterr()
    assert shrink(f"{command.replace('small', 'third')}") == 2
    assert "file exists" in capsys.readouterr().err
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FILE -o small -- ./plugin", "FILE: no check fails: every reply is valid"),
        ("FILE -- ./plugin", "neither -o nor --pytest was given; name a recording with -o"),
        ("FILE -o small", "neither COMMAND nor --plugin was given"),
        ("FILE -o FILE -- ./plugin", "FILE and -o name the same file"),
        ("FILE -o conf -- ./plugin", "conf exists; name another file, or replace it with --force"),
        ("FILE -o small --golden none -- ./plugin", "golden none: no such file"),
        ("none -o small -- ./plugin", "none: no such file"),
        ("FILE -o small --check 9 --config conf -- ./plugin", "--check 9: only 1 fails"),
        ("FILE -o no/such/small --config conf -- ./plugin", "no/such/small: no such folder"),
        ("FILE -o small --session 9 -- ./plugin", "FILE: contains no session 9"),
        (
            "FILE -o s.zip --config conf -- ./plugin",
            "a recording must not be named *.zip; name it s.nriscope.db",
        ),
        ("FILE --pytest conf --config conf -- ./plugin", "conf: not a folder"),
    ],
)
def test_invalid_input_prints_one_line(
    line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(tmp_path.iterdir())
    assert shrink(line) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("nri-scope: ")
    assert words in last
    assert set(tmp_path.iterdir()) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_search_writes_the_best_result(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [NRI_SCOPE, "shrink", "FILE", "-o", "small", "--env", "DIES=app", "--", "./plugin"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        process_group=0,
    )
    assert process.stderr is not None
    for line in process.stderr:
        # Something has been left out, and more can be.
        if line.startswith("replay ") and ": 30 left" not in line:
            os.killpg(process.pid, number)
            break
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the search was interrupted: a smaller part may exist" in output
    assert 3 < len(remaining_events(tmp_path / "small")) < 30
    assert not list((tmp_path / "tmp").iterdir())
