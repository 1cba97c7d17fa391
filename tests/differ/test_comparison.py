# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import Container, ContainerAdjustment, PodSandbox
from nri_scope.differ.attribution.applied_spec import judge
from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME, SPEC, plugin
from nri_scope.differ.comparison import Comparison, compare, compare_recordings
from nri_scope.differ.comparison_output import rows
from nri_scope.differ.recording_differ import histories
from nri_scope.events import Pod
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.run import replay
from nri_scope.specs import Json, Spec, changes
from nri_scope.transport.loop import run
from tests.differ.render.samples import answer
from tests.plugin_builders import adjust
from tests.replay.plays import job_of
from tests.replay.recordings import container, life, of_capture, recording
from tests.sample_names import CHECKOUT_API, CHECKOUT_PROXY, REPLICA_API

RECORDINGS = Path(__file__).parents[2] / "recordings"
ORDERED = (
    "containerd-2.1-normal-life.nriscope.zip",
    "containerd-2.1-slow-plugin.nriscope.zip",
    "containerd-2.4.nriscope.zip",
    "cri-o-1.37.nriscope.zip",
)
"""Recordings with containers of the same names, with and without adjusted mounts."""
CAPTURES = "containerd-1.7.24", "containerd-2.1.9", "cri-o-1.37"
INJECTOR, OTHER = plugin("30-env-injector"), plugin("60-other")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("captures")
    return {name: of_capture(name, folder / f"{name}.nriscope.db") for name in CAPTURES}


def history(
    number: int,
    base: Spec,
    *stages: tuple[str, Spec],
    name: str = "shop/web/app",
    failure: str = "",
    real: Spec | None = None,
) -> History:
    """A container, and what plugins made of it one after the other."""
    found = History(id=f"container-{number}", name=name, base=base, base_owner=RUNTIME, spec=base)
    for owner, spec in stages:
        steps = [
            ChangeStep(found.id, change, plugin(owner), (Evidence.TAP,), 1, 1)
            for change in changes(found.spec, spec)
        ]
        found.add(steps, spec)
    found.failure, found.real, found.real_event = failure, real, 2
    found.created_event, found.shown = 1, True
    if real is not None:
        judge(found, real, answer(2))
    return found


def by_id(*found: History) -> dict[str, History]:
    return {each.id: each for each in found}


def env(*variables: str) -> Spec:
    members: list[Json] = [*variables]
    return {"process": {"env": members}}


def test_the_owner_of_a_member_is_not_the_owner_of_its_place() -> None:
    def mounts(order: str) -> Spec:
        members: list[Json] = [{"destination": f"/{each}"} for each in order]
        return {"mounts": members}

    def places(first: str, final: str) -> list[tuple[str, str]]:
        one = history(1, mounts(first))
        one.base_owner, one.spec = SPEC, mounts(final)
        other = history(2, mounts("xcba"))
        found = differences_of(compare(by_id(one), by_id(other)))
        return [(path, owner) for _, path, owner, present, _, both in found if present and both]

    # As the runtime left it, sorted by the runtime, and in an order that nothing explains.
    assert {owner for _, owner in places("abc", "abc")} == {"Pod spec/CRI"}
    assert {owner for _, owner in places("bac", "abcp")} == {"runtime"}
    assert {owner for _, owner in places("abc", "bac")} == {"unknown"}


def named_as_in_captures(recording: Recording) -> dict[str, History]:
    """Return the histories of a recording, with the names of other runtimes' captures."""
    found = histories(recording)
    renamed = {CHECKOUT_API: "shop/web/app", CHECKOUT_PROXY: "shop/web/sidecar"}
    for one in found.values():
        one.name = renamed.get(one.name, one.name)
    return found


@pytest.mark.parametrize("pair", [*combinations(ORDERED, 2)], ids=" ".join)
def test_places_have_true_owners_in_recordings(pair: tuple[str, str]) -> None:
    """Only containers with adjusted mounts have sorted ones, and not by their members' owner."""
    with ExitStack() as stack:
        a, b = (stack.enter_context(Recording.open(RECORDINGS / one)) for one in pair)
        found = compare(named_as_in_captures(a), named_as_in_captures(b))
    places = 0
    for differing in found.differ:
        for difference in differing.differences:
            if difference.change.kind != "moved":
                continue
            places += 1
            for of, side in ((differing.a, difference.a), (differing.b, difference.b)):
                is_adjusted = any(step.change.path.startswith("/mounts/") for step in of.steps)
                assert (side.owner == RUNTIME) is is_adjusted, (of.name, difference.change.path)
    assert places


