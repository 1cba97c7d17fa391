# SPDX-License-Identifier: Apache-2.0
"""``--since`` and ``--until`` mean the same as the filter field `time`, in every command."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.cli.main import run
from nri_scope.cli.time_arguments import places_of
from nri_scope.errors import UsageError
from nri_scope.filter import parse
from nri_scope.filter.moments import RANGE, TimeSpan, range_text
from nri_scope.recording.query.event_times import time_span, times_of, within
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.script import RecordingPlace
from nri_scope.share.extract import Selection
from nri_scope.share.extract.selected_events import choose
from tests.amount import amount
from tests.recording.timed_events import DAY, SECOND, SPREAD, START, write


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("times") / "x.nriscope.db", *(START + at for at in SPREAD))


@pytest.fixture(scope="module")
def recording(path: Path) -> Iterator[Recording]:
    with Recording.open(path) as recording:
        yield recording


FORMS = [
    *("+0s", "+1s", "+1m", "+1.5m", "+10m", "+59m", "-0s", "-30s", "-59m", "-1h", "8:00", "08:01"),
    *("08:00:30", "08:00:00.000000001", "8:59:59.5", "9:00", "00:00", "23:59", "2026-06-01"),
    *("08:00:00.0", "8:00:01.000", "08:01:29.9999", "2026-06-01T08:00:30.0Z", "8:01:30.000000"),
    *("2026-06-01T08:01:30Z", "2026-06-01T10:01:30+02:00", "2026-06-01 08:10", "now", "today"),
]


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=amount(300, 300))
@given(
    since=st.none() | st.sampled_from(FORMS),
    until=st.none() | st.sampled_from(FORMS),
    more=st.sampled_from(["", " size:>300", " -event:CreateContainer"]),
)
def test_since_until_and_time_select_the_same_events(
    recording: Recording, since: str | None, until: str | None, more: str
) -> None:
    typed = f'time:"{since or ""}..{until or ""}"{more}' if since or until else more
    try:
        since_ns, until_ns = times_of(recording, since, until)
    except UsageError:
        with pytest.raises(UsageError, match="is not before"):
            within(recording, parse(typed))
        return
    where, only = within(recording, parse(typed)), parse(more)
    assert where is not None
    found = [event.id for event in recording.events(where=where)]
    assert found == [event.id for event in recording.events() if where.matches(event)]
    assert found == [
        event.id for event in recording.events(where=only, since_ns=since_ns, until_ns=until_ns)
    ]
    if found:
        for selection in (Selection(where=where), Selection(only, since_ns, until_ns)):
            assert list(choose(recording, selection, lambda share: None).events) == found


@settings(deadline=None)
@given(st.data())
def test_a_range_of_the_timeline_selects_its_events(
    recording: Recording, data: st.DataObject
) -> None:
    edges = st.sampled_from(SPREAD).flatmap(lambda at: st.integers(at - 1, at + 1))
    since, until = sorted((data.draw(edges), data.draw(edges)))
    typed = f"time:{range_text(START + since, START + until + 1, time_span(recording))}"
    found = [event.id for event in recording.events(where=within(recording, parse(typed)))]
    assert found == [number for number, at in enumerate(SPREAD, 1) if since <= at <= until]


@settings(deadline=None)
@given(st.data())
def test_a_range_between_displayed_times_includes_both_events(
    recording: Recording, data: st.DataObject
) -> None:
    digits = data.draw(st.integers(1, 9))
    at = st.sampled_from([*SPREAD, 999_999, 1_000_000, SECOND - 1, SECOND + 10**6])
    since, until = sorted((data.draw(at), data.draw(at)))
    unit = 10 ** (9 - digits)
    low, high = since // unit * unit, until // unit * unit
    texts = [
        f"08:{ns // 60 // SECOND:02}:{ns // SECOND % 60:02}.{ns % SECOND:09}"[: 9 + digits]
        for ns in (low, high)
        if ns < 3600 * SECOND
    ]
    if len(texts) < 2:
        return
    typed = f"time:{RANGE.join(texts)}"
    end = high + unit if digits <= 3 else high
    expected = [number for number, at in enumerate(SPREAD, 1) if low <= at < end]
    try:
        where = within(recording, parse(typed))
    except UsageError:
        assert not expected
        return
    assert where is not None
    assert [event.id for event in recording.events(where=where)] == expected
    assert times_of(recording, *texts) == (START + low, START + end)
    assert within(recording, parse(str(where))) == where
    if digits <= 3:
        last = [number for number, at in enumerate(SPREAD, 1) if at < end]
        up_to = within(recording, parse(f"time:<={texts[1]}"))
        assert [event.id for event in recording.events(where=up_to)] == last


def outputs(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], *selections: Sequence[str]
) -> list[tuple[int, str, str]]:
    found = []
    for selection in selections:
        status = run([*arguments, *selection])
        found.append((status, *capsys.readouterr()))
    return found


@pytest.mark.parametrize(
    ("since", "until"),
    [("+1s", "+10m"), ("8:00:30", "8:10"), ("-1h", "8:00:01"), (None, "+1s"), ("9:00", None)],
)
@pytest.mark.parametrize(
    "command",
    [
        ["log", "FILE"],
        ["log", "FILE", "--format", "jsonl"],
        ["diff", "FILE", "--format", "json"],
        ["export", "FILE", "--format", "jsonl"],
        ["export", "FILE", "--format", "otlp-json"],
    ],
    ids=" ".join,
)
def test_commands_print_the_same(
    path: Path,
    command: list[str],
    since: str | None,
    until: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [
        *(["--since", since] if since else []),
        *(["--until", until] if until else []),
    ]
    arguments = [str(path) if word == "FILE" else word for word in command]
    one, other, everything = outputs(
        capsys, arguments, options, ["--where", f"time:{since or ''}..{until or ''}"], []
    )
    assert one == other
    assert one != everything
    if "jsonl" in command:
        records = list(map(json.loads, one[1].splitlines()))
        where = parse(f"time:{since or ''}..{until or ''}", TimeSpan(START, START + SPREAD[-1]))
        numbers = [number for number, at in enumerate(SPREAD, 1) if _is_in(where.times, START + at)]
        is_export = command[0] == "export"
        events = [record.get("event", {}) if is_export else record for record in records]
        assert [event["id"] for event in events if "id" in event] == numbers


def _is_in(times: tuple[int | None, int | None], at_ns: int) -> bool:
    low, high = times
    return (low is None or low <= at_ns) and (high is None or at_ns <= high)


def test_a_bundle_has_the_selected_events(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, options in enumerate(
        (["--since", "+1s", "--until", "+90s"], ["--where", "time:+1s..+90s"])
    ):
        bundle, part = tmp_path / f"{number}.nriscope.zip", tmp_path / f"{number}.nriscope.db"
        assert run(["export", str(path), "-o", str(bundle), *options]) == 0
        assert run(["export", str(bundle), "-o", str(part)]) == 0
        with closing(sqlite3.connect(part)) as database:
            query = "SELECT at_ns FROM event WHERE id > 2 ORDER BY id"
            times = [at_ns - START for (at_ns,) in database.execute(query)]
        assert [at for at in times if at >= SECOND] == [SECOND, 30 * SECOND, 60 * SECOND]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["log", "FILE", "--since", "+2h"], 0),
        (["log", "FILE", "--where", "time:7:00..7:59"], 0),
        (["log", "FILE", "--where", "pod:nobody"], 0),
        (["diff", "FILE", "--until", "7:00"], 0),
        (["export", "FILE", "--since", "2026-06-02", "--format", "jsonl"], 2),
        (["export", "FILE", "--where", "time:10m", "-o", "x.nriscope.zip"], 2),
        (["replay", "FILE", "--since", "+2h", "--", "./plugin"], 2),
    ],
    ids=str,
)
def test_an_empty_result_says_which_range_the_recording_has(
    path: Path,
    command: list[str],
    status: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plugin").write_text("#!/bin/sh\n")
    Path("plugin").chmod(0o755)
    assert run([str(path) if word == "FILE" else word for word in command]) == status
    error = capsys.readouterr().err
    assert "events from 2026-06-01 08:00:00.000 to 09:00:00.000, UTC+00:00" in error
    assert error.count("\n") == 1


def test_a_log_without_an_option_says_nothing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", str(path), "-n", "0"]) == 0
    assert run(["log", str(path), "-n", "0", "--since", "8:00"]) == 0
    assert not capsys.readouterr().err


def test_an_ambiguous_time_is_an_error_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "x.nriscope.db", *(START + day * DAY for day in range(4)))
    for command in (
        ["log", "FILE", "--since", "8:30"],
        ["log", "FILE", "--where", "time:<8:30"],
        ["diff", "FILE", "--until", "8:30"],
        ["export", "FILE", "--where", "time:8:30", "--format", "jsonl"],
        ["replay", "FILE", "--until", "8:30", "--", "true"],
    ):
        assert run([str(path) if word == "FILE" else word for word in command]) == 2
        error = capsys.readouterr().err
        assert "8:30 occurs on several days of this recording" in error
        assert "as in 2026-06-03T8:30" in error and error.count("\n") == 1
    # After a date, the time of day is on the same day.
    assert run(["log", str(path), "--since", "2026-06-03", "--until", "8:30"]) == 0
    assert "     3 08:00:00.000" in capsys.readouterr().out


def test_the_places_of_a_replay(path: Path) -> None:
    assert places_of(path, None, None) == (None, None)
    assert places_of(path, "3", "8:01") == (
        RecordingPlace(event_id=3),
        RecordingPlace(at_ns=START + 60 * SECOND),
    )
    assert places_of(path, "+1s", "8")[0] == RecordingPlace(at_ns=START + SECOND)
    for begin, end in (("5", "5"), ("8:01", "8:00"), ("+1m", "+59s")):
        with pytest.raises(UsageError, match="--since is not before --until"):
            places_of(path, begin, end)
