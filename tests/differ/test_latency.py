# SPDX-License-Identifier: Apache-2.0
"""Latency of events in plugins."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.attribution.rounds import Rounds
from nri_scope.differ.latency import Latency, TimeIn, latency
from nri_scope.events import CapturedCall, Event, Role, Session
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.recording.made import START, a_session, an_event
from tests.recording.recordings import a_start, captured, record

US = 1_000
MS = 1_000_000
DEADLINE = 2_000 * MS
PROBES = ("00-probe-a", "50-probe-b", "95-probe-c")
PLUGINS = ("30-env-injector", "60-cpu-policy")


def connections(*plugins: str, role: Role = Role.PROBE) -> list[Session]:
    return [
        replace(a_session(number, -1, plugin=plugin), role=role)
        for number, plugin in enumerate(plugins, 1)
    ]


def a_visit(
    session: Session,
    at_ns: int,
    took_ns: int = 50 * US,
    *,
    event: str = "CreateContainer",
    container: str = "app",
    status_code: int = 0,
    timeout_ns: int = DEADLINE,
) -> Event:
    """Return an event ``at_ns`` after the start of the clock."""
    event_at_start = an_event(
        1,
        session=session.id,
        plugin=session.plugin,
        event=event,
        container_id=container,
        took_ns=took_ns,
        timeout_ns=timeout_ns,
        status_code=status_code,
    )
    return replace(event_at_start, at_ns=START + at_ns, mono_ns=at_ns)


def times(sessions: list[Session], *events: Event) -> dict[tuple[str, str] | str, TimeIn]:
    """Return the latencies, by the pair of connections or the plugin's name."""
    rounds, found = Rounds.of(sessions), Latency()
    for one in [*map(rounds.feed, events), rounds.flush()]:
        if one is not None:
            found.feed(one)
    return {(one.after, one.before) if one.after else str(one.owner): one for one in found.result()}


def test_time_between_two_connections_is_from_reply_to_next_request() -> None:
    first, second = probes = connections("00-a", "50-b")
    found = times(probes, a_visit(first, 0, 50 * US), a_visit(second, 350 * US, 70 * US))
    (entry,) = found.values()
    assert (entry.after, entry.before, entry.owner.index) == ("00-a", "50-b", "01–49")
    assert (entry.count, entry.took.p50, entry.took.max) == (1, 300 * US, 300 * US)
    assert (entry.deadline_ms, entry.over_half, entry.over) == (2000, 0, 0)


