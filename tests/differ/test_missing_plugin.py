# SPDX-License-Identifier: Apache-2.0
"""Containers created while a plugin was not connected, held against what recordings show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nri_scope
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.main import run
from nri_scope.differ.missing_plugin import (
    Creation,
    PluginPresence,
    creations,
    missed_creations,
    parse_expectation,
)
from nri_scope.differ.recording_differ import excerpt_of_container, rounds
from nri_scope.errors import FilterError, UsageError
from nri_scope.events import CapturedCall, Role
from nri_scope.nri.changes import REQUIRED_PLUGINS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.amount import amount
from tests.differ.required_plugins import TAPPED, NewPod, a_node
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, a_start, an_item, record
from tests.sample_names import CHECKOUT_API, REPLICA_PROXY

RECORDINGS = Path(__file__).parents[2] / "recordings"


def found(name: str, plugin: str) -> dict[str, Creation]:
    with Recording.open(RECORDINGS / name) as recording:
        return {creation.name: creation for creation in creations(recording, plugin)}


FAILED = "containerd-2.1-conflict.nriscope.zip"
CREATED = {"shop/web/app", "shop/web/sidecar"}


@pytest.mark.parametrize("plugin", ["30-env-injector", "cpu-policy", "20-device-injector"])
def test_a_validator_proves_that_a_plugin_was_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    assert every.keys() >= CREATED
    assert {every[name].presence for name in CREATED} == {PluginPresence.CONNECTED}
    evidence = {every[name].evidence for name in CREATED}
    assert evidence <= {"named to the validator", "it changed the container"}


@pytest.mark.parametrize("plugin", ["never-connected", "31-env-injector"])
def test_a_validator_proves_that_a_plugin_was_not_connected(plugin: str) -> None:
    every = found("containerd-2.4.nriscope.zip", plugin)
    for name in CREATED:
        assert every[name].presence is PluginPresence.MISSING
        assert "30-env-injector" in every[name].evidence


def test_containers_that_existed_before_are_unknown() -> None:
    every = found("containerd-2.4.nriscope.zip", "never-connected")
    old = every["kube-system/old-1/main"]
    assert old.presence is PluginPresence.UNKNOWN
    assert "created before the recorder connected" in old.evidence


def test_a_tap_proves_only_that_its_plugin_was_connected() -> None:
    every = found("demo.nriscope.db", "40-image-check")
    assert every[CHECKOUT_API].presence is PluginPresence.CONNECTED
    late = every[REPLICA_PROXY]
    assert late.presence is PluginPresence.UNKNOWN
    assert "its tap's session 4 had ended" in late.evidence


def test_a_tap_shows_a_pod_that_went_on_without_its_plugin(tmp_path: Path) -> None:
    path = tmp_path / "node.nriscope.db"
    recorder = Recorder.open(path)
    start = replace(a_start(), role=Role.TAP, plugin_index="20", plugin_name="net")
    session = recorder.begin_session(start)
    for number, status_code in ((1, 0), (2, 4)):
        pod = api.PodSandbox(id=f"p{number}", namespace="shop", name=f"web{number}")
        run = api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=pod)
        recorder.capture(session, an_item("StateChange", run, status_code=status_code))
    recorder.close()
    with Recording.open(path) as recording:
        in_time, missed = creations(recording, "net")
        others = [creation.presence for creation in creations(recording, "other")]
    assert others == [PluginPresence.UNKNOWN, PluginPresence.UNKNOWN]
    assert (in_time.name, in_time.is_pod) == ("shop/web1", True)
    assert in_time.presence is PluginPresence.CONNECTED
    assert (missed.name, missed.presence) == ("shop/web2", PluginPresence.MISSING)
    assert "missed the deadline of 2.00s: the runtime went on without it" in missed.evidence


@pytest.mark.parametrize(
    ("waited_ns", "presence"),
    [(1_000_000, PluginPresence.CONNECTED), (2_000_000_000, PluginPresence.UNKNOWN)],
)
def test_a_missed_deadline_makes_the_list_of_the_validator_doubtful(
    tmp_path: Path, waited_ns: int, presence: PluginPresence
) -> None:
    """containerd 2.4.2 still lists a plugin that missed its deadline in the same creation."""
    pod, container = api.PodSandbox(id="p", namespace="shop", name="web"), a_container("c")
    create = api.CreateContainerRequest(pod=pod, container=container)
    plugin = api.PluginInstance(index="20", name="net")
    validate = api.ValidateContainerAdjustmentRequest(
        pod=pod, container=container, plugins=[plugin]
    )
    path = tmp_path / "node.nriscope.db"
    created = an_item("CreateContainer", create)
    record(
        path,
        [created, an_item("ValidateContainerAdjustment", validate, wall_ns=NOW + waited_ns)],
    )
    with Recording.open(path) as recording:
        (one,) = creations(recording, "net")
    assert one.presence is presence


def test_without_evidence_nothing_is_claimed() -> None:
    every = found("containerd-2.1.nriscope.db", "any")
    assert {one.presence for one in every.values()} == {PluginPresence.UNKNOWN}


def test_failed_creations_are_left_out() -> None:
    with Recording.open(RECORDINGS / FAILED) as recording:
        asked = {
            f"{event.namespace}/{event.pod}/{event.container}"
            for event in recording.events()
            if event.event == "CreateContainer"
        }
        created = {
            f"{event.namespace}/{event.pod}/{event.container}"
            for event in recording.events()
            if event.event == "PostCreateContainer"
        }
    every = found(FAILED, "any")
    assert asked > created
    assert set(every) & asked == created


def a_container(identity: str, created_ns: int = 0) -> api.Container:
    return api.Container(id=identity, pod_sandbox_id="p", name=identity, created_at=created_ns)


def synchronized(at_ns: int, *containers: api.Container) -> CapturedCall:
    pod = api.PodSandbox(id="p", namespace="shop", name="web")
    request = api.SynchronizeRequest(pods=[pod], containers=containers)
    return an_item("Synchronize", request, wall_ns=at_ns)


def test_containers_created_before_the_events_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "part.nriscope.db"
    old, new, unknown = a_container("old", NOW - 9), a_container("new", NOW + 1), a_container("x")
    record(path, [synchronized(NOW + 10, old, new, unknown)])
    with Recording.open(path) as recording:
        assert sorted(one.id for one in creations(recording, "any")) == ["new", "old", "p", "x"]
        every = {creation.id: creation for creation in creations(recording, "any", NOW)}
    assert every.keys() == {"new", "x"}
    assert "before the recorder connected" in every["new"].evidence
    assert "at an unknown time, maybe before" in every["x"].evidence


@pytest.mark.parametrize("validation", [b"\xff", None])
def test_a_validator_whose_request_does_not_tell_is_named(
    tmp_path: Path, validation: bytes | None
) -> None:
    path = tmp_path / "node.nriscope.db"
    pod = api.PodSandbox(id="p", namespace="shop", name="web")
    create = api.CreateContainerRequest(pod=pod, container=a_container("c"))
    post = api.StateChangeEvent(
        event=api.Event.POST_CREATE_CONTAINER, pod=pod, container=a_container("c")
    )
    recorder = Recorder.open(path)
    session = recorder.begin_session(replace(a_start(), mask=1 << 13))
    recorder.capture(session, an_item("CreateContainer", create))
    if validation is not None:
        recorder.capture(session, an_item("ValidateContainerAdjustment", validation))
    recorder.capture(session, an_item("StateChange", post))
    recorder.end_session(session, "over", NOW + 10**9)
    recorder.close()
    with Recording.open(path) as recording:
        (one,) = creations(recording, "any")
    why = "the request to the validator (session 1) is missing or malformed"
    assert (one.presence, one.evidence) == (PluginPresence.UNKNOWN, why)


def test_a_pod_that_came_in_neither_request_is_missing(tmp_path: Path) -> None:
    """containerd 1.7.24: a plugin that registers while RunPodSandbox is in the chain."""
    path = tmp_path / "tap.nriscope.db"
    recorder = Recorder.open(path)
    start = replace(a_start("20-net"), role=Role.TAP)
    session = recorder.begin_session(start)
    listed, unknown = (api.PodSandbox(id=one, namespace="shop", name=one) for one in ("old", "web"))
    recorder.capture(session, an_item("Synchronize", api.SynchronizeRequest(pods=[listed])))
    for pod in (listed, unknown):
        create = api.CreateContainerRequest(pod=pod, container=a_container(f"c-{pod.id}"))
        recorder.capture(session, an_item("CreateContainer", create))
    recorder.end_session(session, "over", NOW + 10**9)
    recorder.close()
    with Recording.open(path) as recording:
        pods = {one.name: one for one in creations(recording, "net") if one.is_pod}
        others = [creation for creation in creations(recording, "other") if creation.is_pod]
    assert pods["shop/old"].presence is PluginPresence.UNKNOWN
    assert pods["shop/web"].presence is PluginPresence.MISSING
    assert "neither Synchronize nor RunPodSandbox of its tap (session 1)" in (
        pods["shop/web"].evidence
    )
    # The tap of one plugin shows nothing about another.
    assert [one.name for one in others] == ["shop/old"]


OTHERS = ("10-gpu", "30-cpu", "40-log")
PLUGINS = (TAPPED, *OTHERS)
NAMES = st.sampled_from((*PLUGINS, "net", "gpu", "cpu", "never"))
SCOPES = ("", "/pod", "/container.app", "/container.other")


@st.composite
def pods(draw: st.DrawFn) -> NewPod:
    keys = draw(st.lists(st.sampled_from(SCOPES), unique=True, max_size=2))
    values = st.lists(NAMES, max_size=2).map(json.dumps)
    return NewPod(
        draw(st.sampled_from(("web", "api", "db"))),
        {f"{REQUIRED_PLUGINS}{key}": draw(values) for key in keys},
        tuple(draw(st.lists(st.sampled_from(PLUGINS), unique=True))),
        is_late=draw(st.booleans()),
        is_container_late=draw(st.booleans()),
        is_created=draw(st.booleans()),
    )


def required(pod: NewPod, scopes: Sequence[str]) -> list[str]:
    keys = [
        REQUIRED_PLUGINS + scope for scope in scopes if REQUIRED_PLUGINS + scope in pod.annotations
    ]
    return list(dict.fromkeys(json.loads(pod.annotations[keys[0]]))) if keys else []


def is_one_of(plugin: str, titles: Sequence[str]) -> bool:
    return any(plugin in (title, title[3:]) for title in titles)


def is_missing(pod: NewPod, plugin: str) -> bool:
    """Return whether the recording proves that a plugin missed the creation of the container."""
    is_late = pod.is_container_late and is_one_of(plugin, [TAPPED])
    return pod.is_created and (is_late or not is_one_of(plugin, pod.named))


def expected(node: Sequence[NewPod]) -> Iterator[tuple[int, bool, str]]:
    """Yield number, kind and plugin of each creation without a required plugin."""
    for number, pod in enumerate(node):
        for plugin in required(pod, ("/pod", "")):
            if pod.is_late and is_one_of(plugin, [TAPPED]):
                yield number, True, plugin
        for plugin in required(pod, ("/container.app", "/pod", "")):
            if is_missing(pod, plugin):
                yield number, False, plugin


@contextmanager
def recorded(node: Sequence[NewPod]) -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield a_node(Path(folder) / "node.nriscope.db", node)


@settings(max_examples=amount(100, 24))
@given(st.lists(pods(), max_size=3))
def test_what_passed_without_a_required_plugin(node: list[NewPod]) -> None:
    with recorded(node) as path, Recording.open(path) as recording:
        every = [*creations(recording)]
        assert {one.required_by.removeprefix(REQUIRED_PLUGINS) for one in every} <= {*SCOPES}
        missing = {
            (int(one.id.removeprefix("c"), 16), one.is_pod, one.plugin)
            for one in every
            if one.presence is PluginPresence.MISSING
        }
        assert missing == {*expected(node)}
        # The same is said of a plugin by its name.
        for plugin in ("net", "10-gpu"):
            named = {creation.id: creation.presence for creation in creations(recording, plugin)}
            for one in every:
                assert one.plugin != plugin or named[one.id] == one.presence


@settings(max_examples=amount(100, 24))
@given(st.lists(pods(), max_size=3))
def test_every_surface_begins_with_the_plugins_that_missed_a_creation(node: list[NewPod]) -> None:
    with recorded(node) as path, nri_scope.open(path) as opened:
        recording = opened.reader
        sentences = missed_creations(recording)
        before: set[str] = set()
        for number, pod in enumerate(node):
            (container,) = (one for one in recording.containers() if one.id == f"c{number:063x}")
            plugins = required(pod, ("/container.app", "/pod", ""))
            titles = {TAPPED, *before} if pod.is_container_late else before
            plugins += [
                title for title in titles if not any(is_one_of(name, [title]) for name in plugins)
            ]
            found = sentences.get(container.id, ())
            assert sorted(one.split(",")[0] for one in found) == sorted(
                f"created without {plugin}" for plugin in plugins if is_missing(pod, plugin)
            )
            before |= {*pod.named}
            # A part of the events shows the same as all.
            assert opened.container(container.id).history.absences == found
            excerpt = excerpt_of_container(recording, container, lambda: None)
            history = excerpt.history(container.id)
            assert history is not None and history.absences == found
            (creation,) = (
                one for one in rounds(recording, container) if one.name == "CreateContainer"
            )
            assert creation.absences == found


@pytest.mark.parametrize("command", ["blame", "diff"])
def test_blame_and_diff_begin_with_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requires = {f"{REQUIRED_PLUGINS}/pod": "- gpu\n"}
    path = str(a_node(tmp_path / "node.nriscope.db", [NewPod("web", requires)]))
    why = f"which {REQUIRED_PLUGINS}/pod requires: the runtime named to the validator: 20-net"
    sentence = f"created without gpu, {why}, 00-nri-scope (event 7)"
    run([command, path, "shop/web/app"])
    lines = capsys.readouterr().out.splitlines()
    title = next(at for at, line in enumerate(lines) if "event 5" in line or "CreateC" in line)
    assert lines[title + 1].strip() == f"! {sentence}"
    run([command, path, "shop/web/app", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    place = document["container"] if command == "blame" else document["events"][0]
    assert place["absences"] == [sentence]


def test_a_history_reads_sessions_gaps_and_earlier_requests_together(tmp_path: Path) -> None:
    queries: list[int] = []
    for earlier in (2, 20):
        pods = [NewPod(f"p{number}") for number in range(earlier)]
        path = a_node(tmp_path / f"{earlier}.nriscope.db", pods)
        with Recording.open(path) as recording:
            *_, container = recording.containers()
            run: list[str] = []
            recording.connection.set_trace_callback(run.append)
            excerpt_of_container(recording, container)
        for table in ("session", "gap"):
            assert sum(f" FROM {table} ORDER BY id" in one for one in run) == 1
        queries.append(sum(" FROM object " not in one for one in run))
    assert queries[0] == queries[1]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("10-gpu", UsageError),
        ("plugin=", UsageError),
        ("plugin=gpu annotation:x", UsageError),
        ("plugin=gpu where event:x", FilterError),
        ("plugin=gpu where annotation", None),
        ("plugin=gpu", None),
    ],
)
def test_expectations(text: str, error: type[Exception] | None) -> None:
    if error is None:
        assert parse_expectation(text).plugin == "gpu"
    else:
        with pytest.raises(error):
            parse_expectation(text)


WHERE = st.sampled_from(["annotation:a=1", "annotation:a", "-pod:web"])


@settings(max_examples=amount(100, 24))
@given(st.lists(pods(), max_size=3), WHERE)
def test_an_expectation_requires_as_an_annotation_does(node: list[NewPod], where: str) -> None:
    marked = [
        replace(pod, annotations={"a": "1"} if pod.name == "web" else {"b": "1"}) for pod in node
    ]
    of_web = [pod for pod in marked if (pod.name == "web") == where.startswith("annotation")]
    with recorded(marked) as path, Recording.open(path) as recording:
        by_expectation = creations(
            recording, expected=[parse_expectation(f"plugin=10-gpu  where {where}")]
        )
        every = [one for one in by_expectation if not one.is_pod]
    assert len(every) == sum(pod.is_created for pod in of_web)
    assert {one.required_by for one in every} <= {f"plugin=10-gpu where {where}"}
    missing = sum(one.presence is PluginPresence.MISSING for one in every)
    assert missing == sum(is_missing(pod, "10-gpu") for pod in of_web)


def test_a_redacted_copy_gives_the_same_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("10-xqzacme7-lim", TAPPED)
    node = [
        NewPod("web", {f"{REQUIRED_PLUGINS}/container.app": '["xqzacme7-lim", "wvqlim"]'}, named),
        NewPod("api", {REQUIRED_PLUGINS: "- 10-xqzacme7-lim\n"}, named),
        NewPod("odd", {REQUIRED_PLUGINS: "[пароль]"}, named),
    ]
    path, copy = a_node(tmp_path / "node.nriscope.db", node), tmp_path / "copy.nriscope.db"
    assert run(["export", str(path), "--redact", "-o", str(copy)]) == 0
    answers = []
    for each in (path, copy):
        with Recording.open(each) as recording:
            answers.append([(one.name, one.plugin, one.presence) for one in creations(recording)])
    original, redacted = answers
    assert redacted[:-2] == original[:-2]
    assert ("shop/web/app", "wvqlim", PluginPresence.MISSING) in redacted
    assert [presence for *_, presence in redacted[-2:]] == [PluginPresence.UNKNOWN] * 2
    assert "пароль" not in str(redacted)