def test_an_emptied_object_is_no_difference_of_its_own() -> None:
    limited: Spec = {"linux": {"resources": {"memory": {"limit": 1}, "cpu": {"shares": 2}}}}
    emptied: Spec = {"linux": {"resources": {"memory": {}, "cpu": {}}}}
    for one, other in ((limited, emptied), (emptied, limited)):
        (pair,) = compare(by_id(history(1, one)), by_id(history(2, other))).differ
        paths = [each.change.path for each in pair.differences]
        assert paths == ["/linux/resources/memory/limit", "/linux/resources/cpu/shares"]


def names(found: Iterable[object]) -> list[str]:
    return [str(getattr(each, "name", each)) for each in found]


def differences_of(comparison: Comparison) -> list[tuple[str, str, str, bool, str, bool]]:
    return [
        (
            pair.name,
            each.change.path,
            str(each.a.owner),
            each.a.present,
            str(each.b.owner),
            each.b.present,
        )
        for pair in comparison.differ
        for each in pair.differences
    ]


def test_equal_histories_do_not_differ() -> None:
    found = by_id(history(1, env("A=1")), history(2, env("B=1"), name="jobs/batch/job"))
    comparison = compare(found, found)
    assert not comparison.differs
    assert comparison.same == ("shop/web/app", "jobs/batch/job")
    assert not compare({}, {}).differs


def test_each_side_has_its_owner() -> None:
    one = history(1, env("A=1", "B=1"), ("30-env-injector", env("A=2", "B=1")))
    other = history(
        2, env("A=1", "B=1"), ("20-x", env("A=2", "B=1")), ("60-other", env("A=3", "C=1"))
    )
    assert differences_of(compare(by_id(one), by_id(other))) == [
        ("shop/web/app", "/process/env/A", "30-env-injector", True, "60-other", True),
        ("shop/web/app", "/process/env/B", "runtime", True, "60-other", False),
        ("shop/web/app", "/process/env/C", "runtime", False, "60-other", True),
    ]


def test_a_value_belongs_to_the_last_plugin_that_changed_a_part_of_it() -> None:
    plain: Spec = {"linux": {"seccomp": {"defaultAction": "a"}}}
    strict: Spec = {"linux": {"seccomp": {"defaultAction": "b"}}}
    comparison = compare(by_id(history(1, plain, ("10-x", strict))), by_id(history(2, {})))
    assert differences_of(comparison) == [
        ("shop/web/app", "/linux/seccomp", "10-x", True, "runtime", False)
    ]


def test_a_move_belongs_to_the_plugin_that_moved() -> None:
    def mounts(order: str, **first: Json) -> Spec:
        members: list[Json] = [{"destination": each} for each in order]
        members[0] = {"destination": order[0], **first}
        return {"mounts": members}

    one = history(1, mounts("abc"), ("10-x", mounts("cab")), ("20-y", mounts("cab", type="x")))
    comparison = compare(by_id(one), by_id(history(2, mounts("abc"))))
    assert differences_of(comparison)[0] == (
        "shop/web/app",
        "/mounts/c",
        "10-x",
        True,
        "runtime",
        True,
    )


def test_containers_of_one_side_and_repeated_names_are_listed() -> None:
    a = by_id(history(1, {}), history(2, env("A=1")), history(3, {}, name="only/in/a"))
    b = by_id(history(4, {}), history(5, {}), history(6, {}), history(7, {}, name="only/in/b"))
    comparison = compare(a, b)
    assert names(comparison.only_a) == ["only/in/a"]
    assert names(comparison.only_b) == ["shop/web/app#3", "only/in/b"]
    assert names(comparison.differ) == ["shop/web/app#2"]
    assert comparison.same == ("shop/web/app",)
    assert comparison.differs


def test_ambiguous_names_are_numbered() -> None:
    found = by_id(
        history(1, {}, name="x#2"),
        history(2, {}, name="x"),
        history(3, {}, name="x"),
        history(4, {}, name=""),
    )
    assert names(compare(found, {}).only_a) == ["x#2", "x", "x#3", "container-4"]


def test_a_failed_creation_is_a_difference() -> None:
    fine = by_id(history(1, env("A=1")))
    broken = by_id(history(2, env("A=2"), failure="no such device for container-2"))
    (pair,) = compare(fine, broken).differ
    assert (pair.a.failure, pair.b.failure) == ("", "no such device for container-2")
    assert pair.differences == ()
    alike = by_id(history(3, env("A=2"), failure="no such device for container-3"))
    assert not compare(broken, alike).differs
    unlike = by_id(history(4, env("A=2"), failure="out of memory"))
    assert compare(broken, unlike).differs


