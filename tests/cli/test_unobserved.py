# SPDX-License-Identifier: Apache-2.0
"""What says that nothing changed, or was found, says what was not observed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope.cli.blame import command as blame
from nri_scope.cli.diff import command as diff
from nri_scope.cli.show import command as show
from nri_scope.nri.events import EventKind
from nri_scope.recording.query.coverage import CREATED_EARLIER, Coverage, coverage, life_coverage
from nri_scope.recording.query.lookup import find
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.wording import no_changes
from tests.sample_names import CHECKOUT, CHECKOUT_API, NODE_EXPORTER

RECORDINGS = Path(__file__).parents[2] / "recordings"
WHOLE = RECORDINGS / "containerd-2.1.nriscope.db"
RESTART = RECORDINGS / "containerd-2.1-restart.nriscope.zip"
LIVES = [
    (path, name) for path in (WHOLE, RESTART) for name in (CHECKOUT, CHECKOUT_API, NODE_EXPORTER)
]


def printed(command: object, *arguments: str | Path) -> str:
    done = CliRunner().invoke(command, [*map(str, arguments)])  # type: ignore[arg-type]
    return " ".join(done.stdout.split()) or str(done.exception)


def life(path: Path, what: str) -> Coverage:
    with Recording.open(path) as recording:
        subject = find(recording, what)
        return life_coverage(recording, subject)  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "name"), LIVES)
def test_show_and_diff_show_the_coverage_of_a_life(path: Path, name: str) -> None:
    found = life(path, name)
    assert json.loads(printed(show, path, name, "--format", "json"))["coverage"] == found.record()
    assert ("ot observed: " in printed(diff, path, name)) is not found.is_whole


@pytest.mark.parametrize(
    ("path", "name"), [subject for subject in LIVES if subject[1].count("/") == 2]
)
def test_blame_shows_the_coverage_of_a_container(path: Path, name: str) -> None:
    found = life(path, name)
    assert json.loads(printed(blame, path, name, "--format", "json"))["coverage"] == found.record()
    assert ("ot observed: " in printed(blame, path, name)) is not found.is_whole


def test_a_creation_before_the_recording_was_not_observed() -> None:
    with Recording.open(WHOLE) as recording:
        for container in recording.containers():
            created = any(
                event.event == "CreateContainer"
                for event in recording.events()
                if event.container_id == container.id
            )
            found = life_coverage(recording, container)
            assert (CREATED_EARLIER in found.words) is not created
            assert found.is_whole is created


def test_changes_of_a_connection_without_updates_are_not_whole(tmp_path: Path) -> None:
    path = Path(shutil.copy(WHOLE, tmp_path / "r.nriscope.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE session SET mask = ?", [EventKind.CreateContainer.bit])
    found = life(path, CHECKOUT_API)
    assert [one.why for one in found.unobserved] == ["not subscribed to UpdateContainer"]
    assert "not subscribed to UpdateContainer" in printed(blame, path, CHECKOUT_API)
    assert "not subscribed to UpdateContainer" in printed(diff, path, CHECKOUT_API)


def test_comparisons_say_what_each_side_did_not_observe() -> None:
    text = printed(diff, WHOLE, RESTART)
    assert "A: not observed" not in text
    assert "B: not observed: " in text
    document = json.loads(printed(diff, WHOLE, RESTART, "--format", "json"))
    assert document["coverage"]["a"]["unobserved"] == []
    assert document["coverage"]["b"]["unobserved"]


def test_a_path_without_changes_is_told_with_what_was_not_observed() -> None:
    assert "not observed: " in printed(diff, RESTART, "/process/args")
    assert "not observed: " not in printed(diff, WHOLE, "/process/args")


@pytest.mark.parametrize("command", [show, diff, blame], ids=lambda command: command.name)
def test_an_unknown_name_is_told_with_what_was_not_observed(command: object) -> None:
    assert "not observed: " in printed(command, RESTART, "shop/none")
    assert "not observed: " not in printed(command, WHOLE, "shop/none")


def test_a_report_without_changes_tells_what_was_not_observed() -> None:
    for path in (WHOLE, RESTART):
        with Recording.open(path) as recording:
            words = no_changes(coverage(recording))
        assert words.startswith("No changes were observed")
        assert ("; not observed: " in words) is (path == RESTART)
