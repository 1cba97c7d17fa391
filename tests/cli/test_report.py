# SPDX-License-Identifier: Apache-2.0
"""``nri-scope report``: files, findings as text and JSON, exit statuses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nri_scope.cli.main import cli, run
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import rfc3339
from nri_scope.share import output_files
from nri_scope.text.quantities import moment
from tests.replay import recordings
from tests.replay.recordings import RECORDING, ROOT
from tests.report import problem_recordings
from tests.sample_names import CHECKOUT, CHECKOUT_API, NIGHTLY
from tests.tui.hostile import assert_harmless, hostile_recording


def report(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("report.html", "<!doctype html>\n"),
        ("REPORT.HTM", "<!doctype html>\n"),
        ("report.md", "## NRI report: `containerd-2.1.nriscope.db`\n"),
    ],
)
def test_the_file_name_selects_the_format(name: str, beginning: str, tmp_path: Path) -> None:
    done = report(RECORDING, "-o", tmp_path / name)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "--redact removes secrets" in done.stderr
    path = tmp_path / name
    assert path.read_text().startswith(beginning)
    assert path.stat().st_mode & 0o777 == 0o600


def test_report_of_one_container(tmp_path: Path) -> None:
    report(RECORDING, CHECKOUT_API, "-o", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.startswith(f"## NRI report: `container {CHECKOUT_API}`\n")
    assert NIGHTLY not in text


@pytest.mark.parametrize("name", ["report.html", "report.md"])
@pytest.mark.parametrize("subject", [(), ("shop/web/first",), ("shop/web",), ("3",)])
def test_a_redacted_report_has_no_secret(
    name: str, subject: tuple[str, ...], tmp_path: Path
) -> None:
    recording, path = problem_recordings.secret(tmp_path), tmp_path / name
    done = report(recording, *subject, "-o", path)
    assert "values as in the recording; --redact removes secrets" in done.stderr
    assert problem_recordings.SECRET in path.read_text()
    done = report(recording, *subject, "--redact", "-o", path, "--force")
    assert done.exit_code == 0
    assert "values replaced (" in done.stderr
    text = path.read_text()
    assert problem_recordings.SECRET not in text
    assert "Secret and personal values were replaced by tokens" in text
    assert "API_TOKEN" in text
    assert recording.name in text


def test_the_recordings_name_is_redacted_too(tmp_path: Path) -> None:
    recording = problem_recordings.secret(tmp_path).rename(
        tmp_path / f"of-{problem_recordings.SECRET}.nriscope.db"
    )
    done = report(recording, "--redact", "-o", tmp_path / "report.md")
    assert done.exit_code == 0
    assert problem_recordings.SECRET not in (tmp_path / "report.md").read_text()
    assert problem_recordings.SECRET not in report(recording, "--redact", "--diagnose").stdout


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_secret_left_in_the_report_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = problem_recordings.secret(tmp_path)
    draw = output_files.write_text

    def write(path: Path, parts: Iterable[str]) -> int:
        return draw(path, [*parts, f"<b>{problem_recordings.SECRET.replace('2', '&#50;')}</b>"])

    monkeypatch.setattr(output_files, "write_text", write)
    assert run(["report", str(recording), "-o", str(tmp_path / name), "--redact"]) == 2
    assert "is still in the report; please report it" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_own_words_are_no_secrets_but_file_names_may_be(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = recordings.container()
    container.env.append("DB_PASSWORD=timeline")
    recording = recordings.recording(tmp_path / "x.nriscope.db", recordings.life(container))
    arguments = ["report", str(recording), "--redact", "-o"]
    assert run([*arguments, str(tmp_path / f"report{suffix}")]) == 0
    recording = problem_recordings.secret(tmp_path)
    assert (
        run(["report", str(recording), "--redact", "-o", f"{problem_recordings.SECRET}{suffix}"])
        == 2
    )
    assert "the file's name; choose another name" in capsys.readouterr().err


def test_a_missing_temporary_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert run(["report", str(RECORDING), "--redact", "-o", str(tmp_path / "report.md")]) == 2
    assert capsys.readouterr().err.startswith("nri-scope: a temporary file: cannot be written: ")
    assert not any(tmp_path.iterdir())


def test_the_recording_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.md"
    path.write_bytes(RECORDING.read_bytes())
    assert run(["report", str(path), "-o", str(path), "--force"]) == 2
    assert "odd.md is the input file" in capsys.readouterr().err
    assert path.read_bytes() == RECORDING.read_bytes()


def test_a_missing_recording_leaves_the_old_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.md"
    path.write_text("old")
    assert run(["report", str(tmp_path / "gone.db"), "-o", str(path), "--force"]) == 2
    assert "gone.db: no such file; give a *.nriscope.db that" in capsys.readouterr().err
    assert path.read_text() == "old"


def test_findings_can_be_redacted(tmp_path: Path) -> None:
    recording = problem_recordings.conflict(tmp_path)
    done = report(recording, "--diagnose", "--redact")
    assert done.exit_code == 1
    assert "Conflict: plugins" in done.stdout


def test_status_is_0_without_findings() -> None:
    done = report(RECORDING, CHECKOUT, "--diagnose")
    assert done.exit_code == 0
    assert done.stdout == f"pod {CHECKOUT}: No findings in 17 events.\n"


def test_status_is_1_with_findings(tmp_path: Path) -> None:
    done = report(problem_recordings.conflict(tmp_path), "--diagnose")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("problem  Conflict: plugins ")
    assert lines[2].startswith("  see events 5, 6, 7 and 8, the first at 20")
    assert "  about shop/web/first, shop/web/second" in lines
    assert lines[-1] == "replayed.nriscope.db: 1 problem in 8 events"


def test_json_of_findings(tmp_path: Path) -> None:
    done = report(problem_recordings.conflict(tmp_path), "--diagnose", "--format", "json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    finding, *others = document.pop("findings")
    coverage = document.pop("coverage")
    assert coverage["unobserved"] == [] and coverage["from"] < coverage["to"]
    # On a busy machine, a reply may also be slow.
    assert {one["kind"] for one in others} <= {"deadline"}
    assert document == {
        "schema_version": 1,
        "about": "",
        "bundle": {},
        "events": 8,
        "first": document["first"],
        "last": document["last"],
        "gaps": 0,
        "left_out": 0,
    }
    assert finding["kind"] == "conflict"
    assert finding["level"] == "problem"
    assert finding["events"] == [5, 6, 7, 8]
    assert finding["event_count"] == 4
    assert finding["containers"] == ["shop/web/first", "shop/web/second"]
    assert finding["advice"]


def test_findings_show_when_their_first_event_happened(tmp_path: Path) -> None:
    demo, page, issue = ROOT / "recordings" / "demo.nriscope.db", "report.html", "report.md"
    document = json.loads(report(demo, "--diagnose", "--format", "json").stdout)
    with Recording.open(demo) as recording:
        events = {event.id: event for event in recording.events()}
    assert [one["at"] for one in document["findings"]] == [
        rfc3339(events[one["events"][0]].at_ns) for one in document["findings"]
    ]
    # A terminal shows local times, as `log` does; a shared document UTC.
    lines = report(demo, "--diagnose").stdout.splitlines()
    at = moment(events[55].at_ns)
    # Of the two events that took over half of the deadline, one missed it; event 23 was only slow.
    assert f"  see event 55 at {at}" in lines
    assert f"  see events 55 and 62, the first at {at}" in lines
    for name in (page, issue):
        report(demo, "-o", tmp_path / name)
        shown = "events 55 and 62, the first at 2026-12-01 11:52:30 UTC"
        assert shown in (tmp_path / name).read_text()
    slow = ROOT / "recordings" / "containerd-2.1-slow-plugin.nriscope.zip"
    at = moment(1_796_125_978 * 10**9)
    assert f"  see event 15 at {at}\n" in report(slow, "--diagnose").stdout


def test_json_without_findings_has_an_empty_list() -> None:
    done = report(RECORDING, CHECKOUT, "--diagnose", "--format", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["findings"] == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_hostile_recording_is_harmless(form: str, tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "hostile.nriscope.db", huge=False)
    done = report(path, "--diagnose", "--format", form)
    assert done.exit_code in (0, 1)
    assert_harmless(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shop/web",), "WHAT needs -o or --diagnose; add one of them"),
        (("--redact",), "--redact needs -o or --diagnose"),
        (("-o", "report.pdf"), "report.pdf: unknown format; name the file *.html"),
        (("--diagnose", "-o", "x.md"), "--diagnose and -o exclude each other"),
        (("--diagnose", "--force"), "--diagnose and --force exclude each other"),
        (
            ("--format", "json", "-o", "x.md"),
            "--format and -o exclude each other; the suffix",
        ),
        (("-o", "/nowhere/x.md"), "/nowhere/x.md: no such folder; make it, or name another one"),
        (("nobody/knows", "-o", "x.md"), 'no event, pod, container or changed path "nobody/knows"'),
        (("nobody/knows", "--diagnose"), 'no event, pod, container or changed path "nobody/knows"'),
    ],
)
def test_invalid_input_prints_one_line_with_status_2(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", str(RECORDING), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_overwritten_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.md"
    path.write_text("mine")
    assert run(["report", str(RECORDING), "-o", str(path)]) == 2
    assert (
        "report.md exists; name another file, or replace it with --force" in capsys.readouterr().err
    )
    assert path.read_text() == "mine"
    assert run(["report", str(RECORDING), "-o", str(path), "--force"]) == 0
    assert path.read_text().startswith("## NRI report")


def test_a_missing_recording_leaves_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.nriscope.db"
    assert run(["report", str(missing), "-o", str(tmp_path / "report.html")]) == 2
    assert "none.nriscope.db" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
