# SPDX-License-Identifier: Apache-2.0
"""Filters on a real recording: SQL and Python select the same events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri_scope.filter import parse
from nri_scope.recording.reading.reader import Recording
from tests.recording.recordings import record


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("filter") / "x.nriscope.db"
    record(path, "00-probe-a", "30-env-injector", "50-probe-b", capture="containerd-2.4-beta")
    with Recording.open(path) as recording:
        yield recording


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 75),
        ("event:createcontainer", 12),
        ("event:*Container -event:~^(Create|Stop)", None),
        ("plugin:00-probe-a", 35),
        ("plugin:env-injector", 5),
        ("index:30", 5),
        ("index:<50", 40),
        ("pod:web ns:shop", None),
        ("ns:sh* OR container:job", None),
        ('container:""', None),
        ('pod:""', 3),
        ("probe", 70),
        ("runtime:CONTAINERD", 75),
        ("session:2", None),
        ("status:ok", 75),
        ("-status:ok", 0),
        ("took:>100us", None),
        ("took:<=50 OR size:>4k", None),
        ("changed:/process/env", 12),
        ("changed:/process/env/FOO", None),
        ("changed:*", 12),
        ("changed:~nri-null", None),
        ("owner:20-device-injector", 2),
        ("owner:cpu-policy -pod:web", None),
    ],
)
def test_sql_and_python_agree_on_a_recording(
    recording: Recording, text: str, count: int | None
) -> None:
    where = parse(text)
    found = [event.id for event in recording.events(where=where)]
    assert found == [event.id for event in recording.events() if where.matches(event)]
    assert len(found) == count if count is not None else 0 < len(found) < 75


def test_id_matches_by_prefix(recording: Recording) -> None:
    event = next(event for event in recording.events() if event.container == "app")
    found = list(recording.events(where=parse(f"id:{event.container_id[:10]}")))
    assert {entry.container for entry in found} == {"app"}
    assert event in found
