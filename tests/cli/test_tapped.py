# SPDX-License-Identifier: Apache-2.0
"""Recordings of tapped plugins, in the commands that read recordings."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.differ.attribution.attributed_changes import Shows
from nri_scope.differ.recording_differ import history_of, rounds
from nri_scope.events import LEFT_OUT
from nri_scope.recording.query.lookup import container_name
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed
from nri_scope.recording.reading.tap_tables import tapped as tap_details
from tests.replay.recordings import PASSWORD, of_taps


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two plugins on containerd 1.7 with NRI 0.6."""
    return of_taps("containerd-1.7.24", tmp_path_factory.mktemp("tap") / "tap.nriscope.db")


@pytest.fixture(autouse=True)
def _current_folder(tapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TAP").symlink_to(tapped)
    monkeypatch.chdir(tmp_path)


def command_output(line: str, capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    capsys.readouterr()
    assert run(shlex.split(line)) == status
    return capsys.readouterr().out


def test_log_marks_calls_by_the_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    lines = command_output("log TAP", capsys).splitlines()
    (update,) = (line for line in lines if " UpdateContainers " in line)
    assert update.endswith("called by the plugin; asked for cpu.shares by 60-cpu-policy")
    assert sum("RegisterPlugin" in line and "called by" in line for line in lines) == 2


def test_show_contains_the_requested_updates(capsys: pytest.CaptureFixture[str]) -> None:
    (event,) = json.loads(
        command_output(
            "sql TAP --format json \"SELECT id FROM events WHERE event = 'UpdateContainers'\"",
            capsys,
        )
    )["rows"]
    text = command_output(f"show TAP {event['id']}", capsys)
    assert text.count("container_id: stranger") == 2


def test_show_contains_data_that_only_taps_record(
    tapped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recording.open(tapped) as recording:
        event = next(event for event in recording.events() if event.event == "CreateContainer")
    found = json.loads(command_output(f"show TAP {event.id} --format json", capsys))
    assert found["tap"] == {"held_us": 31, "metadata": [{"trace": "CreateContainer"}]}
    assert [line["text"] for line in found["printed"]] == [
        "creating app",
        f"DB_PASSWORD={PASSWORD}",
    ]
    assert "printed_left_out" not in found


def test_stats_count_the_time_of_plugins_without_that_of_the_runtime(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = command_output("report TAP", capsys)
    assert "plugins took 50µs (median), 50µs (p99), 50µs (max)" in text
    assert "UpdateContainers, by plugins" in text
    found = json.loads(command_output("report TAP --format json", capsys))
    (policy,) = (one for one in found["chain"] if one["owner"] == "60-cpu-policy")
    assert policy["took_us"]["max"] == 50


def test_blame_names_owners_exactly_on_nri_0_6(tapped: Path) -> None:
    with Recording.open(tapped) as recording:
        (app,) = (one for one in recording.containers() if container_name(one) == "shop/web/app")
        history = history_of(recording, app)
    owners = {
        step.change.path: (str(step.owner), [str(one) for one in step.evidence])
        for step in history.steps
    }
    assert owners["/process/env/INJECTED"] == ("30-env-injector", ["tap"])
    # From the creation of other containers, and from its unsolicited update.
    assert owners["/linux/resources/cpu/cpus"] == ("60-cpu-policy", ["tap"])
    assert ("60-cpu-policy", 777) in [
        (str(step.owner), step.change.after) for step in history.steps
    ]
    # NRI 0.6 has no such field: containerd ignores it.
    dropped = (step for step in history.steps if step.outcome.shown_by is Shows.RULE)
    assert {one.change.path for one in dropped} == {
        "/linux/resources/pids/limit",
        "/process/oomScoreAdj",
    }


def test_diff_shows_side_effects_and_failed_unsolicited_updates(
    tapped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = command_output("diff TAP", capsys, 1)
    assert "RegisterPlugin" not in text
    assert "UpdateContainers, unsolicited" in text
    assert "on stranger:" in text
    assert "! refused: the runtime reported that the update failed" in text
    with Recording.open(tapped) as recording:
        found = list(rounds(recording))
    creations = [one for one in found if one.name == "CreateContainer"]
    assert all(creation.seen_by == ("30-env-injector", "60-cpu-policy") for creation in creations)
    assert any(creation.side_effects for creation in creations)
    assert not any(one.missed_by for one in found)


def test_a_registration_does_not_split_the_current_round(tapped: Path) -> None:
    from nri_scope.differ.attribution.differ import Differ

    with Recording.open(tapped) as recording:
        registered, *others = recording.exchanges()
        differ = Differ(recording.sessions())
        found = []
        for event, request, reply in others:
            found += differ.feed(event, request, reply)
            if event.event == "CreateContainer":
                # Another connection of this plugin begins while the chain is asked.
                found += differ.feed(*registered)
    creations = [one for one in found if one.name == "CreateContainer"]
    assert all(len(creation.seen_by) == 2 for creation in creations)


def test_diagnosis_does_not_blame_plugins_for_the_runtimes_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = command_output("report TAP --diagnose", capsys, 1)
    assert "deadline" not in text
    assert "asked for process.oomScoreAdj" in text


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_reports_name_tapped_plugins(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    command_output(f"report TAP -o r.{suffix}", capsys)
    text = Path(f"r.{suffix}").read_text(encoding="utf-8")
    assert "tapped" in text
    assert "60-cpu-policy" in text


def test_a_part_contains_the_registrations(capsys: pytest.CaptureFixture[str]) -> None:
    command_output("export TAP -o part.nriscope.zip --where container:app", capsys)
    with Recording.open(Path("part.nriscope.zip")) as part:
        events = [event.event for event in part.events()]
        assert events.count("RegisterPlugin") == events.count("Configure") == 2
        assert "UpdateContainers" in events
        assert {gap.reason for gap in part.gaps()} == {LEFT_OUT}


def test_a_part_contains_the_output_at_its_events(
    tapped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = "'event:CreateContainer container:app'"
    command_output(f"export TAP -o part.nriscope.zip --where {chosen}", capsys)
    with Recording.open(tapped) as whole, Recording.open(Path("part.nriscope.zip")) as part:
        ours, theirs = list(printed(part)), list(printed(whole))
        kept = {event.id for event in part.events()}
        assert tap_details(part, sorted(kept)) == tap_details(whole, sorted(kept))
        left_out = {event.id for event in whole.events()} - kept
    assert set(ours) < set(theirs)
    assert left_out
    texts = [line.text for line in ours]
    assert "30-env-injector starts" in texts
    assert "creating app" in texts
    assert "creating sidecar" not in texts


@pytest.mark.parametrize("form", ["jsonl", "otlp-json", "perfetto", "sqlite-expanded"])
def test_other_formats_accept_tap_recordings(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    command_output(f"export TAP --format {form} -o x", capsys)
    assert Path("x").stat().st_size


def test_formats_contain_data_that_only_taps_record(capsys: pytest.CaptureFixture[str]) -> None:
    command_output("export TAP --format jsonl -o x.jsonl", capsys)
    lines = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    taps = {line["event"]["event"]: line.get("tap") for line in lines if "event" in line}
    assert taps["CreateContainer"] == {"held_us": 31, "metadata": [{"trace": "CreateContainer"}]}
    assert [line["output"]["text"] for line in lines if "output" in line].count("creating app") == 2
    command_output("export TAP --format sqlite-expanded -o x.db", capsys)
    with closing(sqlite3.connect("x.db")) as connection:
        (tap,) = connection.execute(
            "SELECT DISTINCT tap_us, metadata FROM events WHERE event = 'CreateContainer'"
        ).fetchall()
        printed_lines = connection.execute(
            "SELECT plugin, text FROM output JOIN sessions ON sessions.id = session "
            "WHERE text LIKE '%starts' ORDER BY plugin"
        ).fetchall()
    assert tap == (31, '[["trace", "CreateContainer"]]')
    assert printed_lines == [
        ("30-env-injector", "30-env-injector starts"),
        ("60-cpu-policy", "60-cpu-policy starts"),
    ]


def test_redaction_includes_plugin_output(tapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command_output("export TAP --redact -o clean.nriscope.db", capsys)
    with Recording.open(tapped) as original, Recording.open(Path("clean.nriscope.db")) as clean:
        assert [event.event for event in clean.events()] == [one.event for one in original.events()]
        assert [session.role for session in clean.sessions()] == ["tap", "tap"]
        assert not any(b"hunter2" in request for _, request, _ in clean.exchanges())
        lines = list(printed(clean))
        assert [line.at_ns for line in lines] == [line.at_ns for line in printed(original)]
        assert not any(PASSWORD in line.text for line in lines)
        assert any(line.text == "creating app" for line in lines)


def test_log_shows_plugin_output_only_with_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "creating app" not in command_output("log TAP", capsys)
    lines = command_output("log TAP --printed", capsys).splitlines()
    (at,) = (
        number
        for number, line in enumerate(lines)
        if "30-env-injector CreateContainer      shop/web/app" in line
    )
    assert lines[at + 1].endswith("stdout | 30-env-injector creating app")
    assert lines[at + 2].endswith(f"stdout | 30-env-injector DB_PASSWORD={PASSWORD}")
    records = list(
        map(
            json.loads, command_output("log TAP --printed --format jsonl -n 3", capsys).splitlines()
        )
    )
    assert all("event" in record or "output" in record for record in records)


def test_log_shows_notes(tapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command_output("export TAP -o part.nriscope.zip --where container:app", capsys)
    assert "  note " in command_output("log part.nriscope.zip", capsys)
