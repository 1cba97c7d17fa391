# SPDX-License-Identifier: Apache-2.0
"""Each known bug of a runtime has a recording that shows its condition.

Real runtimes made those of tests/data/cases, the emulated runtime those of `_played`; the others
are written as a tap writes them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from html import unescape
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.doctor.known_bugs import Certainty, KnownBug, known_bugs
from nri_scope.end_reasons import PLUGIN, RUNTIME, refused, tapped_close
from nri_scope.errors import RpcError, UsageError
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import METHODS, RUNTIME_SERVICE, EventKind
from nri_scope.nri.versions import known_version, sort_key
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.report import findings_list
from nri_scope.report.collect import collect
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Finding, FindingKind
from nri_scope.report.html import html
from nri_scope.report.markdown import markdown
from nri_scope.runtime import EmulatedRuntime
from nri_scope.runtime.profile import PROFILES
from nri_scope.transport.loop import run
from nri_scope.wire.ttrpc import Code
from tests.plugin_builders import adjust
from tests.recording.recordings import a_start
from tests.replay.plays import job_of, played, played_to_peers
from tests.replay.recordings import (
    START_NS,
    container,
    life,
    of_capture,
    recording,
    run_pod,
)
from tests.runtime_emulation.small_plugin import SmallPlugin

from .problem_recordings import Everything

CASES = Path(__file__).parents[1] / "data" / "cases"
SECOND = 10**9
CAPTURED: tuple[str, ...] = (
    "30-annotator",
    "60-cpu-policy",
    "00-probe-a",
    "50-probe-b",
    "95-probe-c",
)
"""The connections of the capture of iSulad."""
NAME = "payments-prod/checkout-api"
"""Name of a plugin with a slash, as people write them."""

Make = Callable[[Path], Path]


def _case(name: str) -> Make:
    def make(folder: Path) -> Path:
        with ZipFile(CASES / f"{name}.nriscope.zip") as archive:
            return Path(archive.extract("recording.nriscope.db", folder))

    return make


class InjectingCdi:
    """A plugin that asks for a CDI device."""

    def create_container(self, pod: PodSandbox, container: Container) -> object:
        devices = [api.CDIDevice(name="vendor.com/gpu=0")]
        return api.CreateContainerResponse(adjust=ContainerAdjustment(CDI_devices=devices))


class Refusing:
    """Plugin that returns an error for each pod."""

    def run_pod_sandbox(self, pod: PodSandbox) -> None:
        raise RuntimeError("no pods today")


def _played(profile: str, plugin: object, *faults: str) -> Make:
    def make(folder: Path) -> Path:
        source = recording(folder / "source.nriscope.db", [run_pod(), *life(container("istio"))])
        output = folder / "played.nriscope.db"
        played(source, {"10-plugin": plugin}, output=output, faults=faults, profile=profile)
        return output

    return make


def _written(folder: Path, start: SessionStart, calls: list[CapturedCall], reason: str) -> Path:
    path = folder / "written.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(start)
    for call in calls:
        recorder.capture(session, call)
    recorder.end_session(session, reason, START_NS + 600 * SECOND)
    recorder.close()
    return path


def _tapped(version: str, nri_version: str, *, mask: int = 0) -> SessionStart:
    return replace(
        a_start("10-balloons", START_NS),
        role=Role.TAP,
        runtime_version=version,
        nri_version=nri_version,
        mask=mask,
    )


def _call(number: int, method: str, request: bytes, **values: object) -> CapturedCall:
    at_ns = START_NS + number * SECOND
    call = CapturedCall(at_ns, at_ns, method, request, b"", 0, "", 1000, 2 * SECOND)
    return call._replace(**values)  # type: ignore[arg-type]


def _deadlock(folder: Path) -> Path:
    """Write an unsolicited update that the runtime did not answer before it was restarted."""
    one = container("istio")
    calls = [
        _call(number, name, request.SerializeToString())
        for number, (name, request) in enumerate([run_pod(), *life(one)[:4]])
    ]
    request = api.UpdateContainersRequest()
    request.update.add(container_id=one.id).linux.resources.cpu.shares.value = 512
    calls.append(
        _call(
            len(calls),
            "UpdateContainers",
            request.SerializeToString(),
            status_code=int(Code.UNAVAILABLE),
            status_message=f"not answered: {tapped_close(RUNTIME)}",
            took_ns=60 * SECOND,
            service=RUNTIME_SERVICE,
        )
    )
    return _written(folder, _tapped("2.3.7", "0.12.0"), calls, tapped_close(RUNTIME))


def _without_synchronize(folder: Path) -> Path:
    start = _tapped("1.7.13", "0.4.0")
    return _written(folder, start, [_call(0, "Configure", b"")], tapped_close(PLUGIN))


def _refused_name(folder: Path) -> Path:
    """Write a registration that the emulated runtime refused. The runtime is not known before."""

    async def error() -> str:
        async with EmulatedRuntime(PROFILES["containerd-2.4"]) as runtime:
            peer = SmallPlugin(f"10-{NAME}")
            await runtime.listen(folder / "nri.sock")
            await peer.connect(folder / "nri.sock")
            with pytest.raises(RpcError) as raised:
                await peer.register()
        return raised.value.message

    start = SessionStart.unconfigured(Role.TAP, "10", NAME, START_NS)
    words = run(error())
    call = _call(
        0, "RegisterPlugin", b"", status_code=2, status_message=words, service=RUNTIME_SERVICE
    )
    return _written(folder, start, [call], f"{refused(words)}; {tapped_close(RUNTIME)}")


def _unknown_event(folder: Path) -> Path:
    """Record a subscription to ValidateContainerAdjustment on NRI 0.8."""
    mask = EventKind.CreateContainer.bit | EventKind.ValidateContainerAdjustment.bit
    start = _tapped("2.1.5-k3s1", "0.8.0", mask=mask)
    return _written(folder, start, [_call(0, "Configure", b"")], tapped_close(RUNTIME))


def _updated_by_the_cri(folder: Path) -> Path:
    ends = dict.fromkeys(CAPTURED, (SECOND, "closed by the runtime"))
    return of_capture("isulad", folder / "isulad.nriscope.db", ended=ends)


RECORDINGS: dict[str, Make] = {
    "nri#63": _case("c17-registered-in-runpod-tap"),
    "containerd#13698": _played("containerd-2.4", Everything(), "skip:CreateContainer"),
    "cri-o#10090": _played("cri-o", Everything(), "skip:CreateContainer"),
    "containerd#13733": _deadlock,
    "containerd#13609": _played("containerd-2.1", Refusing()),
    "containerd#12650": _case("c17-cdi-dropped-tap"),
    "cri-o#9128": _played("cri-o-1.33", InjectingCdi()),
    "nri#102": _case("c17-oversized-synchronize-rec"),
    "nri#103": _case("c17-late-synchronize-tap"),
    "containerd#10085": _without_synchronize,
    "nri@91a7760": _refused_name,
    "nri#159": _unknown_event,
    "iSulad's crash at updates by plugins": _case("isulad/kill-evict"),
    "iSulad's crash at updates by the CRI": _updated_by_the_cri,
    "iSulad's treatment of adjustments": _case("isulad/tap1"),
}
WITHOUT_FINDING = {"iSulad's order of plugins"}
"""Rows whose condition a test below shows on the emulated runtime."""


def _findings(path: Path) -> tuple[Finding, ...]:
    with Recording.open(path) as opened:
        found = diagnose(opened).findings
        # Both ways to read a recording name the same bugs.
        assert [one.known for one in diagnose(opened, on_round=lambda _: None).findings] == [
            one.known for one in found
        ]
        return found


def test_each_row_has_a_recording() -> None:
    assert RECORDINGS.keys() | WITHOUT_FINDING == known_bugs().keys()
    assert {bug.name for bug in known_bugs().values() if not bug.finding} == WITHOUT_FINDING


@pytest.mark.parametrize("bug", known_bugs().values(), ids=lambda bug: bug.name)
def test_each_row_is_whole(bug: KnownBug) -> None:
    assert not bug.finding or FindingKind(bug.finding)
    assert not bug.event or bug.event in METHODS
    re.compile(bug.text)
    assert bug.consequence and not bug.consequence.endswith(".")
    assert bug.runtimes
    for since, before in bug.ranges:
        assert sort_key(since) is not None
        assert not before or known_version(before) > known_version(since)
    if "#" in bug.name:
        project, _, number = bug.name.partition("#")
        source = rf"https://github\.com/[\w-]+/{project}/(issues|pull)/{number}"
        assert re.fullmatch(source, bug.url)


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_condition_of_each_row_is_named(name: str, tmp_path: Path) -> None:
    bug = known_bugs()[name]
    path = RECORDINGS[name](tmp_path)
    found = [one for one in _findings(path) if name in one.known]
    assert found
    assert all(one.kind == bug.finding for one in found)
    with Recording.open(path) as opened:
        text = "\n".join(findings_list.text(diagnose(opened), width=None))
        record = json.loads(json.dumps(findings_list.document(diagnose(opened))))
        facts = collect(opened)
    assert f"Known: {bug.consequence}; {bug.certainty} {name}, " in text
    assert all(version in text for version in bug.fixed_in)
    (known, *_) = [
        each for one in record["findings"] for each in one["known"] if each["name"] == name
    ]
    assert known["url"] == bug.url and known["fixed_in"] == bug.fixed_in
    assert known["certainty"] == bug.certainty.name.lower()
    assert f"  - {bug.sentence}\n" in markdown(facts)
    assert bug.sentence in unescape("".join(html(facts)))


@pytest.mark.parametrize("name", RECORDINGS)
def test_only_the_finding_of_a_row_names_it(name: str, tmp_path: Path) -> None:
    """A recording of one bug names no other one."""
    for finding in _findings(RECORDINGS[name](tmp_path)):
        assert set(finding.known) <= {name}


def _outside(bug: KnownBug) -> st.SearchStrategy[tuple[str, str, str]]:
    """Return runtimes, with their NRI versions, that do not have a bug."""
    numbers = st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 40))
    versions = numbers.map(lambda each: "{}.{}.{}".format(*each))
    edges = [before for _, before in bug.ranges if before]
    runtimes = st.sampled_from(["containerd", "cri-o", "docker", "v2", "k0s"])
    some = st.one_of(versions, st.sampled_from([*edges, "(devel)", "1.7.24~ds1"]))
    return st.tuples(runtimes, some, st.one_of(some, st.just(""))).filter(
        lambda each: not bug.affects(*each)
    )


@pytest.mark.parametrize("name", RECORDINGS)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_a_version_outside_of_the_range_never_gets_the_sentence(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bug = known_bugs()[name]
    path = RECORDINGS[name](tmp_path_factory.mktemp("outside"))
    runtime, version, nri = data.draw(_outside(bug))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE session SET runtime_name = ?, runtime_version = ?, nri_version = ?",
            (runtime, version, nri),
        )
    assert all(name not in finding.known for finding in _findings(path))


@pytest.mark.parametrize(
    ("name", "runtime", "version", "nri", "expected"),
    [
        ("containerd#12650", "containerd", "1.7.29+unknown", "", True),
        ("containerd#12650", "containerd", "1.7.29~ds1", "", True),
        ("containerd#12650", "containerd", "1.7.30", "", False),
        ("containerd#12650", "containerd", "2.0.11", "", True),
        ("containerd#13609", "containerd", "2.1.9", "", True),
        ("containerd#13609", "containerd", "2.2.5", "", True),
        ("containerd#13609", "containerd", "2.2.6", "", False),
        ("containerd#13609", "containerd", "2.3.2", "", True),
        ("containerd#13609", "containerd", "2.3.3", "", False),
        ("containerd#13609", "containerd", "1.7.35", "", False),
        ("containerd#13609", "cri-o", "2.1.9", "", False),
        ("containerd#13733", "containerd", "2.3.7", "", True),
        ("containerd#13733", "containerd", "2.4.2", "", False),
        # What the runtime sent is more certain than its table.
        ("containerd#13733", "containerd", "2.3.99", "v0.12.1", False),
        ("containerd#13733", "containerd", "2.4.0", "v0.12.0", True),
        ("containerd#13698", "containerd", "2.4.2", "", True),
        ("cri-o#10090", "crio", "1.36.3", "", True),
        ("nri@91a7760", "containerd", "2.2.8", "", False),
        ("nri@91a7760", "containerd", "2.3.0", "", True),
        ("nri@91a7760", "", "", "", True),
        ("containerd#13698", "", "", "", False),
        ("containerd#13698", "containerd", "", "", False),
    ],
)
def test_versions_at_the_ends_of_ranges(
    name: str, runtime: str, version: str, nri: str, expected: bool
) -> None:
    assert known_bugs()[name].affects(runtime, version, nri) is expected


@given(st.tuples(st.integers(1, 2), st.integers(0, 9), st.integers(0, 40)))
def test_the_rows_of_cdi_devices_have_the_versions_of_the_rule(
    numbers: tuple[int, int, int],
) -> None:
    version = "{}.{}.{}".format(*numbers)
    for name, bug in (("containerd", "containerd#12650"), ("cri-o", "cri-o#9128")):
        drops = runtime_rules_of(name, version).drops_cdi_devices
        assert known_bugs()[bug].affects(name, version, "") is bool(drops)


def test_a_finding_of_several_runtimes_is_of_a_bug_that_all_have(tmp_path: Path) -> None:
    """A recording goes on over an update of the runtime."""
    path = _played("containerd-2.1", Refusing())(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        (session,) = connection.execute("SELECT id FROM session").fetchone()
    (refusal,) = [one for one in _findings(path) if one.kind is FindingKind.FAILED]
    assert refusal.known == ("containerd#13609",)
    recorder = Recorder.open(path)
    start = replace(_tapped("2.4.2", "0.12.3"), plugin_name="plugin", started_ns=START_NS + 10**12)
    later = recorder.begin_session(start)
    name, request = run_pod()
    at_ns = START_NS + 2 * 10**12
    with Recording.open(path) as opened:
        first = next(one for one in opened.events() if one.event == "RunPodSandbox")
    call = _call(
        0,
        name,
        request.SerializeToString(),
        wall_ns=at_ns,
        mono_ns=at_ns,
        status_code=first.status_code,
        status_message=first.status_message,
    )
    recorder.capture(later, call)
    recorder.close()
    (refusal,) = [one for one in _findings(path) if one.kind is FindingKind.FAILED]
    assert refusal.event_count == 2
    assert refusal.known == ()
    assert session != later


def test_isulad_sends_each_plugin_the_original_container(tmp_path: Path) -> None:
    """The condition of "iSulad's order of plugins"."""
    seen: dict[str, list[str]] = {}

    class Noting:
        def __init__(self, name: str) -> None:
            self.name = name

        def create_container(self, pod: PodSandbox, container: Container) -> ContainerAdjustment:
            seen[self.name] = [*container.annotations]
            return adjust(annotations={self.name: "1"})

    source = recording(tmp_path / "s.nriscope.db", [run_pod(), *life(container("istio"))])
    plugins = {"10-one": Noting("one"), "20-two": Noting("two")}
    for profile, expected in (("isulad", []), ("containerd-2.4", ["one"])):
        played(source, plugins, profile=profile)
        assert sorted({*seen["one"], *seen["two"]} & {"one", "two"}) == expected
    assert "random order" in known_bugs()["iSulad's order of plugins"].consequence


def test_the_emulated_runtime_shows_what_unknown_events_do(tmp_path: Path) -> None:
    """The condition of nri#159: the Configure reply is accepted, and then the connection closed."""
    source = recording(tmp_path / "s.nriscope.db", [run_pod(), *life(container("istio"))])
    peer = SmallPlugin("10-validator", mask=EventKind.ValidateContainerAdjustment.bit)
    with pytest.raises(UsageError, match=r"subscribed to events 0x2000 that containerd 2\.1\.9"):
        played_to_peers(job_of(source, {}, profile="containerd-2.1"), peer)
    assert peer.methods == ["Configure"]


def test_certainties_are_said_in_words() -> None:
    sentences = {bug.certainty: bug.sentence for bug in known_bugs().values()}
    assert "; this may be " in sentences[Certainty.POSSIBLE]
    assert "; this is " in sentences[Certainty.EXACT]
