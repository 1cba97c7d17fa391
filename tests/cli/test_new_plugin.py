# SPDX-License-Identifier: Apache-2.0
"""`new-plugin` writes a working plugin in Python or Go, and overwrites nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.cli.new_plugin import TEMPLATE
from nri_scope.nri.events import EventKind, events_in
from tests.interop.toolchain import environment_for
from tests.plugin_builders import adjust
from tests.runtime_emulation.profiles import NEW
from tests.runtime_emulation.runtime import Runtime

ROOT = Path(__file__).parents[2]


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def tool(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a module of the environment in the folder of a plugin."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "pod-owner"
    assert run(["new-plugin", str(folder), "--index", "20"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"next: cd {folder} and follow README.md\n"
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    assert captured.out.splitlines() == files
    return folder


def test_the_whole_template_is_written_and_filled_in(written: Path) -> None:
    files = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "pod-owner.service",
        "pod_owner.py",
        "pyproject.toml",
        "tests/test_pod_owner.py",
        "tests/recordings/containerd-1.7.nriscope.db",
    }
    assert len(files) == 1 + sum(path.is_file() for path in (TEMPLATE / "python").rglob("*"))
    for name in files - {"tests/recordings/containerd-1.7.nriscope.db"}:
        assert "$" not in (written / name).read_text()
    project = tomllib.loads((written / "pyproject.toml").read_text())["project"]
    assert project["name"] == "pod-owner"
    assert project["scripts"] == {"pod-owner": "pod_owner:main"}
    assert 'index="20"' in (written / "pod_owner.py").read_text()
    ast.parse((written / "tests" / "test_pod_owner.py").read_text())


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, "nri-scope"),
        ({"url": "file:///src/nri-scope", "dir_info": {"editable": True}}, "file:///src/nri-scope"),
        (
            {"url": "https://example.com/nri_scope-0.1.0-py3-none-any.whl", "archive_info": {}},
            "https://example.com/nri_scope-0.1.0-py3-none-any.whl",
        ),
        (
            {
                "url": "https://example.com/nri-scope",
                "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": "0123abcd"},
            },
            "git+https://example.com/nri-scope@0123abcd",
        ),
    ],
)
def test_a_plugin_requires_nri_scope_from_where_it_was_installed(
    source: dict[str, object] | None,
    requirement: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installation = tmp_path / "site" / "nri_scope-0.1.0.dist-info"
    installation.mkdir(parents=True)
    (installation / "METADATA").write_text("Name: nri-scope\nVersion: 0.1.0\n")
    if source is not None:
        (installation / "direct_url.json").write_text(json.dumps(source))
        requirement = f"nri-scope @ {requirement}"
    monkeypatch.syspath_prepend(installation.parent)
    assert required(tmp_path / "pod-owner") == requirement


def test_a_plugin_requires_nri_scope_by_name_if_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT)])
    assert required(tmp_path / "pod-owner") == "nri-scope"


def required(folder: Path) -> str:
    """Write a plugin and return its only requirement."""
    assert run(["new-plugin", str(folder)]) == 0
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    (requirement,) = project["dependencies"]
    assert isinstance(requirement, str)
    return requirement


@pytest.mark.exhaustive
@pytest.mark.parametrize("by_name", [False, True], ids=["as written", "by name"])
def test_the_plugin_installs_without_an_index_of_nri_scope(by_name: bool, written: Path) -> None:
    project = written / "pyproject.toml"
    if by_name:
        text = re.sub(r"nri-scope @ [^\"]+", "nri-scope", project.read_text())
        project.write_text(text)
    # Dependencies of nri-scope, and pip and hatchling, are those of this environment.
    dependencies = written.parent / "dependencies"
    dependencies.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("nri_scope", "_nri_scope")):
            (dependencies / path.name).symlink_to(path)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": str(dependencies),
    }
    python = written / ".venv" / "bin" / "python"

    def run_there(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=written, env=environment, capture_output=True, text=True, check=False
        )

    done = run_there(sys.executable, "-m", "venv", "--without-pip", ".venv")
    assert done.returncode == 0, done.stderr
    assert "No module named 'nri_scope'" in run_there(str(python), "-c", "import nri_scope").stderr
    install = ["-m", "pip", "install", "--no-build-isolation", "--editable", "."]
    done = run_there(str(python), *install)
    if by_name:
        assert "No matching distribution found for nri-scope" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    done = run_there(str(python.parent / "pod-owner"), "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: pod-owner"), done.stderr


def test_the_whole_go_template_is_written_and_filled_in(tmp_path: Path) -> None:
    folder = tmp_path / "json"
    assert run(["new-plugin", str(folder), "--go", "--index", "20"]) == 0
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    recording = "testdata/containerd-1.7.nriscope.db"
    assert files == {
        ".github/workflows/test.yml",
        ".gitignore",
        "Makefile",
        "README.md",
        "go.mod",
        "go.sum",
        "main.go",
        "plugin_test.go",
        "testdata/replies.yaml",
        recording,
    }
    for name in files - {recording}:
        text = (folder / name).read_text()
        assert not re.search(r"\$(name|index|module|recording|\$)", text)
    assert "PROGRAM := bin/20-json\n" in (folder / "Makefile").read_text()
    # The same modules as the example's, so that no other ones are downloaded.
    example = ROOT / "examples" / "go-ulimit-adjuster"
    assert (folder / "go.sum").read_text() == (example / "go.sum").read_text()
    assert (folder / "go.mod").read_text().partition("\n")[2] == (
        (example / "go.mod").read_text().split("\n", 2)[2]
    )


@pytest.mark.interop
def test_the_go_plugin_is_built_and_tested(tmp_path: Path) -> None:
    folder = tmp_path / "pod-owner"
    assert run(["new-plugin", str(folder), "--go"]) == 0
    environment = environment_for(folder)

    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    built = make()
    assert built.returncode == 0, built.stderr
    tested = make("test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    golden = folder / "testdata" / "replies.yaml"
    before = golden.read_text()
    assert make("golden").returncode == 0
    assert golden.read_text() == before
    for command in ("gofmt -l .", "go vet -tags nri_no_wasm ."):
        checked = subprocess.run(
            command.split(), cwd=folder, env=environment, capture_output=True, check=True
        )
        assert checked.stdout == b""

    main = folder / "main.go"
    main.write_text(main.read_text().replace("POD_OWNER", "POD_TEAM"))
    failed = make("test").stdout
    subjects = re.findall(r"^    --- FAIL: TestReplies/CreateContainer_(\S+)", failed, re.MULTILINE)
    pod = "reporting/nightly-report-29934840-k6m4z"
    assert subjects == [f"{pod}/report", f"{pod}/upload"]
    assert "got      nothing" in failed

    folders = environment["PATH"].split(os.pathsep)
    environment["PATH"] = os.pathsep.join(
        entry for entry in folders if not Path(entry, "nri-scope").exists()
    )
    assert "nri-scope: not found" in make("test").stdout


@pytest.mark.exhaustive
def test_the_test_of_the_tutorial_is_that_of_the_template() -> None:
    page = (ROOT / "docs" / "tutorial-go.md").read_text()
    template = (TEMPLATE / "go" / "plugin_test.go.tmpl").read_text()
    functions = [
        re.findall(r"^func Test.*?^}$", text.replace("bin/", ""), re.MULTILINE | re.DOTALL)
        for text in (page, template)
    ]
    assert len(functions[0]) == 1 and functions[0] == functions[1]
    # As docs/ci.md says.
    assert functions[0][0].count("\n") + 1 == 19
    assert "19 lines" in (ROOT / "docs" / "ci.md").read_text()


def test_the_job_needs_a_package_of_nri_scope(tmp_path: Path) -> None:
    assert run(["new-plugin", str(tmp_path), "--go", "--name", "pod-owner"]) == 0
    workflow = yaml.safe_load((tmp_path / ".github" / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    (install,) = (step for step in steps if step.get("name") == "Install nri-scope")
    assert install["env"] == {"NRI_SCOPE_PACKAGE": "${{ vars.NRI_SCOPE_PACKAGE }}"}
    done = subprocess.run(
        ["bash", "-e", "-c", install["run"]],
        env={**os.environ, "NRI_SCOPE_PACKAGE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "NRI_SCOPE_PACKAGE: set this variable of the repository, see README.md" in done.stderr
    assert steps[-1] == {"run": "make test"}


@pytest.mark.skipif(not installed("ruff"), reason="ruff is not installed")
def test_written_code_is_clean(written: Path) -> None:
    for words in (("ruff", "check", "."), ("ruff", "format", "--check", ".")):
        checked = tool(*words, folder=written)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.exhaustive
@pytest.mark.skipif(not installed("mypy"), reason="mypy is not installed")
def test_written_types_are_right(written: Path) -> None:
    files = ["pod_owner.py"]
    if installed("nri_scope.pytest_plugin"):
        files.append("tests")
    checked = tool("mypy", "--cache-dir", str(ROOT / ".mypy_cache"), *files, folder=written)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not installed("nri_scope.pytest_plugin"), reason="there is no fixture to replay with"
)
def test_written_tests_pass(written: Path) -> None:
    checked = tool(
        *("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"), folder=written
    )
    assert checked.returncode == 0, checked.stdout


async def test_written_plugin_registers_and_adjusts(written: Path) -> None:
    program = [sys.executable, str(written / "pod_owner.py")]
    job = api.Container(id="c1", name="job")
    async with Runtime(NEW) as runtime:
        plugin = await runtime.launch_command(
            program, "20", "pod-owner", environment={"PYTHONPATH": str(ROOT)}
        )
        assert events_in(plugin.mask) == (EventKind.CreateContainer,)
        replies = []
        for annotations in ({"example.com/owner": "night shift"}, {}):
            pod = api.PodSandbox(id="p1", name="batch", annotations=annotations)
            request = api.CreateContainerRequest(pod=pod, container=job)
            (answer,) = await runtime.dispatch(EventKind.CreateContainer, request)
            replies.append(answer.reply)
    adjusted = adjust(env={"POD_OWNER": "night shift"})
    assert replies == [
        api.CreateContainerResponse(adjust=adjusted),
        api.CreateContainerResponse(adjust=api.ContainerAdjustment()),
    ]


def test_existing_empty_folder_is_accepted(tmp_path: Path) -> None:
    assert run(["new-plugin", str(tmp_path), "--name", "Fine-2.x"]) == 0
    assert (tmp_path / "fine_2_x.py").is_file()


def test_modules_in_the_current_directory_reserve_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "pod_owner").mkdir()
    (tmp_path / "pod_owner" / "__init__.py").touch()
    for entry in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    assert run(["new-plugin", "mine"]) == 0
    assert run(["new-plugin", "plugin", "--name", "pod-owner"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["full"], "full is not empty; choose a new folder"),
        (["file"], "file exists and is not a folder; choose a new folder"),
        (["dangling"], "dangling exists and is not a folder; choose a new folder"),
        (["file/below"], "file/below: not a directory"),
        (
            ["new", "--name", "a b"],
            "'a b' is not a valid plugin name; choose --name: a letter, then",
        ),
        (["new", "--name", ""], "'' is not a valid plugin name"),
        (["new", "--name", "x" * 51], "at most 50"),
        (["7-up"], "'7-up' is not a valid plugin name"),
        (["json"], "'json' is not a valid plugin name: json is a Python module or keyword"),
        (["nri-scope"], "nri_scope is a Python module or keyword; choose another with --name"),
        (["class"], "class is a Python module or keyword"),
        (["new", "--name", "zstandard"], "zstandard is a Python module or keyword; choose another"),
        (
            ["new", "--name", "Pluggy"],
            "'Pluggy' is not a valid plugin name: pluggy is a Python",
        ),
        (["new", "--index", "7"], "'7' is not a plugin index; write 07"),
        (["full", "--go"], "full is not empty; choose a new folder"),
        (["new", "--go", "--name", "a b"], "'a b' is not a valid plugin name"),
    ],
)
def test_invalid_input_prints_one_line_and_writes_nothing(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    assert run(["new-plugin", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err and captured.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
