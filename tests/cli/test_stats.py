# SPDX-License-Identifier: Apache-2.0
"""``nri-scope report`` without a page: the summary."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope.cli.main import cli
from nri_scope.events import CapturedCall, Role
from nri_scope.recorder.writer import Recorder
from tests.recording.made import START, at
from tests.recording.recordings import a_start, captured, record


def more(recorder: Recorder, session: int) -> None:
    recorder.note_gap(session, START, at(1), "the disk is full", 5)
    recorder.note_gap(None, at(1), at(2), "no runtime", None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("stats") / "x.nriscope.db", more=more)


def stats(path: Path, *more: str) -> str:
    result = CliRunner().invoke(cli, ["report", str(path), *more], catch_exceptions=False)
    assert result.exit_code == 0
    assert not result.stderr
    return result.stdout


def test_text(path: Path) -> None:
    lines = [line.split() for line in stats(path).splitlines()]
    words = {line[0]: line[1:] for line in lines if line}
    assert words["file"][0] == str(path)
    assert words["events"][0] == "31"
    assert words["replies"][:2] == ["31", "ok;"]
    assert " ".join(words["gaps"]).startswith(
        "2, with 5 events lost, and an unknown number in 1 of them;"
    )
    assert words["size"][2:5] == ["on", "the", "wire,"]
    assert words["CreateContainer"][:2] == ["4", "0"]
    assert words["shop/web"] == ["17"]


def test_json(path: Path) -> None:
    document = json.loads(stats(path, "--format", "json"))
    assert document["schema_version"] == 1
    assert document["events"] == 31
    assert document["by_event"][0]["event"] == "CreateContainer"
    assert document["by_pod"][0] == {"namespace": "shop", "pod": "web", "count": 17}
    assert document["gaps"]["count"] == 2 and len(document["gaps"]["list"]) == 2
    assert document["sizes"]["file_bytes"] == path.stat().st_size
    assert document["sessions"][0]["plugin"] == "00-probe-a"


def test_an_empty_recording(tmp_path: Path) -> None:
    path = tmp_path / "empty.nriscope.db"
    Recorder.open(path).close()
    assert "events    0\n" in stats(path)
    document = json.loads(stats(path, "--format", "json"))
    assert (document["events"], document["by_event"], document["sessions"]) == (0, [], [])
    assert document["took_us"] == {"p50": None, "p99": None, "max": None}


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ((), "none"),
        ((None,), "1, with an unknown number of events lost; `log` shows them"),
        ((1,), "1, with 1 event lost; `log` shows them"),
        ((1200, 34), "2, with 1,234 events lost; `log` shows them"),
    ],
)
def test_gaps_in_words(lost: tuple[int | None, ...], words: str, tmp_path: Path) -> None:
    def gaps(recorder: Recorder, session: int) -> None:
        for number, count in enumerate(lost):
            recorder.note_gap(session, at(2 * number), at(2 * number + 1), "a test", count)

    text = stats(record(tmp_path / "x.nriscope.db", more=gaps))
    assert f"gaps      {words}\n" in text


def test_large_numbers_are_easy_to_read(tmp_path: Path) -> None:
    like = next(item for _, item in captured())._replace(request=b"\x01")
    recorder = Recorder.open(tmp_path / "large.nriscope.db")
    session = recorder.begin_session(a_start(started_ns=START))
    for number in range(1200):
        recorder.capture(session, like._replace(wall_ns=at(number / 1000)))
    recorder.close()
    text = stats(tmp_path / "large.nriscope.db")
    assert "events    1,200 in 1.19s, 1,000 per second; peak 1,000 per second, at" in text
    assert "replies   1,200 ok;" in text


def test_numbers_have_no_exponents(tmp_path: Path) -> None:
    like = next(item for _, item in captured())._replace(request=b"\x01")
    recorder = Recorder.open(tmp_path / "small.nriscope.db")
    recorder.capture(recorder.begin_session(a_start(started_ns=START)), like)
    recorder.close()
    (size,) = [
        line
        for line in stats(tmp_path / "small.nriscope.db").splitlines()
        if line.startswith("size")
    ]
    assert size.endswith("× the wire size") and "e+" not in size


def test_a_tiny_rate_has_no_exponent(tmp_path: Path) -> None:
    like = next(item for _, item in captured())
    recorder = Recorder.open(tmp_path / "slow.nriscope.db")
    session = recorder.begin_session(a_start(started_ns=START))
    for number in range(2):
        recorder.capture(session, like._replace(wall_ns=at(number * 1_000_000)))
    recorder.close()
    text = stats(tmp_path / "slow.nriscope.db")
    assert "events    2 in 11d13h, less than 0.01 per second;" in text


def test_many_pods_are_cut_short_in_text_only(tmp_path: Path) -> None:
    from nri_scope._gen.nri.api_pb2 import PodSandbox, RunPodSandboxRequest

    like: CapturedCall = next(item for _, item in captured())
    recorder = Recorder.open(tmp_path / "many.nriscope.db")
    session = recorder.begin_session(a_start(started_ns=START))
    for number in range(30):
        pod = PodSandbox(id=f"{number:064}", name=f"web-{number}", namespace="shop")
        request = RunPodSandboxRequest(pod=pod).SerializeToString()
        recorder.capture(session, like._replace(method="RunPodSandbox", request=request))
    recorder.close()
    text = stats(tmp_path / "many.nriscope.db")
    assert "and 10 more pods" in text
    assert len(json.loads(stats(tmp_path / "many.nriscope.db", "--format", "json"))["by_pod"]) == 30


# -- time in plugins ----------------------------------------------------------------------------

CHAIN = ("00-probe-a", "30-env-injector", "50-probe-b", "60-cpu-policy", "95-probe-c")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("chain") / "x.nriscope.db", *CHAIN)


def test_time_in_plugins(chain: Path) -> None:
    lines = stats(chain).splitlines()
    at = lines.index(
        "time in plugins (deadline 2.00s; >50% and >100% count events beyond that share of it)"
    )
    rows = {(row[0], *row[7:]): row[1:] for line in lines[at + 3 :] if len(row := line.split()) > 2}
    assert rows["01–29", "00-probe-a,", "30-env-injector"][0] == "4"
    assert rows["51–94", "50-probe-b,", "95-probe-c"][4:6] == ["0", "0"]


def test_time_in_plugins_fits_80_columns(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = stats(chain).splitlines()
    assert max(map(len, lines)) <= 80
    (heading,) = [line for line in lines if line.startswith("plugin ")]
    assert heading.split()[:5] == ["plugin", "count", "p50", "p99", "max"]
    assert heading.endswith(">50%  >100%  between connections")


def test_time_in_plugins_as_json(chain: Path) -> None:
    entries = json.loads(stats(chain, "--format", "json"))["chain"]
    first = entries[0]
    assert (first["owner"], first["index"]) == ("one of 01–29", "01–29")
    assert (first["after"], first["before"], first["count"]) == (CHAIN[0], CHAIN[1], 4)
    assert first["took_us"]["p50"] <= first["took_us"]["p99"] <= first["took_us"]["max"]
    assert (first["deadline_ms"], first["over_half"], first["over_deadline"]) == (2000, 0, 0)


def test_one_connection_has_no_time_in_plugins(path: Path) -> None:
    assert "time in plugins" not in stats(path)
    assert json.loads(stats(path, "--format", "json"))["chain"] == []


def test_time_in_a_tapped_plugin(tmp_path: Path) -> None:
    like = next(item for _, item in captured() if item.method != "Synchronize")
    recorder = Recorder.open(tmp_path / "tap.nriscope.db")
    start = replace(a_start("30-slow", START), role=Role.TAP)
    recorder.capture(recorder.begin_session(start), like._replace(took_ns=1_200_000_000))
    recorder.close()
    text = stats(tmp_path / "tap.nriscope.db")
    (row,) = [line.split() for line in text.splitlines() if line.startswith("30-slow")]
    assert row == ["30-slow", "1", "1.20s", "1.20s", "1.20s", "1", "0"]


def test_a_chain_of_many_is_cut_short_in_text_only(tmp_path: Path) -> None:
    like = next(item for _, item in captured() if item.method != "Synchronize")
    path = tmp_path / "long.nriscope.db"
    recorder = Recorder.open(path)
    plugins = [f"{index:02}-probe" for index in range(30)]
    sessions = [recorder.begin_session(a_start(plugin, START)) for plugin in plugins]
    for number, session in enumerate(sessions):
        moment = at(1) + 1_000_000 * number
        recorder.capture(session, like._replace(wall_ns=moment, mono_ns=moment))
    recorder.close()
    assert "and 9 more; --format json lists all" in stats(path)
    assert len(json.loads(stats(path, "--format", "json"))["chain"]) == 29


def test_answers_of_the_cri_are_counted_apart_from_events() -> None:
    path = Path(__file__).parents[2] / "recordings/containerd-2.1-normal-life.nriscope.zip"
    text = CliRunner().invoke(cli, ["report", str(path)]).output
    assert "events    76; answers of the CRI: 2\n" in text
    log = CliRunner().invoke(cli, ["log", str(path), "--format", "jsonl"]).output
    assert sum('"event":' in line for line in log.splitlines()) == 76 + 2
