# SPDX-License-Identifier: Apache-2.0
"""Paths as arguments and in output: labels, pointers and plain names, on bundled recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.filter import parse
from nri_scope.recording.query.event_search import among_all
from nri_scope.recording.reading.reader import Recording
from tests.sample_names import API, CHECKOUT_API, NODE_EXPORTER

RECORDINGS = Path(__file__).parents[2] / "recordings"
CRI_O = str(RECORDINGS / "cri-o-1.37.nriscope.zip")
PROBED = str(RECORDINGS / "containerd-1.7-slow-plugin.nriscope.zip")
FOO = ["FOO", "env FOO", "/process/env/FOO", "env[FOO]"]
MOUNT = ["/mnt/tmp", "mounts[/mnt/tmp]", "/mounts/~1mnt~1tmp"]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    run(arguments)
    out, err = capsys.readouterr()
    return str(out or err)


@pytest.mark.parametrize("spellings", [FOO, MOUNT], ids=["variable", "mount"])
def test_diff_of_a_path_shows_its_changes_in_all_containers(
    spellings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = {output(capsys, "diff", CRI_O, spelling) for spelling in spellings}
    (text,) = found
    changes = [
        line.split("  ")[1][2:]
        for line in text.splitlines()
        if line[:4] in ("  ~ ", "  + ", "  ! ") and "FAILED" not in line
    ]
    # One of the containers was not created.
    assert len(changes) == 4 and len({*changes}) == 1
    assert changes[0] in spellings


@pytest.mark.parametrize("what", FOO)
def test_blame_of_a_path_shows_it_in_its_only_container(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, "blame", PROBED, what)
    assert "\nenv FOO\n" in text
    assert "one of 01–29 P ~│" in text
    assert text == output(capsys, "blame", PROBED, CHECKOUT_API, "--history", what)
    document = json.loads(output(capsys, "blame", PROBED, what, "--format", "json"))
    assert document["path"] == "/process/env/FOO"


@pytest.mark.parametrize("command", ["show", "blame", "report"])
def test_a_path_of_several_containers_is_ambiguous(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, command, CRI_O, "FOO", *(["--diagnose"] if command == "report" else []))
    assert text.startswith("nri-scope: env FOO changed in 4 containers; name one: shop/web/app or ")
    assert text.count("\n") == 1


def test_a_key_of_several_paths_is_ambiguous(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "blame", CRI_O, "shop/web/app", "--history", "type")
    assert text.startswith('nri-scope: "type" matches ')
    assert "rlimits[RLIMIT_NOFILE].type or mounts[/dev].type or " in text


def test_show_and_report_of_a_path_are_those_of_its_container(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in (["show"], ["report", "--diagnose"]):
        by_path = output(capsys, *command, PROBED, "env OWNER")
        assert by_path == output(capsys, *command, PROBED, CHECKOUT_API)


@pytest.mark.parametrize("what", ["nosuch", "env NOSUCH", "/process/env/NOSUCH"])
@pytest.mark.parametrize("command", ["diff", "blame", "show"])
def test_an_unknown_path_is_one_line(
    command: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, command, PROBED, what)
    assert text.startswith(f'nri-scope: no event, pod, container or changed path "{what}" in ')
    assert text.count("\n") == 1


@pytest.mark.parametrize("command", ["diff", "blame", "show"])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            "DB_HOST",
            f"shows a change of env DB_HOST; {CHECKOUT_API} has it: {{api}} 'env DB_HOST'`",
        ),
        ("/process/env/DB_HOST", f"a change of env DB_HOST; {CHECKOUT_API} has it: {{api}} "),
        (
            "PATH",
            f"PATH; {NODE_EXPORTER} and others have it: `blame FILE ",
        ),
        ("/proc", "shows a change of mounts[/proc]; "),
        (
            "mounts[/etc/limits].type",
            "changed only as a part of other paths; use mounts[/etc/limits]",
        ),
        ("options", '"options" changed only as a part of other paths; use mounts[/etc/limits]'),
        (API, f"; the nearest is {CHECKOUT_API}"),
        ("BAR", "; `log` and `diff` show what it has"),
    ],
)
def test_a_path_without_a_change_is_explained(
    command: str, what: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = str(RECORDINGS / "containerd-2.1-normal-life.nriscope.zip")
    text = output(capsys, command, recording, what)
    assert words.format(api=f"`blame FILE {CHECKOUT_API} --history") in text
    assert text.count("\n") == 1


def _numbers(recording: Recording, text: str) -> list[int]:
    where = parse(text)
    found = [event.id for event in recording.events(where=where)]
    assert found == [event.id for event in recording.events() if where.matches(event)]
    return found


@pytest.mark.parametrize(
    ("spellings", "path"),
    [(FOO, "/process/env/FOO"), (MOUNT, "/mounts/~1mnt~1tmp")],
    ids=["variable", "mount"],
)
def test_the_filter_accepts_every_spelling(spellings: list[str], path: str) -> None:
    with Recording.open(Path(CRI_O)) as recording:
        expected = [event.id for event in recording.events() if path in event.changed]
        assert expected
        for spelling in spellings:
            assert _numbers(recording, f'changed:"{spelling}"') == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("changed:mounts[/mnt/*]", "changed:/mounts/~1mnt~1*"),
        ("changed:env[F*]", "changed:/process/env/F*"),
        ("changed:FO*", "changed:/process/env/F*"),
        ('changed:~"^env F"', "changed:~^/process/env/F"),
        ("changed:env", "changed:/process/env"),
        ("changed:cpu.shares", "changed:/linux/resources/cpu/shares"),
    ],
)
def test_filters_with_labels_equal_those_with_pointers(text: str, same: str) -> None:
    with Recording.open(Path(CRI_O)) as recording:
        assert _numbers(recording, text) == _numbers(recording, same) != []


@pytest.mark.parametrize("text", ["env FOO", "/process/env/FOO", "foo", "mounts[/mnt/tmp]"])
def test_the_search_finds_every_spelling(text: str) -> None:
    with Recording.open(Path(CRI_O)) as recording:
        steps = list(among_all(recording, text, 1, 118, forwards=True))
        assert steps[-1].found is not None
        event = recording.event(steps[-1].found)
        assert event is not None and "/process/env/FOO" in event.changed


def test_the_log_names_the_first_changed_path(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "log", CRI_O, "--where", "changed:FOO plugin:30-env-injector")
    assert "changed annotations[example.com/injected-by] and 4 more by 30-env-injector" in text
