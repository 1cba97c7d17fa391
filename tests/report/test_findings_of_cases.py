# SPDX-License-Identifier: Apache-2.0
"""Findings about recordings of real runtimes, of which ``tests/data/cases/README.md`` is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence
from nri_scope.differ.attribution.owner import plugin
from nri_scope.nri.changes import REQUIRED_PLUGINS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import lookup
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.diagnosis.conflicts import named_by
from nri_scope.report.finder import Finder, diagnose
from nri_scope.report.finding import Finding, FindingKind, Level
from nri_scope.specs import Change, Json, pointer
from nri_scope.wire.ttrpc import Code
from tests.differ.required_plugins import TAPPED, NewPod, a_node
from tests.recording.traffic import a_start, an_item
from tests.replay.recordings import of_capture

from . import problem_recordings

CASES = Path(__file__).parents[1] / "data" / "cases"


def findings(case: str) -> tuple[Finding, ...]:
    return findings_of(CASES / f"{case}.nriscope.zip")


def findings_of(path: Path) -> tuple[Finding, ...]:
    with Recording.open(path) as recording:
        found = diagnose(recording)
        assert found == diagnose(recording, on_round=lambda _: None)
        return found.findings


STARTS = {
    "unified": "unified[memory.high]",
    "rlbad": "rlimits[NOFILE]",
    "mntnone": "mounts[/nope]",
    "hookbad": "hooks.createRuntime[/does/not/exist]",
    "sysctlbad": "sysctl[kernel.pid_max]",
    "cpusbad": "cpu.cpus",
}
"""Containers that failed to start, and the field that the error names."""


def test_a_failed_start_names_the_request_of_the_plugin() -> None:
    found = findings("c242n5-odd-fields-start-failures-live-cri")
    starts = [one for one in found if one.title.startswith("A container failed to start")]
    named = {start.containers: start.title for start in starts}
    for name, field in STARTS.items():
        title = named.pop((f"shop/odd/{name}",))
        assert title.endswith(f", and the error names {field}, requested by 20-odd")
    # runc's error about the OOM score names nothing.
    assert named == {("shop/odd/oombad",): "A container failed to start"}
    (unnamed,) = [start for start in starts if start.containers == ("shop/odd/oombad",)]
    assert unnamed.level is Level.WARNING
    assert "names none of the plugins' requests: 20-odd asked for process.oomScoreAdj" in (
        unnamed.detail
    )
    # The failures are no failures of a chain.
    assert not any("did not receive the event" in start.detail for start in starts)
    assert not any(one.title.startswith("ContainerStatus") for one in found)


def test_failed_creations_name_the_container_of_each_request() -> None:
    found = findings("c242n5-odd-fields-start-failures-live-cri")
    failed = {one.containers: one.detail for one in found if "was not followed by" in one.title}
    assert [*failed] == [(f"shop/odd/{one}",) for one in ("cdibad", "blockio", "propag", "propsh")]
    assert "asked for cdiDevices[none.com/dev=zz]" in failed["shop/odd/cdibad",]
    assert "cdiDevices" not in failed["shop/odd/blockio",]


def test_a_start_that_a_rule_refuses_names_plugin_and_field() -> None:
    (start,) = [one for one in findings("isulad/tap1") if "failed to start" in one.title]
    assert start.title == (
        "A container failed to start, and the runtime refuses rlimits[RLIMIT_NOFILE], requested by "
        "00-tapped"
    )
    assert (start.level, start.containers) == (Level.PROBLEM, ("shop/web/rl",))
    assert "runc refuses a soft limit above the hard one" in start.detail


def test_a_start_without_an_error_names_none(tmp_path: Path) -> None:
    path = of_capture("isulad", tmp_path / "capture.nriscope.db")
    start, _ = findings_of(path)
    assert start.title == "A container failed to start"
    assert "The error" not in start.detail
    assert ". Requests: " in start.detail


def test_a_conflict_of_a_plugin_with_itself_has_one_plugin() -> None:
    conflicts = [one for one in findings("crio-odd-fields-tap") if one.kind is FindingKind.CONFLICT]
    assert [conflict.title for conflict in conflicts] == [
        'Conflict: plugin "20-odd" tried to set Env E twice',
        'Conflict: plugin "20-odd" tried to set Mounts /tw twice',
    ]
    assert not any("two plugins" in one.advice or "two plugins" in one.detail for one in conflicts)


def test_a_change_that_was_seen_is_no_suspect() -> None:
    failed, *_ = findings("crio-failed-update-of-other")
    assert failed.title == "CreateContainer was not followed by PostCreateContainer"
    assert "No event shows the outcome" in failed.detail
    assert "contain" not in failed.advice


def test_a_resize_without_effect_is_one_finding() -> None:
    (found,) = findings("c242-empty-own-update-voids-resize-live-cri")
    assert found.kind is FindingKind.DROPPED
    assert found.title == "Nothing of an UpdateContainer took effect"
    assert "although PostUpdateContainer came" in found.detail
    assert found.containers == ("shop/u/a",)
    for word in ("memory.limit = 83886080", "cpu.shares = 300"):
        assert word in found.detail


def test_the_plugin_that_voids_a_resize_is_named(tmp_path: Path) -> None:
    (found,) = findings_of(problem_recordings.voided(tmp_path))
    assert found.title == "Nothing of an UpdateContainer took effect"
    assert ": 10-voiding replied with an update of the same container" in found.detail
    assert "a CRI request, or one of 00–09 asked for cpu.shares = 200" in found.detail


def test_a_refused_update_has_its_requests() -> None:
    found = findings("c242-failed-updates-live-cri")
    for one in found[:2]:
        assert one.title == "UpdateContainer was not followed by PostUpdateContainer"
        assert "CreateContainer" not in one.detail
        assert one.containers == ("shop/u/a",)
    # Two failures with different requests are two findings; the plugin's requests come first.
    assert 'Requests: one of 01–29 asked for cpu.cpus = "88"; a CRI' in found[0].detail
    assert 'one of 01–29 asked for unified[memory.high] = "5"; a CRI' in found[1].detail
    replaced = [one for one in found if one.kind is FindingKind.REPLACED]
    assert [one.title for one in replaced] == [
        "cpu.shares, set by one of 01–29, was replaced by a CRI request"
    ]


def test_a_plugin_whose_policy_is_unknown_is_not_said_to_be_disconnected() -> None:
    # NRI 0.12.5, and the plugin has the policy keep_connected.
    found = findings("c242n5-keep-connected-live")
    assert not any(one.kind is FindingKind.DISCONNECTED for one in found)
    assert "unknown: its failure policy is not in the recording" in found[0].detail
    assert found[0].containers == ("shop/f/slow",)


def test_the_policy_of_a_runtime_without_policies_is_known() -> None:
    late, *_ = findings("c24-slow-plugin")
    assert late.detail.endswith("the runtime disconnects the plugin, and continues without it.")


def test_a_late_synchronize_that_left_the_connection_open() -> None:
    late, silent = findings("c17-late-synchronize-tap")
    assert "disconnects the plugin" not in late.detail
    assert silent.title == "10-slowsync got no event after its late reply to Synchronize"
    assert "Its connection stayed open for 6.96s: the plugin closed the connection" in silent.detail
    assert "reconnect" not in silent.advice


def test_findings_are_the_same_when_they_are_asked_for_again() -> None:
    with Recording.open(CASES / "c17-late-synchronize-tap.nriscope.zip") as recording:
        finder = Finder(recording, None)
        finder.read(None)
        finder.conclude()
        assert finder.diagnosed() == finder.diagnosed()


def test_cdi_devices_that_a_version_drops() -> None:
    (found,) = findings("c17-cdi-dropped-tap")
    assert found.title == "cdiDevices[example.com/dev=x], requested by 20-gpu, was dropped"
    assert "containerd 1.7.29+unknown drops the CDI devices of plugins" in found.detail


def test_an_update_without_an_id_has_its_own_advice() -> None:
    (found,) = findings("c17-update-without-id-tap")
    assert found.title == "cpu.cpus, requested by 20-qos, was dropped"
    assert found.advice.startswith("Set container_id")
    assert found.containers == ()


def test_a_creation_without_a_known_outcome_is_not_said_to_have_succeeded() -> None:
    gone, _ = findings("crio-failed-creation-update-of-other-tap-no-postcreate")
    assert gone.title == "20-up was disconnected"
    assert "no event shows whether they exist" in gone.detail


@pytest.mark.exhaustive
def test_a_pod_that_a_plugin_missed_is_named(tmp_path: Path) -> None:
    path = problem_recordings.late_with_policy(tmp_path, "", method="RunPodSandbox")
    late, gone = findings_of(path)
    assert late.containers == ("shop/web",)
    assert gone.containers[0] == "shop/web"
    assert "validator" not in gone.advice


def test_json_has_the_new_kinds() -> None:
    found = findings("c242-failed-updates-live-cri")
    kinds = {str(one.record()["kind"]) for one in found}
    assert kinds == {"dropped", "failed", "replaced"}


NAMES = st.text("abcz", min_size=3, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))


@given(st.lists(PATHS, min_size=1, max_size=6, unique=True), st.data())
def test_an_error_names_a_mount_by_its_whole_path_only(
    paths: list[str], data: st.DataObject
) -> None:
    named = data.draw(st.sampled_from(paths))
    error = f'error mounting "/src" to rootfs at "{named}": stat {named}: no such file or directory'
    requests = [mount(path) for path in paths]
    assert named_by(requests, error) == [mount(named)]
    others = [request for request in requests if request != mount(named)]
    assert named_by(others, error) == []


def mount(destination: str) -> ChangeStep:
    value: Json = {"destination": destination, "source": f"/x{destination}", "type": "bind"}
    change = Change(pointer("/mounts", destination), None, value, "added")
    return ChangeStep("id", change, plugin("10-a"), (Evidence.TAP,), 1, 0)


@pytest.mark.parametrize("share", [0.6, 0.99])
def test_a_time_near_the_deadline_is_said_to_be_near(share: float, tmp_path: Path) -> None:
    found = findings_of(problem_recordings.silence(tmp_path, share))
    words = "took almost all of one plugin's deadline" if share > 0.9 else "took over half of"
    assert words in found[0].title


def test_a_plugin_that_isulad_drops_for_an_error_is_a_problem() -> None:
    (gone,) = findings("isulad/external-CreateContainer-err")
    assert (gone.kind, gone.level) == (FindingKind.DISCONNECTED, Level.PROBLEM)
    assert (
        "returned an error, and this runtime continues without it: refused by dier" in gone.detail
    )
    assert gone.containers == ("die/p0/c0",)
    # The recording has the reason.
    assert "The runtime closed the connection: the plugin ended, exit status 0" in gone.detail
    assert "Find the reason" not in gone.advice


def test_each_end_of_a_killed_plugin_is_in_one_finding() -> None:
    gone, ended = findings("isulad/wrapped-plugin-dies")
    assert (gone.events, gone.level) == ((20,), Level.PROBLEM)
    assert (ended.title, ended.level) == ("10-aone ended", Level.WARNING)
    # The last events of the sessions, without the one that ended after an error.
    assert ended.events == (3, 5, 8, 13, 22, 29)


@pytest.mark.parametrize("by", ["rec", "tap"])
def test_a_message_that_is_too_large_is_a_problem(by: str) -> None:
    (large,) = findings(f"c17-oversized-synchronize-{by}")
    assert large.level is Level.PROBLEM
    assert large.title.startswith("A message of 5,047,527 bytes to ")
    assert "The runtime sent it after Configure" in large.detail


def test_a_connection_without_synchronize_is_a_warning() -> None:
    (silent,) = findings("isulad/synchronize-over-4MiB")
    assert silent.title == "00-nri-scope received no Synchronize"
    assert "31.1s after Configure" in silent.detail


def test_a_refused_registration_is_a_problem(tmp_path: Path) -> None:
    reason = "the runtime refused the registration: invalid plugin name"
    (refused,) = findings_of(problem_recordings.unregistered(tmp_path, reason))
    assert refused.title == "The runtime refused the registration of 20-late"
    assert (refused.level, refused.events) == (Level.PROBLEM, (1,))
    assert "invalid plugin name" in refused.detail


def test_a_plugin_that_ends_when_the_runtime_restarts_is_a_note(tmp_path: Path) -> None:
    reason = "the runtime restarts: the plugin ended, exit status 0"
    (ended,) = findings_of(problem_recordings.unregistered(tmp_path, reason, Code.OK))
    assert (ended.title, ended.level) == ("20-late ended with its connection", Level.NOTE)


def test_an_observed_disconnection_ends_the_doubt() -> None:
    titles = [finding.title for finding in findings("c24-slow-plugin")]
    assert "30-sleepy was disconnected, and containers were created without it" in titles
    assert not any("probably" in title for title in titles)


def test_a_request_that_went_on_did_not_fail() -> None:
    late, *_ = findings("c242n5-keep-connected-live")
    assert "The container was created. Whether the runtime then disconnects" in late.detail
    assert "fails the request" not in late.detail


def test_a_subscribed_plugin_is_not_told_to_subscribe() -> None:
    replaced = [one for one in findings("c24-tap-updates-evict") if one.kind == "replaced"]
    assert replaced and not any(one.advice.startswith("Subscribe") for one in replaced)


def test_a_pod_in_neither_synchronize_nor_its_first_event_is_a_warning() -> None:
    (missed,) = findings("c17-registered-in-runpod-tap")
    assert missed.title == "20-net received events of 1 unknown pod"
    assert (missed.kind, missed.events) == (FindingKind.MISSED, (4,))
    assert missed.containers == ("shop/web",)


REQUIRES = {REQUIRED_PLUGINS: '["net", "10-gpu"]'}


def test_a_pod_that_passed_without_a_required_plugin(tmp_path: Path) -> None:
    node = [
        NewPod("web", REQUIRES, ("10-gpu", TAPPED), is_late=True),
        NewPod("api", REQUIRES, (TAPPED,)),
        NewPod("refused", REQUIRES, (TAPPED,), is_created=False),
        NewPod("other", {}, ()),
    ]
    path = a_node(tmp_path / "node.nriscope.db", node)
    found = [one for one in findings_of(path) if one.kind is FindingKind.REQUIRED]
    assert [(one.title.split()[0], one.containers, one.level) for one in found] == [
        ("net", ("shop/web",), Level.PROBLEM),
        ("10-gpu", ("shop/api/app",), Level.PROBLEM),
    ]
    assert "its reply missed the deadline" in found[0].detail
    with Recording.open(path) as recording:
        for name, expected in (("shop/web", 1), ("shop/api/app", 1), ("shop/other", 0)):
            some = diagnose(recording, lookup.find(recording, name)).findings
            assert sum(one.kind is FindingKind.REQUIRED for one in some) == expected, name
        # A plugin that came back leaves the pod without its work.
        (gone,) = (one for one in findings_of(path) if one.title == "20-net was disconnected")
        assert "continued with the pod shop/web without it. It reconnected later." in gone.detail
        # The page begins the container's remarks with it.
        (changed,) = (one for one in collect(recording).changed if one.name == "shop/api/app")
        assert changed.remarks[0].startswith("created without 10-gpu")


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (("RUN_POD_SANDBOX", "STOP_POD_SANDBOX", "REMOVE_POD_SANDBOX"), 1),
        (("RUN_POD_SANDBOX", "", "STOP_POD_SANDBOX", "REMOVE_POD_SANDBOX"), 0),
        (("RUN_POD_SANDBOX", "STOP_POD_SANDBOX"), 0),
        (("STOP_POD_SANDBOX", "REMOVE_POD_SANDBOX"), 0),
    ],
)
def test_a_pod_that_was_undone(events: tuple[str, ...], count: int, tmp_path: Path) -> None:
    """containerd stops and removes a pod at once if RunPodSandbox fails."""
    pod = api.PodSandbox(id="p", namespace="shop", name="web")
    recorder = Recorder.open(tmp_path / "node.nriscope.db")
    session = recorder.begin_session(a_start())
    recorder.capture(session, an_item("Synchronize", api.SynchronizeRequest()))
    for event in events:
        if event == "STOP_POD_SANDBOX":
            recorder.capture(session, an_item("StopPodSandbox", api.StopPodSandboxRequest(pod=pod)))
        elif event:
            change = api.StateChangeEvent(event=api.Event.Value(event), pod=pod)
            recorder.capture(session, an_item("StateChange", change))
        else:
            create = api.CreateContainerRequest(pod=pod, container=api.Container(id="c"))
            recorder.capture(session, an_item("CreateContainer", create))
    recorder.close()
    found = findings_of(tmp_path / "node.nriscope.db")
    undone = [one for one in found if one.title.startswith("A pod was stopped and removed before")]
    assert len(undone) == count
    assert not count or (undone[0].kind, undone[0].containers) == (FindingKind.ORDER, ("shop/web",))