def test_container_and_pod_ids_are_ignored() -> None:
    def one(number: int) -> History:
        paths: Spec = {"linux": {"cgroupsPath": f"/pod-uid-{number}/container-{number}"}}
        return history(number, paths, ("10-x", {**paths, "annotations": {"a": f"pod-id-{number}"}}))

    def pods(number: int) -> dict[str, Pod]:
        return {
            f"container-{number}": Pod(1, f"pod-id-{number}", "shop", "web", f"pod-uid-{number}")
        }

    a, b = by_id(one(1)), by_id(one(2))
    assert compare(a, b).differs
    assert not compare(a, b, pods_a=pods(1), pods_b=pods(2)).differs


def in_pod(number: int, pod: str, *values: str) -> History:
    annotations: Spec = {f"value-{at}": value for at, value in enumerate((pod, *values))}
    variables = env(f"HOSTNAME={pod}")
    spec: Spec = {**variables, "annotations": annotations}
    return history(number, variables, ("10-x", spec), name=f"shop/{pod}/app")


def of_pods(*found: History) -> tuple[dict[str, History], dict[str, Pod]]:
    pods = {each.id: Pod(1, "", "shop", each.name.split("/")[1], "") for each in found}
    return by_id(*found), pods


def test_pods_of_a_workload_are_matched_by_order_if_their_names_are_generated() -> None:
    a, pods_a = of_pods(
        in_pod(1, "web-6bcd9f7f4-x2x5z", "1"),
        in_pod(2, "web-6bcd9f7f4-bcdfg", "1"),
        in_pod(3, "db-0", "1"),
        in_pod(4, "db-1", "1"),
    )
    b, pods_b = of_pods(
        in_pod(5, "db-1", "1"),
        in_pod(6, "web-7f9c5d8b6-q4w5z", "1"),
        in_pod(7, "web-7f9c5d8b6-z5w4q", "2"),
        in_pod(8, "api-7f9c5d8b6-z5w4q", "2"),
        in_pod(9, "web-7f9c5d8b6-q4w5z", "3"),
    )
    found = compare(a, b, pods_a=pods_a, pods_b=pods_b)
    assert found.same == ("shop/web-6bcd9f7f4-x2x5z/app", "shop/db-1/app")
    (pair,) = found.differ
    assert (pair.name, pair.b.name) == (
        "shop/web-6bcd9f7f4-bcdfg/app",
        "shop/web-7f9c5d8b6-z5w4q/app",
    )
    assert [each.change[:3] for each in pair.differences] == [("/annotations/value-1", "1", "2")]
    assert found.only_a == ("shop/db-0/app",)
    assert found.only_b == ("shop/api-7f9c5d8b6-z5w4q/app", "shop/web-7f9c5d8b6-q4w5z/app#2")


TOKEN = "redacted-abcdefghijkl"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2026-12-01T07:35:33Z", "at 2026-12-01T08:35:33.123456+01:00"),
        ("2026-12-01 07:35:33", "2026-12-02 17:35:33"),
        (
            "GPU-8c1b6f1e-0f0e-4f1c-9d7e-0a1b2c3d4e5f",
            "GPU-0f0e6f1e-8c1b-4f1c-9d7e-5f0a1b2c3d4e",
        ),
        (TOKEN, "hunter2"),
        (f"https://u:{TOKEN}@db/x", "https://u:hunter2@db/x"),
        (f"{TOKEN}.invalid:/{TOKEN},{TOKEN}", "db.shop.svc:/run/secret,hunter2"),
        (f"{TOKEN}@redacted.invalid", "me@example.com"),
        ("http://198.18.3.4/", "http://10.96.0.1/"),
    ],
)
def test_values_that_differ_only_in_ids_times_and_tokens_are_counted(one: str, other: str) -> None:
    for a, b in ((one, other), (other, one)):
        found = compare(by_id(in_pod(1, "web", a, "1")), by_id(in_pod(2, "web", b, "1")))
        assert (found.differs, found.uncompared) == (False, 1)
        assert found.remark.startswith("1 value not compared: ids, times or tokens of")
        (pair,) = compare(by_id(in_pod(1, "web", a, "1")), by_id(in_pod(2, "web", b, "2"))).differ
        assert [each.change.path for each in pair.differences] == ["/annotations/value-2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("version 2026-12-01", "version 2026-12-02"),
        ("1 at 2026-12-01T07:35:33Z", "2 at 2026-12-01T08:35:33Z"),
        (f"sha256:{'ab' * 32}", f"sha256:{'ac' * 32}"),
        (f"https://u:{TOKEN}@db/x", "https://u:hunter2@db/y"),
        (f"https://u:{TOKEN}@db/x", "http://u:hunter2@db/x"),
        (f"a{TOKEN}b", "ab"[:1]),
        (f"1{TOKEN}1", "1"),
        (f"1 {TOKEN}", f"2 {TOKEN}"),
    ],
)
def test_values_with_other_differences_differ(one: str, other: str) -> None:
    for a, b in ((one, other), (other, one)):
        found = compare(by_id(in_pod(1, "web", a)), by_id(in_pod(2, "web", b)))
        assert [each.change.path for each in found.differ[0].differences] == [
            "/annotations/value-1"
        ]
        assert found.uncompared == 0


