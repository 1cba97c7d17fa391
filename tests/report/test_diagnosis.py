# SPDX-License-Identifier: Apache-2.0
"""Each kind of finding is reported for the recordings that have it, and for no others."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.queue import TOO_FAST
from nri_scope.differ.recording_differ import rounds
from nri_scope.events import LEFT_OUT, RING_REMOVED, Role
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import lookup
from nri_scope.recording.query.coverage import coverage
from nri_scope.recording.reading import work_budget
from nri_scope.recording.reading.reader import Recording
from nri_scope.report import diagnosis
from nri_scope.report.collect import collect
from nri_scope.report.diagnosis.recording_facts import STOPPED, Detector, RecordingFacts
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Finding, FindingKind, Level
from nri_scope.report.limits import FINDINGS_OF_KIND_MAX
from nri_scope.report.report_data import Diagnosed
from nri_scope.share.extract import Selection, extract
from tests.amount import amount, sampled
from tests.differ.node import Node
from tests.recording.observed_times import observed
from tests.recording.recordings import FOLDER, captured, record
from tests.recording.traffic import NOW, a_start, an_item
from tests.replay.recordings import BUNDLED, RECORDING, ROOT, of_capture
from tests.sample_names import CHECKOUT, CHECKOUT_API, NIGHTLY, NIGHTLY_REPORT, NIGHTLY_UPLOAD

from . import problem_recordings

Make = Callable[[Path], Path]
CAPTURES = sorted(one.name.removesuffix(".jsonl.gz") for one in FOLDER.glob("*.jsonl.gz"))


def found(path: Path, reference: str | None = None) -> tuple[Finding, ...]:
    with Recording.open(path) as recording:
        subject = None if reference is None else lookup.find(recording, reference)
        everything = collect(recording, subject)
        # `report --diagnose` reads less.
        findings = diagnose(recording, subject)
        assert findings == Diagnosed(
            **{field.name: getattr(everything, field.name) for field in fields(Diagnosed)}
        )
        return findings.findings


NOT_CREATED = "CreateContainer was not followed by PostCreateContainer"
NOT_STARTED = "A container failed to start"
REPLACED = "cpu.shares, set by 60-cpu-policy, was replaced by a CRI request"
NEVER_RAN = "A container was stopped that never ran"


def without_subclasses(kind: type[Any]) -> set[type[Any]]:
    return {last for one in kind.__subclasses__() for last in without_subclasses(one)} or {kind}


def test_every_detector_runs() -> None:
    for module in iter_modules(diagnosis.__path__, f"{diagnosis.__name__}."):
        import_module(module.name)
    facts = RecordingFacts()
    parts = diagnosis.Diagnosis(facts, lambda _: None)._parts
    assert {type(part) for part in parts} == without_subclasses(Detector)


@pytest.mark.parametrize("name", list(BUNDLED))
def test_real_runtimes_stop_a_container_that_never_ran(name: str) -> None:
    # The binary of the container upload does not exist; everything else is healthy.
    (one,) = found(BUNDLED[name])
    assert (one.kind, one.level, one.title) == (FindingKind.ORDER, Level.NOTE, NEVER_RAN)
    assert one.containers == (NIGHTLY_UPLOAD,)
    assert one.events == (30,)


@pytest.mark.parametrize("name", list(BUNDLED))
@pytest.mark.parametrize("what", [CHECKOUT, CHECKOUT_API, NIGHTLY_REPORT])
def test_healthy_pods_of_real_runtimes_have_no_findings(name: str, what: str) -> None:
    assert found(BUNDLED[name], what) == ()


@pytest.mark.parametrize("capture", ["containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37"])
def test_healthy_chains_of_real_runtimes_have_no_other_findings(
    capture: str, tmp_path: Path
) -> None:
    findings = found(of_capture(capture, tmp_path / "capture.nriscope.db"))
    # The program does not exist: CRI-O does not create the container, containerd does not start it.
    expected = [REPLACED, NEVER_RAN]
    if capture.startswith("cri-o"):
        expected = [NOT_CREATED, REPLACED]
    assert [finding.title for finding in findings] == expected


def test_no_container_of_isulad_is_unknown(tmp_path: Path) -> None:
    # It gets its id after CreateContainer; iSulad sends no StopContainer for a removed container.
    failed, finding = found(of_capture("isulad", tmp_path / "capture.nriscope.db"))
    # The program does not exist.
    assert (failed.title, failed.containers) == (NOT_STARTED, ("jobs/batch/broken",))
    assert failed.detail.startswith("StopPodSandbox followed instead of PostStartContainer")
    assert finding.title == "A container was removed without having been stopped"
    assert finding.containers == ("jobs/batch/job",)


SLOW = [(FindingKind.DEADLINE, Level.PROBLEM), (FindingKind.DISCONNECTED, Level.WARNING)]


@pytest.mark.parametrize("runtime", ["containerd-1.7", "containerd-2.1"])
@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        # The resize replaces the shares that a plugin set.
        ("normal-life", [(FindingKind.REPLACED, Level.NOTE)]),
        ("restart", []),
        # No probe was between the two plugins: only the runtime's log names the conflict.
        ("conflict", [(FindingKind.FAILED, Level.PROBLEM)]),
        ("slow-plugin", SLOW),
        ("untidy-order", [(FindingKind.ORDER, Level.NOTE)]),
    ],
)
def test_scenes_on_real_runtimes(
    runtime: str, scene: str, expected: list[tuple[FindingKind, Level]]
) -> None:
    findings = found(ROOT / "recordings" / f"{runtime}-{scene}.nriscope.zip")
    assert [(finding.kind, finding.level) for finding in findings] == expected


def test_fields_dropped_by_a_real_runtime_too_old_for_a_plugin_are_findings(
    tmp_path: Path,
) -> None:
    findings = found(of_capture("containerd-1.7.24", tmp_path / "capture.nriscope.db"))
    assert [(finding.kind, finding.title) for finding in findings] == [
        (
            FindingKind.DROPPED,
            "pids.limit, requested by 60-cpu-policy, was dropped",
        ),
        (FindingKind.DROPPED, "process.oomScoreAdj, requested by 60-cpu-policy, was dropped"),
        (FindingKind.REPLACED, REPLACED),
        (FindingKind.ORDER, NEVER_RAN),
    ]
    assert all("NRI 0.6.1 has no such field" in finding.detail for finding in findings[:2])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("policy", "expected", "consequence"),
    [
        ("", ["deadline", "disconnected"], "disconnects the plugin, and continues without it."),
        ("fail_request", ["deadline", "disconnected", "failed"],
         "disconnects the plugin, and fails the request (failure policy fail_request)."),
        ("keep_connected", ["deadline"],
         "keeps the plugin connected, and continues without it (failure policy keep_connected)."),
        ("fail_request,keep_connected", ["deadline", "failed"],
         "keeps the plugin connected, and fails the request (failure policy "
         "fail_request,keep_connected)."),
    ],
)  # fmt: skip
def test_a_failure_policy_explains_a_failed_creation(
    policy: str, expected: list[str], consequence: str, tmp_path: Path
) -> None:
    path = problem_recordings.late_with_policy(tmp_path, policy)
    findings = found(path)
    assert [finding.kind for finding in findings] == expected
    assert findings[0].detail.endswith(consequence)
    if "failed" not in expected:
        return
    failed = findings[-1]
    reason = (
        f"10-stuck did not answer in time, which fails the request by its failure policy ({policy})"
    )
    assert failed.title == f"CreateContainer failed: {reason}"
    assert failed.containers == ("shop/web/first",)
    with Recording.open(path) as recording:
        assert [str(session.failure_policy) for session in recording.sessions()] == [policy, ""]
        # The other surfaces say the same.
        failures = {one.failure for one in rounds(recording)}
    assert failures == {"", reason}
    part = tmp_path / "part.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, part, Selection())
    assert found(part)[-1] == failed


def test_a_failure_policy_explains_a_creation_that_failed_by_a_crash(tmp_path: Path) -> None:
    (gone, failed) = found(
        problem_recordings.late_with_policy(tmp_path, "fail_request", crash=True)
    )
    assert (gone.kind, gone.containers) == ("disconnected", ("shop/web/second",))
    assert failed.title == (
        "CreateContainer failed: 10-stuck did not answer (closed by the peer), which fails the "
        "request by its failure policy (fail_request)"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        ("", "After one late reply the runtime fails the creation, and disconnects the plugin."),
        (
            "keep_connected",
            "After each late reply the runtime fails the creation, and keeps the plugin connected "
            "(failure policy keep_connected).",
        ),
        (
            "fail_request",
            "After one late reply the runtime fails the creation, and disconnects the plugin.",
        ),
        (
            None,
            "Each late reply fails the creation. Whether the runtime then disconnects the plugin "
            "is unknown: its failure policy is not in the recording.",
        ),
    ],
)
def test_a_late_validator_fails_the_creation_with_any_failure_policy(
    policy: str | None, effect: str, tmp_path: Path
) -> None:
    path = problem_recordings.late_with_policy(
        tmp_path, policy or "", method="ValidateContainerAdjustment"
    )
    if policy is None:
        remove_configure(path)
    findings = {one.kind: one for one in found(path)}
    assert findings[FindingKind.DEADLINE].detail.endswith(f" of 2.00s. {effect}")
    assert (FindingKind.DISCONNECTED in findings) == (policy != "keep_connected")
    reason = "10-stuck did not answer in time, which fails the creation"
    failed = findings[FindingKind.FAILED]
    assert failed.title == f"CreateContainer failed: {reason}"
    assert failed.detail == "A validator that does not answer fails the creation."
    with Recording.open(path) as recording:
        assert {one.failure for one in rounds(recording)} == {"", reason}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("policy", "observed"),
    [
        ("", r"The container was created\. Whether the runtime then disconnects the plugin is "
         r"unknown: its failure policy is not in the recording\."),
        ("fail_request,keep_connected",
         r"The connection stayed open: event \d+ came later; the creation failed\."),
    ],
)  # fmt: skip
def test_a_failure_policy_that_is_not_in_the_recording_is_unknown_beyond_what_was_observed(
    policy: str, observed: str, tmp_path: Path
) -> None:
    path = problem_recordings.late_with_policy(tmp_path, policy)
    remove_configure(path)
    with Recording.open(path) as recording:
        assert [session.failure_policy for session in recording.sessions()] == [None, None]
    slow = found(path)[0]
    assert re.search(rf" of 2\.00s\. {observed}$", slow.detail)


def remove_configure(path: Path) -> None:
    """Leave the events that `record --where` with another event or `--max-size` may leave."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "DELETE FROM event WHERE method = (SELECT id FROM name WHERE text = 'Configure')"
        )