def test_times_near_and_over_the_deadline_are_counted() -> None:
    first, second = probes = connections("00-a", "50-b")
    events = []
    for number, spent in enumerate((DEADLINE // 2, DEADLINE // 2 + 1, DEADLINE, DEADLINE + 1)):
        begin = number * 10_000 * MS
        one = str(number)
        events.append(a_visit(first, begin, 50 * US, container=one))
        events.append(a_visit(second, begin + 50 * US + spent, container=one))
    (entry,) = times(probes, *events).values()
    assert (entry.count, entry.over_half, entry.over) == (4, 3, 1)


def test_an_event_missed_by_a_connection_is_counted_for_the_outer_pair() -> None:
    first, _, third = probes = connections("00-a", "50-b", "90-c")
    events = [a_visit(each, n * MS) for n, each in enumerate(probes)]
    events.append(a_visit(first, 10 * MS, container="another"))
    events.append(a_visit(third, 15 * MS, container="another"))
    found = times(probes, *events)
    assert {pair: entry.count for pair, entry in found.items()} == {
        ("00-a", "50-b"): 1,
        ("50-b", "90-c"): 1,
        ("00-a", "90-c"): 1,
    }
    assert found["00-a", "90-c"].took.max == 5 * MS - 50 * US


def test_time_after_a_late_reply_is_not_counted() -> None:
    # The runtime did not wait for the late plugin.
    first, second = probes = connections("00-a", "50-b")
    late = a_visit(first, 0, DEADLINE + MS, status_code=4)
    assert times(probes, late, a_visit(second, DEADLINE + MS // 2)) == {}


def test_an_observed_plugin_has_its_own_time() -> None:
    (plugin,) = plugins = connections("30-injector", role=Role.TAP)
    found = times(
        plugins,
        a_visit(plugin, 0, 5 * MS),
        a_visit(plugin, 10_000 * MS, DEADLINE + MS, status_code=4),
    )
    entry = found["30-injector"]
    assert (entry.after, entry.before, entry.count) == ("", "", 2)
    assert (entry.took.p50, entry.took.max) == (5 * MS, DEADLINE + MS)
    assert (entry.over_half, entry.over) == (1, 1)


def test_own_connections_are_not_plugins() -> None:
    for role in (Role.LOGGER, Role.PROBE):
        (probe,) = probes = connections("00-a", role=role)
        assert times(probes, a_visit(probe, 0)) == {}


def test_replayed_plugins_have_no_time_between_them() -> None:
    first, second = plugins = connections("10-a", "20-b", role=Role.REPLAY)
    found = times(plugins, a_visit(first, 0), a_visit(second, MS))
    assert list(found) == ["10-a", "20-b"]


@pytest.mark.parametrize("name", ["Configure", "Synchronize", "UpdateContainers"])
def test_events_outside_the_chain_are_not_counted(name: str) -> None:
    (plugin,) = plugins = connections("30-injector", role=Role.TAP)
    assert times(plugins, a_visit(plugin, 0, event=name)) == {}


def test_without_a_deadline_none_is_reported() -> None:
    probes = connections("00-a", "50-b")
    visits = [a_visit(each, n * MS, timeout_ns=0) for n, each in enumerate(probes)]
    (entry,) = times(probes, *visits).values()
    assert (entry.deadline_ms, entry.over_half, entry.over) == (None, 0, 0)


def test_results_are_in_call_order() -> None:
    probes = connections("00-a", "50-b")
    plugins = [
        replace(a_session(number, -1, plugin=plugin), role=Role.TAP)
        for number, plugin in ((3, "30-x"), (4, "60-y"))
    ]
    chain = sorted([*probes, *plugins], key=lambda session: session.plugin)
    assert list(times(chain, *(a_visit(each, n * MS) for n, each in enumerate(chain)))) == [
        ("00-a", "30-x"),
        "30-x",
        ("30-x", "50-b"),
        ("50-b", "60-y"),
        "60-y",
    ]


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), min_size=1, max_size=8))
def test_parts_add_up_to_the_time_between_first_and_last_connection(
    parts: list[tuple[int, int]],
) -> None:
    probes = connections(*(f"{10 * number:02}-p" for number in range(len(parts))))
    events, now = [], 0
    for session, (pause, took) in zip(probes, parts, strict=True):
        now += pause
        events.append(a_visit(session, now, took))
        now += took
    found = times(probes, *events)
    # The probes' own time is in no part.
    ours = sum(event.took_ns for event in events[:-1])
    passed = events[-1].mono_ns - events[0].mono_ns
    assert sum(entry.took.max for entry in found.values()) + ours == passed


# -- recordings -------------------------------------------------------------------------------


def recorded(path: Path, *plugins: str, capture: str = "containerd-2.1.9") -> dict[str, TimeIn]:
    with Recording.open(record(path / "x.nriscope.db", *plugins, capture=capture)) as recording:
        return {f"{one.after} {one.before}": one for one in latency(recording)}


@pytest.mark.parametrize(
    "capture", ["containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37"]
)
def test_latencies_between_probes_of_a_real_chain(capture: str, tmp_path: Path) -> None:
    found = recorded(tmp_path, *PROBES, capture=capture)
    # Independently: each probe gets every event, so the n-th ones belong together.
    seen: dict[str, list[CapturedCall]] = {}
    for plugin, item in captured(capture):
        if item.method not in ("Synchronize", "ValidateContainerAdjustment"):
            seen.setdefault(plugin, []).append(item)
    assert list(found) == [f"{after} {before}" for after, before in pairwise(PROBES)]
    for after, before in pairwise(PROBES):
        passed = [
            theirs.mono_ns - ours.mono_ns - ours.took_ns
            for ours, theirs in zip(seen[after], seen[before], strict=True)
        ]
        entry = found[f"{after} {before}"]
        assert entry.count == len(passed)
        assert (entry.took.p50, entry.took.max) == (median_low(passed), max(passed))
        assert (entry.deadline_ms, entry.over) == (2000, 0)


def test_latencies_of_a_real_chain_with_tapped_plugins(tmp_path: Path) -> None:
    found = recorded(tmp_path, *PROBES, *PLUGINS)
    # The injector asked for creations only, so only these pass between it and the others.
    assert found["00-probe-a 30-env-injector"].count == 4
    assert found["30-env-injector 50-probe-b"].count == 4
    assert found["00-probe-a 50-probe-b"].owner.index == "01–49"


def test_one_passive_connection_has_no_latencies(tmp_path: Path) -> None:
    assert recorded(tmp_path, "00-probe-a") == {}


def test_consecutive_connections_are_not_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    like = next(item for _, item in captured() if item.method != "Synchronize")
    recorder = Recorder.open(path)
    for number, plugin in enumerate(("00-a", "50-b")):
        begin = START + number * 10_000 * MS
        session = recorder.begin_session(a_start(plugin, begin))
        recorder.capture(session, like._replace(wall_ns=begin + MS, mono_ns=begin + MS))
        recorder.end_session(session, "closed", begin + 2 * MS)
    recorder.close()
    with Recording.open(path) as recording:
        assert latency(recording) == ()


def test_a_later_run_with_another_clock_adds_no_time_between_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.nriscope.db"
    like = next(item for _, item in captured() if item.method != "Synchronize")
    recorder = Recorder.open(path)
    # The host was restarted: the second run's clock begins at 0.
    for begin, clock in ((START, 10**15), (START + 10**13, 0)):
        sessions = [recorder.begin_session(a_start(plugin, begin)) for plugin in ("00-a", "50-b")]
        for number, session in enumerate(sessions, 1):
            recorder.capture(
                session,
                like._replace(
                    wall_ns=begin + number * MS, mono_ns=clock + number * MS, took_ns=50 * US
                ),
            )
        for session in sessions:
            recorder.end_session(session, "closed", begin + 10 * MS)
    recorder.close()
    with Recording.open(path) as recording:
        (entry,) = latency(recording)
    assert (entry.count, entry.took.p50, entry.took.max) == (2, MS - 50 * US, MS - 50 * US)
