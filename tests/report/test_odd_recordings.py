# SPDX-License-Identifier: Apache-2.0
"""Recordings with any content give a report or an error."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nri_scope.errors import NriScopeError
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from nri_scope.report import findings_list
from nri_scope.report.collect import collect
from nri_scope.report.html import html
from nri_scope.report.markdown import markdown
from tests.replay.recordings import of_capture

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.nriscope.db"
    return of_capture("containerd-2.4-beta", path)


def render_all_formats(path: Path, reference: str | None = None) -> None:
    with Recording.open(path) as recording:
        facts = collect(recording, None if reference is None else lookup.find(recording, reference))
    assert "".join(html(facts)).endswith("</html>\n")
    assert markdown(facts)
    assert list(findings_list.text(facts, width=80))
    assert findings_list.document(facts)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE session SET role = 'odd'",
        "UPDATE session SET plugin_index = '', plugin_name = ''",
        "UPDATE session SET plugin_index = 'abc'",
        f"UPDATE session SET started_ns = {LARGEST}, ended_ns = {SMALLEST}",
        f"UPDATE session SET request_timeout_ms = {LARGEST}, mask = -1",
        f"UPDATE event SET at_ns = {LARGEST} WHERE id % 3 = 0",
        f"UPDATE event SET at_ns = {SMALLEST} WHERE id % 3 = 0",
        f"UPDATE event SET took_ns = {LARGEST}, timeout_ns = 1",
        "UPDATE event SET took_ns = -5, timeout_ns = -1",
        "UPDATE event SET seq = 1, mono_ns = -mono_ns",
        "UPDATE event SET session = session % 2 + 1",
        "UPDATE event SET status_code = -7, status_message = NULL",
        "UPDATE event SET container = 1",
        "UPDATE container SET pod = NULL, id = ''",
        "DELETE FROM session WHERE id = 2",
        "DELETE FROM object WHERE id = 5",
        f"INSERT INTO gap VALUES (99, NULL, {LARGEST}, {SMALLEST}, 'x', -5)",
        f"INSERT INTO gap VALUES (99, 77, 0, 5, 'x', {LARGEST})",
        f"INSERT INTO note VALUES (9, NULL, {SMALLEST}, 'n')",
    ],
)
def test_odd_values_give_a_report_or_an_error(change: str, chain: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.nriscope.db"
    path.write_bytes(chain.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    for reference in (None, "shop/web/app"):
        # Other exceptions fail the test.
        with suppress(NriScopeError):
            render_all_formats(path, reference)


def test_every_event_pod_and_container_has_a_report(chain: Path) -> None:
    with Recording.open(chain) as recording:
        events = [str(event.id) for event in recording.events()][::16]
        pods, containers = recording.pods(), recording.containers()
    subjects = [*(pod.id for pod in pods), *(container.id for container in containers)]
    for reference in (*events, *subjects):
        render_all_formats(chain, reference)
