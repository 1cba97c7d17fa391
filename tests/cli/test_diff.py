# SPDX-License-Identifier: Apache-2.0
"""``nri-scope diff`` of recordings and specs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope._gen.cri.runtime.v1 import ContainerStatusRequest
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query.lookup import container_name
from nri_scope.recording.reading.reader import Recording
from tests.cli.command import NRI_SCOPE, CommandResult
from tests.recording.recordings import a_start
from tests.replay.recordings import (
    BUNDLED,
    POD,
    START_NS,
    life,
    of_capture,
    recording,
    run_pod,
    write_session,
)
from tests.replay.recordings import container as a_container
from tests.report.problem_recordings import SECRET, secret

CAPTURES = ("containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("diff")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in CAPTURES}


@pytest.fixture
def path(captures: dict[str, Path]) -> Path:
    return captures["containerd-2.4-beta"]


class Result(CommandResult):
    command = "diff"


def unwrapped(result: Result) -> str:
    """Return the output with line breaks replaced by spaces."""
    return " ".join(result.out.split())


@pytest.mark.parametrize("name", CAPTURES)
def test_changes_of_each_capture_have_owners(
    captures: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, captures[name], "shop/web/app")
    assert (result.status, result.err) == (1, "")
    change = '  ~ env FOO  "bar" → "overridden"  by 30-env-injector (tap), seen in event '
    assert [line for line in result.lines if line.startswith(change)]
    device = next(line for line in result.lines if "devices[/dev/nri-null]" in line)
    assert "by 20-device-injector (" in device or "by one of 01–29 (probes)" in device


def test_side_effects_are_listed_under_their_event(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, path, "shop/web/app")
    at = result.lines.index("  on another container, shop/web/app:")
    change = '    ~ cpu.cpus  "0" → "1"  by 60-cpu-policy (tap), seen in event '
    assert result.lines[at + 1].startswith(change)
    head = next(line for line in reversed(result.lines[:at]) if line[:6].strip().isdigit())
    assert head.endswith("CreateContainer  shop/web/sidecar")
    # Other changes of that event are omitted.
    assert not [line for line in result.lines if "side" in line and "FOO" in line]


def test_changes_of_one_container_equal_those_in_the_full_diff(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = Result(capsys, path, "--format", "json").json["changes"]
    with Recording.open(path) as opened:
        containers = opened.containers()
    compared = 0
    for container in containers:
        own = [one for one in everything if one["container_id"] == container.id]
        if own:
            result = Result(capsys, path, container.id, "--format", "json")
            changes = result.json["changes"]
            assert [change for change in changes if change["container_id"] == container.id] == own
            assert {change["container"] for change in own} == {container_name(container)}
            compared += 1
    assert compared


def test_an_event_is_shown_with_its_whole_round(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = [Result(capsys, path, number, "--format", "json").json for number in (17, 19)]
    assert every[0] == every[1]
    assert [event["event"] for event in every[0]["events"]] == ["CreateContainer"]
    assert every[0]["events"][0]["chain"][1] == "20-device-injector"


def test_json_is_one_object_with_the_documented_keys(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = Result(capsys, path, "--format", "json").json
    assert list(document) == [
        "schema_version",
        "changes",
        "requests",
        "events",
        "left_out",
        "coverage",
    ]
    for change in document["changes"] + document["requests"]:
        assert {*change} >= {
            *("path", "op", "before", "after", "owner", "index", "evidence", "event", "at"),
            *("container", "outcome", "disputed"),
        }
        outcome = ["kind", "reason", "evidence", "event", "at", "actual"]
        assert list(change["outcome"]) == outcome
    assert {change["op"] for change in document["changes"]} >= {"add", "replace"}


def test_removed_containers_keep_their_names(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = Result(capsys, path, "--format", "json", "--all").json["events"]
    removed = [event["container"] for event in events if event["event"] == "RemoveContainer"]
    assert "shop/web/app" in removed


def test_status_is_0_without_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recording(tmp_path / "calm.nriscope.db", [run_pod(), *life(a_container())])
    result = Result(capsys, file, "--all")
    assert result.status == 0
    assert result.lines[-1] == "no change seen in 8 operations"
    quiet = Result(capsys, file)
    assert quiet.status == 0
    assert "StartContainer" in result.out
    assert "StartContainer" not in quiet.out
    left_out = "8 without a change left out (--all shows them)"
    assert quiet.lines[-1] == f"no change seen in 8 operations; {left_out}"
    documents = [Result(capsys, file, "--format", "json", *more).json for more in ((), ("--all",))]
    assert [(len(one["events"]), one["left_out"]) for one in documents] == [(0, 8), (8, 0)]
    assert Result(capsys, file, "--format", "json").json["changes"] == []


def test_filters_limit_the_output_but_not_the_known_state(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, path, "--where", "event:StopContainer")
    assert result.status == 1
    assert "CreateContainer" not in result.out
    # The previous value comes from an event that the filter excludes.
    assert '"1" → "0-1"' in result.out


@pytest.mark.parametrize(
    "options",
    [["--where", "pod:other"], ["--since", "2100-01-01"], ["shop/web", "--until", "2000-01-01"]],
)
@pytest.mark.parametrize("output_format", ["text", "json"])
def test_one_line_says_that_the_filter_excludes_all_events(
    path: Path, capsys: pytest.CaptureFixture[str], options: list[str], output_format: str
) -> None:
    result = Result(capsys, path, *options, "--format", output_format)
    words = "no event in which plugins can make changes matches; the recording has events from "
    assert result.err.count("\n") == 1 and words in result.err
    assert result.status == 0 and "no event" not in result.out


@pytest.mark.parametrize("lost", [False, True])
def test_an_event_possibly_lost_in_a_gap_is_no_failure(
    tmp_path: Path, lost: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gap.nriscope.db"
    recorder = Recorder.open(file)
    create = api.CreateContainerRequest(pod=POD, container=a_container(args=["sh"]))
    write_session(recorder, [run_pod()], plugin="50-silent")
    other = api.RunPodSandboxRequest(pod=api.PodSandbox(id="other", name="other"))
    events = [("CreateContainer", create), ("RunPodSandbox", other)]
    write_session(recorder, events, plugin="00-probe")
    if lost:
        recorder.note_gap(None, START_NS, START_NS + 10**10, "overflow", 1)
    recorder.close()
    text = unwrapped(Result(capsys, file))
    assert ("FAILED" in text, "gaps: 1" in text) == (not lost, lost)


def test_the_limits_of_a_single_connection_are_stated(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = Result(capsys, BUNDLED["containerd-2.1"])
    at = next(at for at, line in enumerate(alone.lines) if "only one connection" in line)
    # A blank line separates the head from the events.
    assert [line[:2] for line in alone.lines[at + 1 : at + 3]] == ["", "──"]
    assert "only one connection" not in unwrapped(Result(capsys, path))


def test_since_and_until_select_events(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Result(capsys, path, "--until", "2100-01-01").status == 1
    wrong = Result(capsys, path, "--since", "2100-01-01", "--until", "2000-01-01")
    assert wrong.status == 2


@pytest.mark.parametrize("name", BUNDLED)
def test_one_passive_connection_shows_cri_requests(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(capsys, BUNDLED[name])
    assert result.status == 1
    assert "  + cpu.shares  512  by a CRI request (request), seen in event 14" in result.lines


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("subject", [(), ("shop/web/first",), ("3",)])
def test_redact_replaces_secrets(
    form: str, subject: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = secret(tmp_path)
    file = file.rename(tmp_path / f"of-{SECRET}.nriscope.db")
    assert SECRET in Result(capsys, file, *subject, "--format", form).out
    result = Result(capsys, file, *subject, "--format", form, "--redact")
    assert result.status == 1
    assert SECRET not in result.out
    assert "API_TOKEN" in result.out and "redacted-" in result.out


def test_filters_and_names_match_the_original_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[switches]\nnamespaces = true\npods = true\n")
    file = secret(tmp_path)
    result = Result(capsys, file, "shop/web", "--where", "ns:shop", "--redact", rules)
    assert result.status == 1
    assert "shop" not in result.out and "web" not in result.out


def test_two_recordings_have_the_same_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(name: str, value: str) -> Path:
        one = a_container()
        one.env.append(f"DB_PASSWORD={value}")
        # Only the other recording identifies this as a secret.
        one.args.append("hunter2-of-other")
        return recording(tmp_path / name, life(one))

    file, same, other = (
        write(f"{number}.nriscope.db", value)
        for number, value in enumerate(("hunter2-hunter2", "hunter2-hunter2", "hunter2-of-other"))
    )
    assert Result(capsys, file, same, "--redact").status == 0
    result = Result(capsys, file, other, "--redact")
    assert (result.status, "hunter2" in result.out) == (1, False)
    assert result.out.count("redacted-") == 2
    assert "hunter2" in Result(capsys, file, other).out


def test_gaps_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recording(tmp_path / "x.nriscope.db", life(a_container()))
    assert "gaps:" not in Result(capsys, file).out
    recorder = Recorder.open(file)
    recorder.note_gap(None, 1, 2, "the queue was full", 3)
    recorder.close()
    assert "gaps: 1, which may hide changes" in Result(capsys, file).out


def test_values_that_are_there_instead_are_shown_below_their_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recording(tmp_path / "x.nriscope.db", life(a_container(), updated=True)[:6])
    spec = {"linux": {"resources": {"cpu": {"shares": 150}}}}
    request = ContainerStatusRequest(container_id="app-id", verbose=True)
    recorder = Recorder.open(file)
    session = recorder.begin_session(replace(a_start("-cri"), role=Role.CRI))
    recorder.capture(
        session,
        CapturedCall(
            wall_ns=START_NS + 3600 * 10**9,
            mono_ns=START_NS + 3600 * 10**9,
            method="ContainerStatus",
            request=bytes(request),
            reply=json.dumps({"runtimeSpec": spec}).encode(),
            status_code=0,
            status_message="",
            took_ns=1,
            timeout_ns=0,
            service="runtime.v1.RuntimeService",
        ),
    )
    recorder.close()
    result = Result(capsys, file)
    assert "  CRI: the runtime was queried for the specs it used" in result.lines
    at = next(n for n, line in enumerate(result.lines) if "cpu.shares" in line)
    reason = "another value is there: 150 in the spec that was used (event 9)"
    assert result.lines[at + 1] == f"      ! superseded: {reason}"
    document = Result(capsys, file, "--format", "json").json
    (request,), (change,) = document["requests"], document["changes"]
    outcome = request["outcome"]
    assert (request["after"], outcome["kind"], outcome["actual"]) == (200, "superseded", 150)
    assert (change["before"], change["after"], change["evidence"]) == (200, 150, ["cri"])


def test_a_terminal_of_80_columns_is_not_exceeded(path: Path) -> None:
    done = subprocess.run(
        [NRI_SCOPE, "diff", str(path)],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) <= 80


# -- two recordings -----------------------------------------------------------------------------


def test_two_recordings_are_compared(
    captures: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = captures["containerd-1.7.24"], captures["containerd-2.1.9"]
    result = Result(capsys, one, other, "--format", "json")
    assert result.status == 1
    changes = {
        (change["container"], change["path"]): change["owner"] for change in result.json["changes"]
    }
    # NRI 0.6 has no field for it.
    assert changes["shop/web/app", "/process/oomScoreAdj"] == "60-cpu-policy"
    text = Result(capsys, one, other)
    assert text.status == 1
    assert any(
        re.match(r"shop/web/app +~ process\.oomScoreAdj +0 → 500 +", line) for line in text.lines
    )


def test_a_recording_equals_itself(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(capsys, path, path)
    assert result.status == 0
    assert result.lines[-1].endswith("the same")


def test_two_recordings_without_containers_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "x.nriscope.db", tmp_path / "y.nriscope.db"]
    for file in files:
        recorder = Recorder.open(file)
        recorder.begin_session(a_start())
        recorder.close()
    assert_rejected(Result(capsys, *files), "neither recording has containers")


# -- invalid input ------------------------------------------------------------------------------


def assert_rejected(result: Result, *words: str) -> None:
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("nri-scope: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("shop/web/appp", "the nearest is shop/web/app"),
        ("app", "the nearest is shop/web/app"),
        ("9999", "it has 1 to"),
        ("\x1b[2J", "\\x1b[2J"),
        ("", "no event, pod or container"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(
    path: Path, subject: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(Result(capsys, path, subject), words)


def test_a_name_means_the_newest_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = a_container()
    again.id = "app-id-again"
    file = recording(tmp_path / "x.nriscope.db", [*life(a_container()), *life(again)])
    newest = Result(capsys, file, "shop/web/app")
    assert newest.err.count("\n") == 1 and "this is the newest, app-id-again" in newest.err
    by_id = Result(capsys, file, "shop/web/app-id-again")
    assert (by_id.err, by_id.out) == ("", newest.out)


def test_a_recording_without_relevant_events_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.nriscope.db"
    recorder = Recorder.open(file)
    recorder.begin_session(a_start())
    recorder.close()
    assert_rejected(Result(capsys, file), "has no events in which plugins can make changes")


@pytest.mark.parametrize("content", [None, b"", b"no recording", b"SQLite format 3\x00" * 9])
def test_files_that_are_not_recordings_are_rejected(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.nriscope.db"
    if content is not None:
        file.write_bytes(content)
    assert_rejected(Result(capsys, file), str(file))
    assert_rejected(Result(capsys, BUNDLED["containerd-2.1"], file), str(file))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "neither FILE nor --live was given; add one of them"),
        (["a", "b", "c", "d", "e"], "expected at most four arguments, got 5"),
        (["FILE", "--probes", "00,99"], "--probes needs --live"),
        (["FILE", "--socket", "/x"], "--socket needs --live"),
        (["FILE", "-o", "x"], "-o needs --live"),
        (["FILE", "--validate"], "--validate needs --live"),
        (["--live", "FILE"], "--live and FILE exclude each other"),
        (["--live", "--since", "1h"], "--live and --since exclude each other"),
        (["--live", "--probes", "50"], "needs at least two probes"),
        (["--live", "--probes", "5,50"], "write 05"),
        (["--live", "--probes", "00,00"], "index 00 is listed twice"),
        (["--live", "--probes", "00,xx"], "is not a plugin index"),
        (["--live", "--probes", ""], "is not a plugin index"),
        (
            ["FILE", "x.nriscope.db", "--since", "1h"],
            "--since is not valid when comparing two recordings",
        ),
        (["FILE", "--format", "yaml"], "'yaml' is not one of"),
        (["FILE", "--where", "x:y"], 'unknown field "x"'),
    ],
)
def test_contradictory_options_give_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(Result(capsys, *arguments), words)


@pytest.mark.exhaustive
def test_a_closed_pipe_is_no_error_but_a_closed_stdout_is(path: Path) -> None:
    command = f"'{NRI_SCOPE}' diff '{path}' | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == f"{path.name}\n"
    none = subprocess.run(
        ["bash", "-c", f"'{NRI_SCOPE}' diff '{path}' >&-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert none.returncode == 2
    assert none.stderr.startswith("nri-scope: standard output is closed")
