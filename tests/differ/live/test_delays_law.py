# SPDX-License-Identifier: Apache-2.0
"""With any delays and read times, live output matches the finished recording."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from tests.amount import amount
from tests.in_memory import MEMORY

from .delayed import DEADLINE_NS, MS, OFFSET_NS, Delayed, Truth
from .playing import Playing


@settings(max_examples=amount(100, 25), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_one_creation_is_one_round_whatever_the_delays(data: st.DataObject) -> None:
    node = Delayed(data.draw)
    node.live()
    found, afterwards = _live(node, data.draw)
    again = _after_failed_updates(afterwards)
    live_fields, fields = (
        [_stable_fields(one)[: -1 if one.event in again else None] for one in some]
        for some in (found, afterwards)
    )
    assert live_fields == fields
    failed = {_key(truth) for truth in node.truths if truth.failed}
    for live, whole in zip(found, afterwards, strict=True):
        # The finished recording may show more failures, and only real ones.
        assert whole.failure or not live.failure
        assert not whole.failure or (whole.name, whole.container) in failed
    created = Counter(one.container for one in found if one.name == "CreateContainer")
    assert created == {
        one.container: 1 for one in node.truths if one.event == "CreateContainer" and one.seen_by
    }
    # A loss can split an update; if it failed, both parts have the request.
    changes = Counter(
        (step.container, step.change.path) for one in found if not one.failure for step in one.steps
    )
    for number, truth in enumerate(node.truths):
        if truth.event != "CreateContainer" or not created[truth.container]:
            continue
        (told,) = (one for one in found if (one.name, one.container) == _key(truth))
        # An unobserved failure is not claimed.
        assert truth.failed or not told.failure
        if truth.failed:
            # The end of a connection that missed the event may not be known yet.
            said = told.failure or "the chain seems to have ended" in told.doubt
            assert said or not _is_failure_observable(node, number)
            continue
        env = {path: count for (one, path), count in changes.items() if one == truth.container}
        assert {path for path in env if path.startswith("/process/env/")} <= truth.changed
        assert set(env.values()) <= {1}


def _after_failed_updates(found: Iterable[RoundDiff]) -> set[int]:
    """Return the updates of containers after a failed one.

    Until its failure is known, a later request for the same value seems to change nothing.
    """
    failed: set[str] = set()
    again: set[int] = set()
    for one in found:
        if one.name == "UpdateContainer":
            again |= {one.event} if one.container in failed else set()
            failed |= {one.container} if one.failure else set()
    return again


def _stable_fields(one: RoundDiff) -> tuple[object, ...]:
    """Return the fields of a round that later events do not change."""
    steps = [(step.container, step.change, step.owner, step.event) for step in one.steps]
    return one.events, one.name, one.seen_by, one.missed_by, one.chain, one.spans, steps


def _key(truth: Truth) -> tuple[str, str]:
    return truth.event, truth.container


def _is_failure_observable(node: Delayed, number: int) -> bool:
    """Return whether later events show that the failed one skipped a present connection."""
    if node.probes_vary:
        return False
    before, truth, after = node.truths[:number], node.truths[number], node.truths[number + 1 :]
    asked = {session for one in before for session in one.seen_by}
    return any(one.seen_by for one in after) and not asked.issubset(truth.seen_by)


def _live(
    node: Delayed, draw: Callable[[st.SearchStrategy[int]], int]
) -> tuple[list[RoundDiff], list[RoundDiff]]:
    """Return the rounds read live at random times, and those of the finished recording."""
    found: list[RoundDiff] = []
    times = [at_ns for at_ns, _ in node.entries]
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Playing(Path(folder) / "a.nriscope.db", node.entries, wall_minus_mono_ns=OFFSET_NS) as one,
    ):
        place = 0
        while place < len(times):
            place += draw(st.integers(1, 5))
            at_ns = times[min(place, len(times)) - 1]
            found += one.until(at_ns + draw(st.sampled_from([0, MS, 2 * DEADLINE_NS])))
        found += one.until(times[-1] + 10 * DEADLINE_NS)
        found += one.end()
        whole, alone = one.failures()
        assert whole == alone
        afterwards = one.afterwards()
        assert _changing_rounds(one.excerpts()) == _changing_rounds(afterwards)
        return found, afterwards


def _changing_rounds(found: Iterable[RoundDiff]) -> list[tuple[object, ...]]:
    """Return the compared fields of rounds in which plugins can change values, in order."""
    found = [one for one in found if one.name in ("CreateContainer", "UpdateContainer")]
    found.sort(key=lambda one: one.event)
    return [(*_stable_fields(one), one.failure, one.doubt, one.remarks) for one in found]
