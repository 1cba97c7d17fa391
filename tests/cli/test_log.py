# SPDX-License-Identifier: Apache-2.0
"""``nri-scope log``: output, and behaviour as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope.cli.main import cli, run
from nri_scope.differ import operations
from nri_scope.differ.operations import Operation, OperationMerger
from nri_scope.entries import Item
from nri_scope.events import Printed
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.cli.command import NRI_SCOPE
from tests.recording.recordings import PLUGIN, a_start, captured, record
from tests.sample_names import CHECKOUT_API, CHECKOUT_POD

CONFLICT = Path(__file__).parents[2] / "recordings/containerd-2.1-conflict.nriscope.zip"
DEMO = CONFLICT.with_name("demo.nriscope.db")
SLOW = CONFLICT.with_name("containerd-2.1-slow-plugin.nriscope.zip")
ALONE = CONFLICT.with_name("containerd-2.1.nriscope.db")
"""Of one connection."""
ITEMS = [item for plugin, item in captured() if plugin == PLUGIN]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def more(recorder: Recorder, session: int) -> None:
        at_ns = ITEMS[-1].wall_ns
        recorder.note_gap(session, at_ns + 1, at_ns + 2, "the disk is full", 3)

    return record(tmp_path_factory.mktemp("log") / "x.nriscope.db", more=more)


def log(path: Path, *more: str) -> list[str]:
    result = CliRunner().invoke(cli, ["log", str(path), *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert not result.stderr
    return result.stdout.splitlines()


def test_each_event_is_one_line_newest_last(path: Path) -> None:
    lines = log(path)
    assert lines[1].startswith("── session 1: 00-probe-a on containerd 2.1.9+unknown")
    events = [line.split() for line in lines if not line.startswith(("──", "   gap"))]
    assert [int(words[0]) for words in events] == list(range(1, 32))
    assert events[3][3:] == ["CreateContainer", "shop/web/app"]
    assert lines[-2].startswith("   gap ")
    assert "session 1 ended" in lines[-1]


def test_jsonl_has_events_and_gaps(path: Path) -> None:
    records = [json.loads(line) for line in log(path, "--format", "jsonl")]
    assert records.pop()["gap"]["lost"] == 3
    assert [record["id"] for record in records] == list(range(1, 32))
    assert records[3]["container"] == "app"


def test_options_select_events(path: Path) -> None:
    def ids(*more: str) -> list[int]:
        records = map(json.loads, log(path, "--format", "jsonl", *more))
        return [record["id"] for record in records if "id" in record]

    everything = [json.loads(line) for line in log(path, "--format", "jsonl")]
    assert ids("-n", "2") == [30, 31]
    assert ids("--last", "0") == []
    assert ids("--where", "event:CreateContainer ns:jobs") == [14, 21]
    assert ids("--where", "event:CreateContainer", "-n", "1") == [21]
    assert ids("--since", everything[29]["at"]) == [30, 31]
    assert ids("--until", everything[2]["at"]) == [1, 2]
    assert ids("--since", everything[1]["at"], "--until", everything[3]["at"]) == [2, 3]


def test_an_empty_recording_is_no_error(tmp_path: Path) -> None:
    Recorder.open(tmp_path / "empty.nriscope.db").close()
    assert log(tmp_path / "empty.nriscope.db") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--where", "pods:web"], 'filter: unknown field "pods", the nearest is "pod"'),
        (["--where", "a OR"], "filter: a term is missing here (at character 5)"),
        (["--since", "soon"], '"soon" is not a time; write 2026-01-31T14:05:00Z, 14:05,'),
        (["--since", "3000-01-01"], "recordings have times from 1970-01-01 to 2262-04-10; `nri-sc"),
        (["--where", "time:<1066-10-14"], "recordings have times from 1970-01-01 to 2262-04-10"),
        (["--since", "10m", "--until", "20m"], "; give the earlier time to --since"),
        (
            ["--since", "2026-01-31T12:00:00", "--until", "2026-01-31T12:00:00"],
            "--since 2026-01-31 12:00:00 +00:00 is not before --until ",
        ),
        (["-n", "-1"], "-1 is not in the range"),
        (["--format", "xml"], "'xml' is not one of 'text', 'jsonl'"),
    ],
)
def test_bad_options_give_one_line_and_status_2(
    path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", str(path), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err and captured.err.count("\n") == 1


# -- the process ----------------------------------------------------------------------------


@contextmanager
def following(path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [NRI_SCOPE, "log", "--follow", "--format", "jsonl", str(path), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def an_id(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(json.loads(process.stdout.readline())["id"])


def test_follow_prints_new_events_until_interrupted(tmp_path: Path) -> None:
    path = record(tmp_path / "x.nriscope.db")
    with following(path, "-n", "1") as process:
        assert an_id(process) == 31
        # A recorder continues the finished file, with events of the same time.
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start(started_ns=ITEMS[1].wall_ns))
        for number, item in enumerate(ITEMS[1:4], 32):
            recorder.capture(session, item)
            assert an_id(process) == number
        recorder.note_gap(session, time.time_ns(), time.time_ns(), "the disk is full", 1)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["gap"]["lost"] == 1
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
        assert (process.returncode, rest, errors) == (0, "", "")
        recorder.close()


def test_follow_ends_when_the_output_pipe_is_closed(tmp_path: Path) -> None:
    path = record(tmp_path / "x.nriscope.db")
    with following(path) as process:
        assert an_id(process) == 1
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == ""


def test_follow_ends_at_until(tmp_path: Path) -> None:
    path = record(tmp_path / "x.nriscope.db")
    with following(path, "--until", "2000-01-01") as process:
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize("output_format", ["text", "jsonl"])
def test_a_closed_pipe_is_no_error(path: Path, output_format: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [NRI_SCOPE, "log", str(path), "--format", output_format],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_operations_are_one_line_each() -> None:
    lines = log(CONFLICT, "--operations")
    assert "CreateContainer" in next(line for line in lines if line.split()[0] == "29")
    (failed,) = (line for line in lines if line.split()[0] == "39")
    assert failed.split()[3:6] == ["!", "CreateContainer", CHECKOUT_API]
    assert failed.endswith(
        "the operation failed; asked for annotations[labels.example.com/owner] and 2 more "
        "by one of 01–29: refused; "
        "events 39 to 40; slowest: 704µs ↕ 01–29"
    )
    records = [json.loads(line) for line in log(CONFLICT, "--operations", "--format", "jsonl")]
    events = [number for one in records for number in one["events"]]
    assert sorted(events) == list(range(1, 66))
    assert [one["id"] for one in records if len(one["events"]) == 1] == [49]
    set_ups = [line.split(maxsplit=3) for line in lines if "set-up" in line]
    assert [[number, text] for number, _, _, text in set_ups] == [
        [str(first), f"set-up                 events {first} to {first + 1}; of {plugin}"]
        for first, plugin in zip(
            (1, 3, 5, 7),
            ("00-nri-scope", "30-nri-scope", "50-nri-scope", "99-nri-scope"),
            strict=True,
        )
    ]


def test_a_slow_event_names_what_delayed_it_as_operations_and_the_diagnosis_do() -> None:
    where = ("--where", "problem:slow")
    (event,) = (line for line in log(SLOW, *where) if "CreateContainer" in line)
    assert event.split()[0] == "15" and event.endswith("  slow before it: 2.00s ↕ 31–49")
    (operation,) = (line for line in log(SLOW, *where, "--operations") if "CreateCont" in line)
    assert operation.endswith("slowest: 2.00s ↕ 31–49")
    diagnosis = CliRunner().invoke(cli, ["report", str(SLOW), "--diagnose"]).output
    assert "Plugins at 31–49" in diagnosis and "took 2.00s of" in diagnosis
    assert "see event 15" in diagnosis


def test_a_slow_event_of_an_observed_plugin_delays_itself() -> None:
    (event,) = (line for line in log(DEMO, "--where", "problem:slow") if "CreateCont" in line)
    assert " 1.20s   40-image-check " in event and "slow before" not in event


def test_an_event_of_an_operation_that_failed_later_says_so() -> None:
    lines = [one for one in log(CONFLICT, "--where", "problem:failed") if "CreateCont" in one]
    assert [line.split()[0] for line in lines] == ["29", "39"]
    assert all(line.endswith("  the operation failed") for line in lines)


def test_operations_are_selected_by_any_of_their_events() -> None:
    def numbers(*more: str) -> list[int]:
        lines = log(CONFLICT, "--operations", "--format", "jsonl", *more)
        return [json.loads(line)["id"] for line in lines]

    where = "plugin:99-nri-scope event:StopContainer"
    assert numbers("--where", where) == [31, 41, 50]
    assert numbers("--where", "problem:failed") == [29, 39]
    assert numbers("--where", where, "--last", "2") == [41, 50]
    assert numbers("--last", "2") == [58, 62]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [DEMO, CONFLICT, ALONE], ids=lambda path: path.name)
def test_the_last_operations_are_the_last_lines_of_all(path: Path) -> None:
    """Their changes are found without reading the whole recording."""
    every = log(path, "--operations", "--format", "jsonl")
    assert any(json.loads(line)["changed"] for line in every)
    for last in (1, 2, 3, 5, 8, 20, len(every), len(every) + 1):
        assert log(path, "--operations", "--format", "jsonl", "-n", str(last)) == every[-last:]
    where = ("--where", f"pod:{CHECKOUT_POD} -event:StartContainer")
    some = log(path, "--operations", "--format", "jsonl", *where)
    found = log(path, "--operations", "--format", "jsonl", "-n", "3", *where)
    assert found == some[-3:]


def test_operations_have_the_lines_of_their_sessions() -> None:
    def sessions(lines: list[str]) -> list[str]:
        return [line for line in lines if line.startswith("── session ")]

    assert sessions(log(CONFLICT, "--operations")) == sessions(log(CONFLICT))
    for more in (("-n", "1"), ("-n", "4"), ("--where", "event:RemovePodSandbox")):
        lines = log(CONFLICT, "--operations", *more)
        begun = [line.split()[2] for line in sessions(lines) if " ended " not in line]
        # Without that of the CRI.
        assert begun == ["1:", "2:", "3:", "4:"]
        first = next(at for at, line in enumerate(lines) if not line.startswith(("──", "  note ")))
        assert len(sessions(lines[:first])) == 4
        assert [line.split()[2] for line in sessions(lines) if " ended " in line] == [*"1234"]
    head = log(CONFLICT, "--operations", "-n", "0")
    assert log(CONFLICT, "-n", "0") == head
    assert [line.split(":")[0] for line in head] == ["── note", "── redacted"]


def test_a_time_selects_whole_operations() -> None:
    begin, end = "2026-12-01T11:52:53.5801Z", "11:52:53.5817Z"
    lines = log(CONFLICT, "--operations", "--where", f"time:{begin}..{end}")
    assert [line.split()[0] for line in lines if "Container " in line] == ["29", "31"]
    (creation,) = (line for line in lines if line.split()[0] == "29")
    assert "events 29 to 30" in creation
    within = ("--since", begin, "--until", f"2026-12-01T{end}")
    assert log(CONFLICT, "--operations", *within) == lines


def test_follow_prints_an_operation_when_no_more_event_can_follow(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    recorder = Recorder.open(path)
    found = list(captured())
    begun = {plugin: recorder.begin_session(a_start(plugin)) for plugin in sorted(dict(found))}
    with following(path, "--operations", "--format", "jsonl") as process:
        assert process.stdout is not None
        count = 0
        for plugin, call in found:
            recorder.capture(begun[plugin], call)
            count += 1
        for session in begun.values():
            recorder.end_session(session, "interrupted", found[-1][1].wall_ns + 1)
        recorder.close()
        seen: set[int] = set()
        while len(seen) < count:
            seen.update(json.loads(process.stdout.readline())["events"])
    assert seen == set(range(1, count + 1))


def test_an_operation_is_complete_even_if_much_was_printed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "_HELD_MAX", 2)
    with Recording.open(CONFLICT) as recording:
        items: list[Item] = []
        for event in recording.events():
            items += [
                event,
                *(Printed(n, event.session, event.at_ns, "stdout", "x") for n in range(3)),
            ]
        merger = OperationMerger(recording, None, None, (None, None))
        found = list(merger.merge(items, ended=True))
    merged = [one for one in found if isinstance(one, Operation)]
    numbers = [event.id for one in merged for event in one.events]
    assert sorted(numbers) == list(range(1, 66))
    assert [13, 14, 15, 16] in [[event.id for event in one.events] for one in merged]
    assert sum(isinstance(one, Printed) for one in found) == 3 * 65
