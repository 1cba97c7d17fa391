# SPDX-License-Identifier: Apache-2.0
"""Each kind of finding is found where it is, in recordings by real parts, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.finding import Finding, FindingKind, Level
from nri_scope.report.limits import FINDINGS_OF_KIND_MAX
from nri_scope.share.extract import Selection, extract
from tests.replay.recordings import BUNDLED, RECORDING, ROOT, of_capture

from . import made

Make = Callable[[Path], Path]


def found(path: Path, what: str | None = None) -> tuple[Finding, ...]:
    with Recording.open(path) as recording:
        thing = None if what is None else lookup.find(recording, what)
        return collect(recording, thing).findings


NOT_CREATED = "CreateContainer was not followed by PostCreateContainer"
NEVER_RAN = "A container was stopped that never ran"


@pytest.mark.parametrize("name", list(BUNDLED))
def test_real_runtimes_stop_a_container_that_never_ran(name: str) -> None:
    # Its binary does not exist. All else in them is as it should be.
    (one,) = found(BUNDLED[name])
    assert (one.kind, one.level, one.title) == (FindingKind.ORDER, Level.NOTE, NEVER_RAN)
    assert one.containers == ("jobs/batch/broken",)
    assert one.events == (30,)


@pytest.mark.parametrize("name", list(BUNDLED))
@pytest.mark.parametrize("what", ["shop/web", "shop/web/app", "jobs/batch/job"])
def test_healthy_pods_of_real_runtimes_have_none(name: str, what: str) -> None:
    assert found(BUNDLED[name], what) == ()


@pytest.mark.parametrize("capture", ["containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37"])
def test_healthy_chains_of_real_runtimes_have_no_other(capture: str, tmp_path: Path) -> None:
    findings = found(of_capture(capture, tmp_path / "capture.nriscope.db"))
    # Its program does not exist: with CRI-O it is not created, with containerd not started.
    expected = [NOT_CREATED] if capture.startswith("cri-o") else [NEVER_RAN]
    assert [one.title for one in findings] == expected


SLOW = [(FindingKind.DEADLINE, Level.PROBLEM), (FindingKind.DISCONNECTED, Level.WARNING)]


@pytest.mark.parametrize("runtime", ["containerd-1.7", "containerd-2.1"])
@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        ("normal-life", []),
        ("restart", []),
        # No connection of ours was between the two: what it was only the runtime's log says.
        ("conflict", [(FindingKind.FAILED, Level.PROBLEM)]),
        ("slow-plugin", SLOW),
        ("untidy-order", [(FindingKind.ORDER, Level.NOTE)]),
    ],
)
def test_scenes_on_real_runtimes(
    runtime: str, scene: str, expected: list[tuple[FindingKind, Level]]
) -> None:
    findings = found(ROOT / "recordings" / f"{runtime}-{scene}.nriscope.zip")
    assert [(one.kind, one.level) for one in findings] == expected


def test_a_real_runtime_that_is_too_old_for_a_plugin_drops_what_it_does_not_know(
    tmp_path: Path,
) -> None:
    findings = found(of_capture("containerd-1.7.24", tmp_path / "capture.nriscope.db"))
    assert [(one.kind, one.title) for one in findings] == [
        (
            FindingKind.DROPPED,
            "/linux/resources/pids/limit, requested by 60-cpu-policy, was not applied",
        ),
        (FindingKind.DROPPED, "/process/oomScoreAdj, requested by 60-cpu-policy, was not applied"),
        (FindingKind.ORDER, NEVER_RAN),
    ]
    assert all("NRI 0.6.1 has no such field" in one.detail for one in findings[:2])


def test_plugins_at_peace_have_none(tmp_path: Path) -> None:
    assert found(made.healthy(tmp_path)) == ()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (made.near, [(FindingKind.DEADLINE, Level.WARNING)]),
        (
            made.late,
            [(FindingKind.DEADLINE, Level.PROBLEM), (FindingKind.DISCONNECTED, Level.PROBLEM)],
        ),
        (made.conflict, [(FindingKind.CONFLICT, Level.PROBLEM)]),
        (made.failed, [(FindingKind.FAILED, Level.PROBLEM)]),
        (made.dropped, [(FindingKind.DROPPED, Level.WARNING)]),
        (made.unified, [(FindingKind.UNIFIED, Level.WARNING), (FindingKind.ORDER, Level.NOTE)]),
        (made.twins, [(FindingKind.DUPLICATE, Level.PROBLEM)]),
        (made.missed, [(FindingKind.MISSED, Level.WARNING)]),
        (made.pod_first, [(FindingKind.ORDER, Level.NOTE)]),
        (made.repeated, [(FindingKind.ORDER, Level.NOTE)]),
        (made.same_index, [(FindingKind.ORDER, Level.NOTE)]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_kind_is_found_with_its_events(
    make: Make, expected: list[tuple[FindingKind, Level]], tmp_path: Path
) -> None:
    path = make(tmp_path)
    findings = found(path)
    if make is made.near:
        # A machine under load may have made it later than it should have been.
        assert {one.kind for one in findings} >= {FindingKind.DEADLINE}
    else:
        assert [(one.kind, one.level) for one in findings] == expected
    with Recording.open(path) as recording:
        for one in findings:
            assert one.events
            assert list(one.events) == sorted({*one.events})
            assert one.event_count >= len(one.events)
            assert one.advice
            assert all(recording.event(number) is not None for number in one.events)


def test_a_late_plugin_is_named_with_the_containers_that_went_on_without_it(
    tmp_path: Path,
) -> None:
    _, gone = found(made.late(tmp_path))
    assert gone.title == "10-stuck was disconnected, and containers were created without it"
    assert gone.containers == ("shop/web/first", "shop/web/second")
    assert "did not reply in time (CreateContainer" in gone.detail
    assert "2 containers were created without it" in gone.detail


def test_a_conflict_names_both_plugins_and_the_field(tmp_path: Path) -> None:
    (conflict,) = found(made.conflict(tmp_path))
    for word in ("10-one", "20-two", "MODE"):
        assert word in conflict.title


def test_a_field_that_was_dropped_comes_with_the_reason(tmp_path: Path) -> None:
    (dropped,) = found(made.dropped(tmp_path))
    assert (
        dropped.title
        == "/linux/resources/memory/reservation, requested by 10-reserving, was not applied"
    )
    assert "of all memory settings only the limit is applied" in dropped.detail
    assert dropped.containers == ("shop/web/first", "shop/web/second")


def test_unified_settings_are_no_finding_where_the_container_ran(tmp_path: Path) -> None:
    unified, _ = found(made.unified(tmp_path))
    # All four containers got them; one of them never started.
    assert unified.containers == ("jobs/batch/broken",)


def test_unified_settings_are_no_finding_on_cgroup_v2(tmp_path: Path) -> None:
    assert FindingKind.UNIFIED not in {one.kind for one in found(made.unified_on_v2(tmp_path))}


@pytest.mark.parametrize("pod", ["shop/web", "jobs/batch"])
@pytest.mark.parametrize("name", list(BUNDLED))
def test_a_part_of_a_recording_has_no_more_than_the_whole(
    name: str, pod: str, tmp_path: Path
) -> None:
    part = tmp_path / "part.nriscope.db"
    with Recording.open(BUNDLED[name]) as recording:
        extract(recording, part, Selection(pod=pod))
    assert {one.title for one in found(part)} <= {one.title for one in found(BUNDLED[name], pod)}


def test_a_part_by_time_has_none(tmp_path: Path) -> None:
    with Recording.open(RECORDING) as recording:
        events = list(recording.events())
        for first, last in ((6, 20), (10, 24), (12, 17)):
            part = tmp_path / f"{first}.nriscope.db"
            extract(
                recording,
                part,
                Selection(since_ns=events[first].at_ns, until_ns=events[last].at_ns),
            )
            assert found(part) == ()


def test_findings_are_of_the_container_that_was_asked_about(tmp_path: Path) -> None:
    path = made.dropped(tmp_path)
    (first,) = found(path, "shop/web/first")
    assert first.containers == ("shop/web/first",)
    assert len(first.events) == 1
    assert found(path, str(first.events[0]))[0].events == first.events
    assert len(found(path, "shop/web")[0].events) == 2


def test_a_container_without_trouble_has_none(tmp_path: Path) -> None:
    path = made.unified(tmp_path)
    assert found(path, "shop/web/app") == ()


def test_what_goes_backwards_is_named(tmp_path: Path) -> None:
    (order,) = found(made.backwards(tmp_path))
    assert order.title == "An event arrived after one that usually follows it"
    assert "PostStartContainer arrived after StopContainer." in order.detail


def test_a_silence_between_two_probes_as_long_as_a_deadline_is_a_plugin_that_is_gone(
    tmp_path: Path,
) -> None:
    late, gone = found(made.silence(tmp_path, 1.01))
    assert (late.kind, late.level) == (FindingKind.DEADLINE, Level.PROBLEM)
    assert late.title == (
        "Plugins at 01–49 (between 00-probe and 50-probe) took longer than one plugin's deadline"
    )
    assert (gone.kind, gone.level) == (FindingKind.DISCONNECTED, Level.WARNING)
    assert gone.title == "A plugin at 01–49 was probably disconnected"
    assert gone.containers == ("shop/web/first",)
    assert late.events == gone.events


def test_a_longer_silence_may_be_several_plugins_that_were_all_in_time(tmp_path: Path) -> None:
    (late,) = found(made.silence(tmp_path, 1.8))
    assert late.kind is FindingKind.DEADLINE


def test_creations_that_were_lost_are_no_creations_that_were_missed(tmp_path: Path) -> None:
    # The recording itself has a hole where the creation was: nothing is said of the plugin.
    assert found(made.missed(tmp_path)) != ()
    assert found(made.with_hole(tmp_path / "hole")) == ()


def test_a_plugin_that_leaves_in_good_order_with_all_others_is_no_finding(tmp_path: Path) -> None:
    assert found(made.restarted(tmp_path)) == ()


def test_a_plugin_that_validators_are_not_told_of_any_more_was_disconnected(
    tmp_path: Path,
) -> None:
    gone, order = found(made.left_the_chain(tmp_path))
    assert order.title == NEVER_RAN
    assert (gone.kind, gone.level) == (FindingKind.DISCONNECTED, Level.WARNING)
    assert gone.title.startswith("20-device-injector was disconnected")
    assert gone.containers


def test_many_findings_of_one_kind_are_counted(tmp_path: Path) -> None:
    findings = found(made.many_errors(tmp_path))
    assert len(findings) == FINDINGS_OF_KIND_MAX + 1
    assert findings[-1].title == "20 more findings of the kind failed"
