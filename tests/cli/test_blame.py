# SPDX-License-Identifier: Apache-2.0
"""``nri-scope blame``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from nri_scope.recording.reading.reader import Recording
from tests.cli.command import NRI_SCOPE, CommandResult
from tests.replay.recordings import BUNDLED, life, of_capture, recording, run_pod
from tests.replay.recordings import container as a_container
from tests.report.problem_recordings import SECRET, secret

CAPTURES = ("containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37")
WITH_OWNERS = CAPTURES[2:]
"""Captures whose runtimes reported owners to a validator."""
APP = "shop/web/app"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("blame")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in CAPTURES}


@pytest.fixture
def path(captures: dict[str, Path]) -> Path:
    return captures["containerd-2.4-beta"]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


class Result(CommandResult):
    command = "blame"


@pytest.mark.parametrize("name", CAPTURES)
def test_each_changed_line_names_its_plugin(
    captures: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, captures[name], APP)
    assert (result.status, result.err) == (0, "")
    # Padding depends on the longest owner.
    lines = [" ".join(line.split()) for line in result.lines]
    for line in (
        "30-env-injector T ~│ - FOO=overridden # was bar",
        "30-env-injector T +│ - INJECTED=yes",
        "30-env-injector T +│ - destination: /mnt/tmp",
        "30-env-injector T +│ example.com/injected-by: env-injector",
        "CRI request Q ~│ shares: 256 # was 2048 by 60-cpu-policy",
    ):
        assert line in lines
    # Before NRI 0.12, containerd's later events have no resource limits.
    is_shown = name in WITH_OWNERS
    limit = next(line for line in lines if "- type: RLIMIT_NOFILE" in line)
    assert limit.startswith(f"30-env-injector T {'+' if is_shown else '?'}│")
    # On CRI-O it came with a creation that failed, and a later event shows the value.
    cpus = next(line for line in lines if "cpus: '1'" in line)
    assert cpus.startswith("60-cpu-policy T")
    assert "~│ cpus: '1'" in cpus
    device = next(line for line in lines if "path: /dev/nri-null" in line)
    owner = "20-device-injector" if name in WITH_OWNERS else "one of 01–29"
    assert device.startswith(owner)
    assert all(len(line) <= 80 for line in result.lines)


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("what", [APP, "shop/web/sidecar", "jobs/batch/job"])
def test_every_line_of_the_spec_has_an_owner(
    captures: dict[str, Path], name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Result(capsys, captures[name], what, "--format", "json").json
    assert len(record["lines"]) > 50
    for line in record["lines"]:
        assert line["owner"] if line["changed"] else line["owner"] in ("Pod spec/CRI", "runtime")
        assert line["event"] or (not line["changed"] and line["owner"] != "runtime")


def test_the_full_view_is_the_spec_as_yaml(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(capsys, path, APP, "--full")
    spec = yaml.safe_load("\n".join(line.partition("│")[2] for line in result.lines))
    assert spec["linux"]["resources"]["pids"] == {"limit": 64}
    assert "DB_PASSWORD=hunter2" in spec["process"]["env"]
    assert {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 2048} in spec["process"]["rlimits"]


def test_changed_omits_the_runtimes_lines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gutters = [line for line in Result(capsys, path, APP, "--changed").lines if "│" in line]
    assert gutters and not any(line.startswith("runtime") for line in gutters)


def test_the_history_of_a_path_has_every_value(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, path, APP, "--history", "shares")
    assert result.status == 0
    values = [line.partition("│")[2] for line in result.lines if "│" in line]
    assert [value.partition("  # ")[0] for value in values] == ["512", "2048", "256"]
    assert all("# seen in event " in value for value in values[1:])
    record = Result(capsys, path, APP, "--history", "shares", "--format", "json").json
    assert record["path"] == "/linux/resources/cpu/shares"
    assert [one["value"] for one in record["began"]] == [512]
    assert [(one["after"], one["owner"]) for one in record["changes"]] == [
        (2048, "60-cpu-policy"),
        (256, "CRI request"),
    ]


@pytest.mark.parametrize(("part", "status"), [("/process/args", 0), ("shares", 1)])
def test_exit_code_reports_whether_a_plugin_changed_the_path(
    part: str, status: int, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, path, APP, "--history", part)
    assert result.status == 0
    assert ("no change seen" in result.out) == (status == 0)
    assert Result(capsys, path, APP, "--history", part, "--exit-code").status == status


def test_an_event_or_an_id_selects_its_container(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recording.open(path) as opened:
        event = next(
            event for event in opened.events() if event.container == "app" and event.pod == "web"
        )
    full_output = Result(capsys, path, APP).out
    assert Result(capsys, path, event.id).out == full_output
    assert Result(capsys, path, event.container_id[:12]).out == full_output


def test_a_pod_with_one_container_selects_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recording(tmp_path / "one.nriscope.db", [run_pod(), *life(a_container(args=["sh"]))])
    result = Result(capsys, file, "shop/web")
    assert result.status == 0
    assert result.lines[0].startswith(f"{APP} ")
    assert "no plugin was seen to change the only line" in result.out


def test_the_bundled_recordings_can_be_blamed(capsys: pytest.CaptureFixture[str]) -> None:
    for file in BUNDLED.values():
        with Recording.open(file) as opened:
            ids = [container.id for container in opened.containers()]
        assert ids
        for each in ids:
            assert Result(capsys, file, each).status == 0


# -- invalid input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("shop/web", "shop/web has 2 containers; name one: shop/web/app or shop/web/sidecar"),
        ("shop/web/ap", 'no event, pod or container "shop/web/ap" in {}; the nearest is {app}'),
        (
            "1",
            "event 1 (Configure) does not concern a container; name a container, or an event about "
            "one",
        ),
        ("99999", "event 99999 is not in {}; it has 1 to {last}"),
    ],
)
def test_an_invalid_container_gives_one_line_and_status_2(
    path: Path, what: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recording.open(path) as opened:
        last = max(event.id for event in opened.events())
    result = Result(capsys, path, what)
    assert (result.status, result.out) == (2, "")
    assert result.err == f"nri-scope: {words.format(path, app=APP, last=last)}\n"


def test_a_pod_without_containers_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recording(tmp_path / "none.nriscope.db", [run_pod()])
    result = Result(capsys, file, "shop/web")
    assert result.status == 2
    assert result.err == (
        f"nri-scope: {file} has no container of shop/web; `log` shows what it contains\n"
    )


def test_a_recording_without_the_spec_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As with iSulad, no event contains the container's spec.
    file = recording(tmp_path / "id.nriscope.db", life(a_container())[-2:])
    result = Result(capsys, file, APP)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"nri-scope: {file} does not contain the spec of {APP}; ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("options", [(), ("--full",), ("--history", "API_TOKEN")])
def test_redact_replaces_secrets(
    form: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = secret(tmp_path)
    arguments = (file, "shop/web/first", *options, "--format", form)
    assert SECRET in Result(capsys, *arguments).out
    result = Result(capsys, *arguments, "--redact")
    assert (result.status, SECRET in result.out) == (0, False)
    assert "API_TOKEN" in result.out and "redacted-" in result.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--full", "--changed"), "--full and --changed exclude each other; "),
        (("--history", "FOO", "--full"), "--full and --history exclude each other; "),
        (("--history", ""), f'{APP} never had a value at ""; '),
        (("--history", "FOOO"), f'{APP} never had a value at "FOOO"; the nearest is '),
        (("--history", "\x1b[2J"), f'{APP} never had a value at "\\x1b[2J"; '),
        (("--format", "html"), "Invalid value for '--format'"),
    ],
)
def test_bad_options_give_one_line(
    path: Path, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, path, APP, *options)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"nri-scope: {words}")
    assert result.err.count("\n") == 1


def test_a_closed_output_pipe_is_no_error(path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [NRI_SCOPE, "blame", str(path), APP, "--full"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