def test_lists_of_texts_are_compared_without_ids() -> None:
    def arguments(*texts: Json) -> dict[str, History]:
        return by_id(history(1, {"process": {"args": [*texts]}}))

    before = arguments("serve", "--since", "2026-12-01T07:35:33Z")
    assert not compare(before, arguments("serve", "--since", "2026-12-01T08:35:33Z")).differs
    for changed in (("serve", "--since"), ("serve", "--until", "2026-12-01T08:35:33Z")):
        assert compare(before, arguments(*changed)).differs
    deep: Json = "x"
    for _ in range(5_000):
        deep = [deep]
    assert compare(arguments([deep]), arguments([deep, "y"])).differs


def test_a_path_with_an_id_has_its_owner() -> None:
    def one(number: int, value: str) -> History:
        return history(number, {}, ("10-x", {"annotations": {f"for-container-{number}": value}}))

    assert differences_of(compare(by_id(one(1, "a")), by_id(one(2, "b")))) == [
        ("shop/web/app", "/annotations/for-<container id>", "10-x", True, "10-x", True)
    ]


def test_real_specs_are_compared_if_both_sides_have_one() -> None:
    requested = env("A=1"), ("10-x", env("A=2"))
    unapplied = history(1, *requested, real=env("A=1"))
    applied = history(2, *requested, real=env("A=2"))
    (pair,) = compare(by_id(unapplied), by_id(applied)).differ
    assert pair.real and pair.differences[0].change.path == "/process/env/A"
    complete = history(3, *requested, real={**env("A=2"), "ociVersion": "1.2.0"})
    assert not compare(by_id(complete), by_id(history(4, *requested))).differs


def test_an_unapplied_change_does_not_belong_to_its_requester() -> None:
    requested = ("10-x", env("A=2")), ("20-y", env("A=3"))
    kept = history(1, {}, *requested, real=env("A=2"))
    applied = history(2, {}, *requested, real=env("A=3"))
    none = history(3, {}, *requested[:1], real={"process": {}})
    (one,), (*_, other) = (
        differences_of(compare(by_id(kept), by_id(each))) for each in (applied, none)
    )
    assert one == ("shop/web/app", "/process/env/A", "10-x", True, "20-y", True)
    # The variable was never set, so it has no remover.
    assert other[2:] == ("10-x", True, "runtime", False)


def test_a_value_visible_only_over_cri_may_be_a_plugins() -> None:
    def shares(value: int) -> Spec:
        return {"linux": {"resources": {"cpu": {"shares": value}}}}

    found = compare(by_id(history(1, {}, real=shares(1))), by_id(history(2, {}, real=shares(2))))
    anyone = "one of 00–99, or the runtime"
    assert differences_of(found) == [
        ("shop/web/app", "/linux/resources/cpu/shares", anyone, True, anyone, True)
    ]
    found = compare(by_id(history(1, {}, real={})), by_id(history(2, {}, real=shares(2))))
    assert differences_of(found)[0][4:] == (anyone, True)


def test_changes_after_the_cri_reply_count() -> None:
    one, other = (history(each, {}, real=env("A=1")) for each in (1, 2))
    (change,) = changes(env("A=1"), env("A=2"))
    later = ChangeStep(one.id, change, plugin("10-x"), (Evidence.TAP,), 9, 9)
    one.add([later], env("A=2"))
    assert differences_of(compare(by_id(one), by_id(other))) == [
        ("shop/web/app", "/process/env/A", "10-x", True, "runtime", True)
    ]


