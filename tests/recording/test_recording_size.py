# SPDX-License-Identifier: Apache-2.0
"""Size of a recording compared with the messages on the wire; benchmarks/ has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.traffic import CAPTURES, captured, repeated
from nri_scope.events import CapturedCall
from tests.recording.traffic import RUNTIMES, an_item, lifecycles, record

pytestmark = pytest.mark.beyond_core


def _ratio(path: Path, items: list[CapturedCall]) -> float:
    record(path, items)
    empty = path.with_name("empty.db")
    record(empty, [])
    # Every recording has the same eighty kilobytes of empty tables and indexes.
    return (path.stat().st_size - empty.stat().st_size) / sum(len(item.request) for item in items)


def test_lifecycles_of_similar_pods_shrink_to_a_tenth(tmp_path: Path) -> None:
    assert _ratio(tmp_path / "r.db", lifecycles(200)) < 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_traffic_of_a_real_runtime_shrinks_to_a_quarter(tmp_path: Path, runtime: str) -> None:
    stream = captured(CAPTURES / f"{runtime}.jsonl.gz", "00-probe-a")
    items = [
        an_item(method, message, wall_ns=number * 10**8)
        for number, (method, message) in enumerate(repeated(stream, 600))
    ]
    assert _ratio(tmp_path / "r.db", items) < 0.25
