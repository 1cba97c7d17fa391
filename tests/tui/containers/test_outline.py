# SPDX-License-Identifier: Apache-2.0
"""The tree of pods, containers and events as lines by position."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.filter import parse
from nri_scope.recording.query.stats import summarise
from nri_scope.recording.reading.reader import Recording
from nri_scope.survey.survey import survey
from nri_scope.tui.containers.census import Census, Life
from nri_scope.tui.containers.census_board import SubjectFilter
from nri_scope.tui.containers.outline import Depth, Outline, TreeNode
from nri_scope.tui.containers.outline_lines import read
from tests.replay.recordings import RECORDING, ROOT
from tests.sample_names import API, CHECKOUT, EXPORTER, NIGHTLY, NODE, PROXY, REPORT, UPLOAD

Step = tuple[str, int, int]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "container", "fold", "unfold", "open", "close", "extend"]),
        st.integers(1, 4),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(_STEPS)
def test_positions_and_nodes_correspond_after_any_steps(steps: list[Step]) -> None:
    outline = Outline()
    pods: dict[int, list[int]] = {}
    folded: set[int] = set()
    opened: dict[int, list[int]] = {}
    next_key = next_event = 1
    for what, pod, number in steps:
        if what in ("pod", "container"):
            outline.add([(pod, 0)])
            pods.setdefault(pod, [])
        elif pod not in pods:
            continue
        if what == "container":
            outline.add([(pod, next_key)])
            pods[pod].append(next_key)
            next_key += 1
        elif what in ("fold", "unfold"):
            outline.set_folded(pod, what == "fold")
            (folded.add if what == "fold" else folded.discard)(pod)
        elif what in ("open", "close", "extend") and number < len(pods[pod]):
            key = pods[pod][number]
            events = list(range(next_event, next_event + number))
            next_event += number
            if what == "open":
                outline.open(TreeNode(pod, key), events)
                opened[key] = events
            elif what == "close":
                outline.close(TreeNode(pod, key))
                opened.pop(key, None)
            else:
                outline.extend(TreeNode(pod, key), events)
                if key in opened:
                    opened[key] += events
    expected: list[TreeNode] = []
    for pod in sorted(pods):
        expected.append(TreeNode(pod))
        for key in [] if pod in folded else sorted(pods[pod]):
            expected += [TreeNode(pod, key), *(TreeNode(pod, key, e) for e in opened.get(key, []))]
    assert [outline.node_at(at) for at in range(len(outline))] == expected
    assert [outline.position_of(node) for node in expected] == list(range(len(expected)))
    with pytest.raises(IndexError):
        outline.node_at(len(outline))


def test_folded_container_has_the_position_of_its_pod() -> None:
    outline = Outline()
    outline.add([(1, 0), (1, 1), (2, 0), (2, 2)])
    outline.set_folded(2, True)
    assert outline.position_of(TreeNode(2, 2)) == outline.position_of(TreeNode(2)) == 2
    assert outline.position_of(TreeNode(3)) is None and outline.position_of(TreeNode(1, 2)) is None


def test_positions_and_nodes_correspond_with_100_000_containers() -> None:
    outline = Outline()
    for pod in range(1, 50_001):
        outline.add([(pod, 0), (pod, 2 * pod), (pod, 2 * pod + 1)])
    assert len(outline) == 150_000
    for position in (0, 1, 75_000, 149_999):
        assert outline.position_of(outline.node_at(position)) == position


@pytest.fixture
def census() -> Census:
    found = Census()
    with Recording.open(RECORDING) as recording:
        while found.step(recording):
            pass
    return found


def lines(recording: Recording, census: Census, chosen: SubjectFilter) -> list[str]:
    while chosen.step(recording, census.scan.newest):
        pass
    outline = chosen.outline(census)
    nodes = [outline.node_at(at) for at in range(len(outline))]
    subjects = read(recording, census, nodes)
    return ["  " * node.level + subjects[node].name for node in nodes]


def test_pods_and_containers_are_in_order_of_appearance(census: Census) -> None:
    with Recording.open(RECORDING) as recording:
        assert lines(recording, census, SubjectFilter()) == [
            NODE,
            f"  {EXPORTER}",
            CHECKOUT,
            f"  {API}",
            f"  {PROXY}",
            NIGHTLY,
            f"  {REPORT}",
            f"  {UPLOAD}",
        ]


def test_narrowing_leaves_only_the_subject_and_its_relatives(census: Census) -> None:
    with Recording.open(RECORDING) as recording:
        app = next(one for one in recording.containers() if one.name == API)
        assert lines(recording, census, SubjectFilter(about=app)) == [CHECKOUT, f"  {API}"]
        assert app.pod is not None
        in_pod = lines(recording, census, SubjectFilter(about=app.pod))
        assert in_pod == [CHECKOUT, f"  {API}", f"  {PROXY}"]


def test_filter_leaves_only_subjects_with_matching_events(census: Census) -> None:
    with Recording.open(RECORDING) as recording:
        some = lines(recording, census, SubjectFilter(parse("event:UpdateContainer")))
        assert some == [CHECKOUT, f"  {API}"]
        assert lines(recording, census, SubjectFilter(parse("pod:nothing"))) == []


def test_container_without_events_has_its_state_from_synchronize(census: Census) -> None:
    with Recording.open(RECORDING) as recording:
        node = TreeNode(1, 1)
        subject = read(recording, census, [node])[node]
        assert node.level is Depth.CONTAINER and subject.name == EXPORTER
        assert subject.state(census.containers[1]) == "running"


def test_census_begins_anew_after_changes_were_attached(tmp_path: Path) -> None:
    path = ROOT / "recordings/containerd-2.1-slow-plugin.nriscope.zip"
    survey(path, tmp_path / "a.db")
    census = Census()

    def complete(reading: Recording) -> list[Life]:
        while census.step(reading) or census.scan.outdated:
            pass
        return [census.containers[key] for key in census.containers.keys]

    with Recording.open(path) as reading:
        before = complete(reading)
        reading.attach(tmp_path / "a.db")
        after = complete(reading)
    assert census.beginnings == 1
    assert after == before


@pytest.mark.parametrize(
    "path", sorted((ROOT / "recordings").glob("*.nriscope.*")), ids=lambda one: one.name
)
def test_events_of_pods_are_counted_as_in_stats(path: Path) -> None:
    with Recording.open(path) as recording:
        counts = Counter[tuple[str, str]]()
        census = Census()
        while census.step(recording):
            pass
        alone = {container.id for container in recording.containers() if container.is_alone}
        for pod in recording.pods():
            if pod.id not in alone:
                counts[pod.namespace, pod.name] += census.pods[pod.key].events
        stats = summarise(recording).stats
    by_pod = {(one.namespace, one.pod): one.count for one in stats.by_pod}
    if path.name.startswith("docker"):
        # There, a pod is only another message about a container.
        assert by_pod and not counts
    else:
        assert +counts == by_pod


def test_census_collects_counts_and_times(tmp_path: Path) -> None:
    from tests.replay.recordings import START_NS, container, life, recording, run_pod

    path = recording(tmp_path / "r.nriscope.db", [run_pod(), *life(container())])
    census = Census()
    with Recording.open(path) as reading:
        assert not census.step(reading)
        assert not census.step(reading)
    one = census.containers[1]
    assert (one.events, one.last_event) == (6, 9)
    assert one.creating_ns == START_NS + 3 * 10**9
    assert one.created_ns == START_NS + 4 * 10**9 and one.stage.name == "REMOVED"
    assert census.pods[1].events == 7