def test_plugins_without_conflict_have_no_findings(tmp_path: Path) -> None:
    assert found(problem_recordings.healthy(tmp_path)) == ()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (problem_recordings.near, [(FindingKind.DEADLINE, Level.WARNING)]),
        (
            problem_recordings.late,
            [(FindingKind.DEADLINE, Level.PROBLEM), (FindingKind.DISCONNECTED, Level.PROBLEM)],
        ),
        (problem_recordings.conflict, [(FindingKind.CONFLICT, Level.PROBLEM)]),
        (problem_recordings.failed, [(FindingKind.FAILED, Level.PROBLEM)]),
        (problem_recordings.dropped, [(FindingKind.DROPPED, Level.WARNING)]),
        (
            problem_recordings.unified,
            [(FindingKind.ORDER, Level.NOTE)],
        ),
        (problem_recordings.twins, [(FindingKind.DUPLICATE, Level.PROBLEM)]),
        (problem_recordings.missed, [(FindingKind.MISSED, Level.WARNING)]),
        (problem_recordings.pod_first, [(FindingKind.ORDER, Level.NOTE)]),
        (problem_recordings.repeated, [(FindingKind.ORDER, Level.NOTE)]),
        (problem_recordings.same_index, [(FindingKind.ORDER, Level.NOTE)]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_kind_is_found_with_its_events(
    make: Make, expected: list[tuple[FindingKind, Level]], tmp_path: Path
) -> None:
    path = make(tmp_path)
    findings = found(path)
    if make is problem_recordings.near:
        # Under load the plugin may be even later.
        assert {finding.kind for finding in findings} >= {FindingKind.DEADLINE}
    else:
        assert [(finding.kind, finding.level) for finding in findings] == expected
    with Recording.open(path) as recording:
        for finding in findings:
            assert finding.events
            assert list(finding.events) == sorted({*finding.events})
            assert finding.event_count >= len(finding.events)
            assert finding.advice
            assert all(recording.event(number) is not None for number in finding.events)


def test_a_late_plugin_is_named_with_the_containers_created_without_it(
    tmp_path: Path,
) -> None:
    _, disconnected = found(problem_recordings.late(tmp_path))
    assert disconnected.title == "10-stuck was disconnected, and containers were created without it"
    assert disconnected.containers == ("shop/web/first", "shop/web/second")
    assert "did not reply in time (CreateContainer" in disconnected.detail
    # The runtime undid the creation of the first one.
    assert "1 container was created without it" in disconnected.detail
    assert "It missed 1 more creation of containers" in disconnected.detail


def test_a_conflict_names_both_plugins_and_the_field(tmp_path: Path) -> None:
    (conflict,) = found(problem_recordings.conflict(tmp_path))
    for word in ("10-one", "20-two", "MODE"):
        assert word in conflict.title
    # They are listed elsewhere, so they exist.
    assert conflict.detail.endswith("the changes that plugins made in it are not applied.")


def test_a_dropped_field_has_the_reason(tmp_path: Path) -> None:
    (dropped,) = found(problem_recordings.dropped(tmp_path))
    assert dropped.title == "memory.reservation, requested by 10-reserving, was dropped"
    assert "of all memory settings only the limit is applied" in dropped.detail
    assert dropped.containers == ("shop/web/first", "shop/web/second")


@pytest.mark.parametrize("pod", [CHECKOUT, NIGHTLY])
@pytest.mark.parametrize("name", list(BUNDLED))
def test_an_extract_of_a_pod_has_no_additional_findings(
    name: str, pod: str, tmp_path: Path
) -> None:
    part = tmp_path / "part.nriscope.db"
    with Recording.open(BUNDLED[name]) as recording:
        extract(recording, part, Selection(pod=pod))
    assert {one.title for one in found(part)} <= {one.title for one in found(BUNDLED[name], pod)}


def test_an_extract_by_time_has_no_findings(tmp_path: Path) -> None:
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


def test_findings_are_limited_to_the_selected_subject(tmp_path: Path) -> None:
    path = problem_recordings.dropped(tmp_path)
    (first,) = found(path, "shop/web/first")
    assert first.containers == ("shop/web/first",)
    assert len(first.events) == 1
    assert found(path, str(first.events[0]))[0].events == first.events
    assert len(found(path, "shop/web")[0].events) == 2


@pytest.mark.parametrize(
    "path", sorted(RECORDING.parent.glob("*.nriscope.*")), ids=lambda one: one.name
)
def test_only_containers_of_a_pod_were_slow_to_create_or_lack_a_plugin(path: Path) -> None:
    # A plugin may update them in its reply to the creation of a container of another pod.
    with Recording.open(path) as recording:
        events = [one for one in recording.events() if one.pod and not one.is_alone]
        pod_of = {one.id: f"{one.namespace}/{one.pod}" for one in events}
    for pod in set(pod_of.values()):
        for finding in found(path, pod):
            if finding.kind in (FindingKind.DEADLINE, FindingKind.DISCONNECTED):
                assert {pod_of[event] for event in finding.events} == {pod}
                assert all(container.startswith(f"{pod}/") for container in finding.containers)


def test_a_healthy_container_has_no_findings(tmp_path: Path) -> None:
    path = problem_recordings.unified(tmp_path)
    assert found(path, CHECKOUT_API) == ()


def test_an_event_in_the_wrong_order_is_named(tmp_path: Path) -> None:
    (order,) = found(problem_recordings.backwards(tmp_path))
    assert order.title == "An event arrived after one that usually follows it"
    assert "PostStartContainer arrived after StopContainer." in order.detail


def test_a_pause_as_long_as_a_deadline_between_two_probes_is_a_disconnected_plugin(
    tmp_path: Path,
) -> None:
    late, disconnected = found(problem_recordings.silence(tmp_path, 1.01))
    assert (late.kind, late.level) == (FindingKind.DEADLINE, Level.PROBLEM)
    assert late.title == (
        "Plugins at 01–49 (between 00-probe and 50-probe) took longer than one plugin's deadline"
    )
    assert (disconnected.kind, disconnected.level) == (FindingKind.DISCONNECTED, Level.WARNING)
    assert disconnected.title == "A plugin at 01–49 was probably disconnected"
    assert disconnected.containers == ("shop/web/first",)
    assert late.events == disconnected.events


def test_a_longer_pause_may_be_several_plugins_within_their_deadlines(tmp_path: Path) -> None:
    (late,) = found(problem_recordings.silence(tmp_path, 1.8))
    assert late.kind is FindingKind.DEADLINE


def test_creations_missing_from_the_recording_are_no_missed_creations(tmp_path: Path) -> None:
    # The creation is missing from the recording itself, so the plugin has no finding.
    assert found(problem_recordings.missed(tmp_path)) != ()
    assert found(problem_recordings.with_hole(tmp_path / "hole")) == ()


def test_a_restart_of_the_runtime_is_no_finding(tmp_path: Path) -> None:
    assert found(problem_recordings.restarted(tmp_path)) == ()


def test_a_plugin_that_was_never_registered_was_not_disconnected(tmp_path: Path) -> None:
    assert found(problem_recordings.unregistered(tmp_path)) == ()


def test_a_plugin_no_longer_listed_for_validators_was_disconnected(
    tmp_path: Path,
) -> None:
    disconnected, _, order = found(problem_recordings.left_the_chain(tmp_path))
    assert order.title == NEVER_RAN
    assert (disconnected.kind, disconnected.level) == (FindingKind.DISCONNECTED, Level.WARNING)
    assert disconnected.title.startswith("20-device-injector was disconnected")
    assert disconnected.containers


def test_many_findings_of_one_kind_are_counted(tmp_path: Path) -> None:
    findings = found(problem_recordings.many_errors(tmp_path))
    assert len(findings) == FINDINGS_OF_KIND_MAX + 1
    assert findings[-1].title == "20 more findings of the kind failed"


def test_findings_of_passive_connections_are_those_of_all_messages(tmp_path: Path) -> None:
    compared = 0
    # In 31 and 36, NRI does not pass on a plugin's removal of the runtime's own value.
    for seed in (*range(amount(30, 8)), 31, 36):
        node = Node(seed, tmp_path / f"{seed}.nriscope.db")
        node.play()
        with Recording.open(node.path) as recording:
            passive = tuple(
                one.id for one in recording.sessions() if one.role in (Role.LOGGER, Role.PROBE)
            )
        for some in {passive, passive[1:], passive[:1]} - {()}:
            part = tmp_path / f"{seed}-{len(some)}-{some[0]}.nriscope.db"
            shutil.copy(node.path, part)
            _keep_passive(part, some)
            assert_findings_of_all_messages(part)
            compared += 1
    assert compared > 5


CHANGES = {
    "lost": "DELETE FROM event WHERE event = ?",
    "failed": "UPDATE event SET status_code = 2, status_message = 'no' WHERE event = ?",
    "late": "UPDATE event SET status_code = 4, took_ns = timeout_ns WHERE event = ?",
    "over": "UPDATE event SET took_ns = timeout_ns + 1 WHERE event = ? AND timeout_ns > 0",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("capture", sampled(CAPTURES))
def test_findings_of_one_passive_connection_are_those_of_all_messages(
    capture: str, change: str, tmp_path: Path
) -> None:
    changing = {plugin for plugin, call in captured(capture) if len(call.reply) > 2}
    (plugin, *_) = sorted({plugin for plugin, _ in captured(capture)} - changing)
    path = record(tmp_path / "whole.nriscope.db", plugin, capture=capture)
    assert_findings_of_all_messages(path)
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT DISTINCT event FROM event")]
    for name in names:
        part = tmp_path / f"{name}.nriscope.db"
        shutil.copy(path, part)
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute(CHANGES[change], (name,))
            _renumber(connection)
        assert_findings_of_all_messages(part)


def assert_findings_of_all_messages(path: Path) -> None:
    with Recording.open(path) as recording:
        # A caller that wants the changes makes it read all messages.
        assert diagnose(recording) == diagnose(recording, on_round=lambda _: None), path


def _keep_passive(path: Path, sessions: Sequence[int]) -> None:
    """Remove other sessions, and requests to validators, as if none had subscribed to them."""
    some = f"({', '.join(map(str, sessions))})"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table, column in (("event", "session"), ("state", "session"), ("session", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} NOT IN {some}")
        name = "SELECT id FROM name WHERE text = 'ValidateContainerAdjustment'"
        connection.execute(f"DELETE FROM event WHERE event IN ({name})")
        connection.execute("DELETE FROM effect WHERE event NOT IN (SELECT id FROM event)")
        connection.execute("DELETE FROM gap")
        _renumber(connection)


def _renumber(connection: sqlite3.Connection) -> None:
    """Number the events of each session again, as if none had been lost."""
    before = "SELECT count(*) FROM event AS e WHERE e.session = event.session AND e.id <= event.id"
    connection.execute(f"UPDATE event SET seq = ({before})")


# -- what keeps from knowing --------------------------------------------------------------------


def changed(tmp_path: Path, *statements: str) -> Path:
    path = Path(shutil.copy(RECORDING, tmp_path / "r.nriscope.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


def limits_in(path: Path) -> list[Finding]:
    return [one for one in found(path) if one.kind is FindingKind.UNOBSERVED]


def test_lost_events_are_a_finding_for_each_reason(tmp_path: Path) -> None:
    at_ns = "(SELECT at_ns FROM event WHERE id = 5)"
    gap = "INSERT INTO gap (session, from_ns, to_ns, reason, lost) VALUES"
    rows = [f"{gap} (1, {at_ns}, {at_ns}, '{TOO_FAST}', {lost})" for lost in (2, 1_000, "NULL", 0)]
    rows += [
        f"{gap} (NULL, {at_ns}, {at_ns}, '{reason}', 7)" for reason in (RING_REMOVED, LEFT_OUT)
    ]
    rows += [f"{gap} (1, {at_ns}, {at_ns}, 'database or disk is full', 1)"]
    assert limits_in(changed(tmp_path)) == []
    assert [(one.level, one.title) for one in limits_in(changed(tmp_path, *rows))] == [
        (Level.WARNING, f"1,002 events lost: {TOO_FAST}"),
        (Level.WARNING, "1 event lost: database or disk is full"),
    ]


def test_a_synchronize_that_was_never_complete_is_a_finding(tmp_path: Path) -> None:
    after = "SELECT id FROM name WHERE text NOT IN ('RegisterPlugin', 'Configure', 'Synchronize')"
    alone, partly = f"DELETE FROM event WHERE event IN ({after})", "UPDATE session SET synced_ns = "
    (one,) = found(changed(tmp_path, alone, f"{partly} NULL"))
    assert one.title == "Synchronize of 00-nri-scope was never complete"
    assert (one.kind, one.level) == (FindingKind.DISCONNECTED, Level.WARNING)
    assert len(one.events) == 1
    assert found(changed(tmp_path, alone)) == ()
    is_open = f"{partly} NULL, ended_ns = NULL, end_reason = ''"
    assert found(changed(tmp_path, alone, is_open)) == ()


def test_events_that_were_kept_raw_are_a_note(tmp_path: Path) -> None:
    (one,) = limits_in(changed(tmp_path, "UPDATE event SET mark = 'malformed' WHERE id IN (7, 9)"))
    assert one.title == "2 events could not be decoded: malformed request, kept raw"
    assert (one.level, one.events) == (Level.NOTE, (7, 9))


@pytest.mark.filterwarnings("ignore::nri_scope.errors.RecordingCut")
@pytest.mark.parametrize("per_byte", [0.0, 0.001, 0.004, 0.007, 0.01])
def test_decoding_that_stopped_is_a_finding_and_not_observed(
    per_byte: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_budget, "DECODING", work_budget.Rate(per_byte, 0))
    with Recording.open(RECORDING) as recording:
        diagnosed = diagnose(recording)
        (stop,) = (one for one in diagnosed.findings if one.kind is FindingKind.UNOBSERVED)
        first, *_ = stop.events
        unread = recording.event(first)
        whole = coverage(recording)
    assert unread is not None
    assert stop.title == f"Decoding stopped at event {first}"
    assert diagnosed.events == first - 1
    from_ns = max(whole.from_ns, unread.at_ns)
    assert diagnosed.coverage.unobserved[-1] == (from_ns, whole.to_ns, STOPPED)
    known = sum(end - begin for begin, end in observed(diagnosed.coverage))
    unknown = sum(one.to_ns - one.from_ns for one in diagnosed.coverage.unobserved)
    assert known + unknown == whole.to_ns - whole.from_ns


def test_the_end_of_a_pod_that_nobody_recorded_is_told_after_a_restart(tmp_path: Path) -> None:
    gone, kept, removed = (
        api.PodSandbox(id=name, name=name, namespace="shop") for name in ("gone", "kept", "removed")
    )

    def change(event: api.Event.ValueType, pod: api.PodSandbox) -> bytes:
        return api.StateChangeEvent(event=event, pod=pod).SerializeToString()

    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    for pods in ([], [kept]):
        session = recorder.begin_session(a_start())
        state = api.SynchronizeRequest(pods=pods).SerializeToString()
        recorder.capture(session, an_item("Synchronize", state))
        for pod in () if pods else (gone, kept, removed):
            recorder.capture(session, an_item("StateChange", change(api.RUN_POD_SANDBOX, pod)))
        if not pods:
            last = change(api.REMOVE_POD_SANDBOX, removed)
            recorder.capture(session, an_item("StateChange", last))
        recorder.end_session(session, "over", NOW + 1)
    recorder.close()
    (finding,) = (one for one in found(path) if "The end of" in one.title)
    assert finding.title == "The end of 1 pod was not recorded"
    assert (finding.kind, finding.level) == (FindingKind.UNOBSERVED, Level.NOTE)
    assert (finding.containers, finding.events) == (("shop/gone",), (2,))