@pytest.mark.parametrize("name", CAPTURES)
def test_a_recording_does_not_differ_from_itself(name: str, files: dict[str, Path]) -> None:
    with Recording.open(files[name]) as one, Recording.open(files[name]) as other:
        comparison = compare_recordings(one, other)
    assert not comparison.differs
    assert set(comparison.same) >= {"shop/web/app", "shop/web/sidecar", "jobs/batch/broken"}


def test_two_containerds_differ_in_the_fields_dropped_by_the_older(files: dict[str, Path]) -> None:
    with (
        Recording.open(files["containerd-1.7.24"]) as one,
        Recording.open(files["containerd-2.1.9"]) as other,
    ):
        comparison = compare_recordings(one, other)
    assert comparison.only_a == comparison.only_b == ()
    assert "shop/web/app" in names(comparison.differ)
    assert {(each[1], each[4]) for each in differences_of(comparison)} == {
        ("/process/oomScoreAdj", "60-cpu-policy"),
        ("/linux/resources/pids/limit", "60-cpu-policy"),
    }


def test_ids_of_two_runtimes_are_replaced(files: dict[str, Path]) -> None:
    with (
        Recording.open(files["containerd-2.1.9"]) as one,
        Recording.open(files["cri-o-1.37"]) as other,
    ):
        comparison = compare_recordings(one, other)
        ids = {pod.id for each in (one, other) for pod in each.pods()}
        ids |= {pod.uid for each in (one, other) for pod in each.pods()}
        ids |= {container.id for each in (one, other) for container in each.containers()}
    assert "" not in ids
    shown = json.dumps([each.change for pair in comparison.differ for each in pair.differences])
    assert not [text for text in ids if text in shown]
    assert "/crio/crio-<container id>" in shown


class Follower:
    """A plugin that changes nothing."""

    def remove_container(self, _pod: PodSandbox, _container: Container) -> None:
        pass


class Injector:
    """A plugin that sets variables, and the time at which it did."""

    def __init__(self, started: str, **variables: str) -> None:
        self._adjustment = adjust(env=variables, annotations={"example.com/injected-at": started})

    def create_container(self, _pod: PodSandbox, _container: Container) -> ContainerAdjustment:
        return self._adjustment


def test_an_upgraded_plugin_differs_only_in_what_it_changed(tmp_path: Path) -> None:
    """Ids and times are no difference, also if the plugin sets them."""
    old = Injector("2026-12-01T07:35:33Z", LEVEL="info", REGION="north", OLD="1")
    new = Injector("2026-12-01T08:35:33Z", LEVEL="debug", REGION="north", NEW="2")
    outputs = [tmp_path / f"{number}.nriscope.db" for number in range(2)]
    for output, chain in zip(
        outputs,
        ({"30-injector": old, "40-former": Follower()}, {"30-injector": new, "50-new": Follower()}),
        strict=True,
    ):
        run(replay(job_of(RECORDINGS / "demo.nriscope.db", chain, output=output)))
    with Recording.open(outputs[0]) as before, Recording.open(outputs[1]) as after:
        found = compare_recordings(before, after)
    owner = "30-injector (replay)"
    plugins, changed = [*rows(found)][:2], [*rows(found)][2:]
    assert [(row.name, row.what) for row in plugins] == [
        ("40-former", "- plugin"),
        ("50-new", "+ plugin"),
    ]
    assert {row.name for row in changed} >= {CHECKOUT_API, REPLICA_API}
    assert {(row.what, row.values, row.owners) for row in changed} == {
        ("~ env LEVEL", ('"info"', '"debug"'), (owner, owner)),
        ("- env OLD", ('"1"', "—"), (owner, "")),
        ("+ env NEW", ("—", '"2"'), ("", owner)),
    }
    assert found.uncompared == len(found.differ) == len(changed) / 3


def test_a_recording_without_plugins_does_not_show_their_absence(tmp_path: Path) -> None:
    demo = RECORDINGS / "demo.nriscope.db"
    output = tmp_path / "r.nriscope.db"
    run(replay(job_of(demo, {"30-injector": Follower()}, output=output)))
    passive = recording(tmp_path / "passive.nriscope.db", life(container()))
    with (
        Recording.open(output) as replayed,
        Recording.open(passive) as other,
        Recording.open(demo) as tapped,
    ):
        found = [compare_recordings(replayed, each) for each in (replayed, other, tapped)]
    assert [each.plugins_only_a for each in found] == [(), (), ("30-injector",)]
    assert [bool(each.plugins_only_b) for each in found] == [False, False, True]
