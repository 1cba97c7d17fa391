# SPDX-License-Identifier: Apache-2.0
"""Outcomes of requests in recordings of real runtimes: `diff`, `blame`, `log` and `report`.

The truth is in tests/data/cases/README.md; it was read from the plugins' logs, from config.json and
from cgroups.
"""

from __future__ import annotations

import json
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nri_scope.cli.main import main

CASES = Path(__file__).parents[1] / "data" / "cases"
_CPU, _MEMORY = "/linux/resources/cpu", "/linux/resources/memory"
SHARES, QUOTA, CPUS = f"{_CPU}/shares", f"{_CPU}/quota", f"{_CPU}/cpus"
LIMIT, SOFT = f"{_MEMORY}/limit", f"{_MEMORY}/reservation"
ANYONE = "one of 00–99, or the runtime"
MIB = 1 << 20
HAPPENED = {"seen", "in effect"}
Json: TypeAlias = "dict[str, Any]"


def printed(*command: str) -> str:
    output = StringIO()
    with redirect_stdout(output), suppress(SystemExit):
        main(list(command))
    return output.getvalue()


class Case:
    """What the commands print about one recording."""

    def __init__(self, name: str) -> None:
        self.path = str(CASES / f"{name}.nriscope.zip")
        self.diff: Json = json.loads(printed("diff", self.path, "--all", "--format", "json"))
        self.text = " ".join(printed("diff", self.path).split())

    def changes(self, container: str, *paths: str) -> list[tuple[object, str]]:
        """Return values and owners of a container's changes in order."""
        return self._steps("changes", container, paths)

    def requests(self, container: str, *paths: str) -> list[tuple[object, str]]:
        """Return values and outcomes of a container's other requests, in order."""
        return self._steps("requests", container, paths)

    def _steps(self, kind: str, container: str, paths: tuple[str, ...]) -> list[tuple[object, str]]:
        return [
            (one["after"], one["owner"] if kind == "changes" else one["outcome"]["kind"])
            for one in self.diff[kind]
            if one["container"] == container and (not paths or one["path"] in paths)
        ]

    def failed(self, event: str) -> set[str]:
        """Return the containers of the events with this name that failed."""
        rows = self.diff["events"]
        return {row["container"] for row in rows if row["event"] == event and row["failure"]}

    def blame(self, container: str) -> dict[str, tuple[object, str]]:
        """Return the lines with their owners by path."""
        found = json.loads(printed("blame", self.path, container, "--full", "--format", "json"))
        return {one["path"]: (one["value"], one["owner"]) for one in found["lines"]}

    def operations(self) -> dict[int, Json]:
        """Return the lines of `log --operations`, by the id of the first event."""
        lines = printed("log", self.path, "--operations", "--format", "jsonl").splitlines()
        return {one["id"]: one for one in map(json.loads, lines) if "id" in one}

    def findings(self) -> list[str]:
        """Return the titles of the findings of `report --diagnose`."""
        found = json.loads(printed("report", self.path, "--diagnose", "--format", "json"))
        return [one["title"] for one in found["findings"]]


def test_the_remover_of_an_annotation_is_a_plugin_and_its_outcome_known() -> None:
    case = Case("c242n5-annotation-removed-by-later-plugin-live-cri")
    # The runtime applies a removal and a new value of one key in random order.
    removers = "one of 10-repl, 20-set, 40-rm"
    for app in (0, 1, 2):
        name, is_kept = f"shop/web/app{app}", app == 1
        expected = [] if is_kept else [(None, removers)]
        setter = [("from20", "20-set")] if is_kept else []
        assert case.changes(name, "/annotations/a") == setter + expected
        assert case.changes(name, "/annotations/note") == [("new", "10-repl")]
        assert case.changes(name, "/annotations/gone") == [(None, removers)]
        assert [kind for _, kind in case.requests(name)] == ["superseded"] * (not is_kept)
        lines = case.blame(name)
        assert lines["/annotations/note"] == ("new", "10-repl")
        assert lines["/annotations/b"] == ("from20", "20-set")
        assert lines.get("/annotations/a") == (("from20", "20-set") if is_kept else None)
        assert "/annotations/gone" not in lines
    assert "not known" not in case.text
    assert "runtime, " not in case.text and "by the runtime" not in case.text
    created = [one for one in case.operations().values() if one["event"] == "CreateContainer"]
    assert len(created) == 3
    assert {kind for one in created for kind in one["outcomes"]} <= {"in effect", "superseded"}
    assert case.findings() == []


def test_nobody_changed_an_annotation_back_that_events_repeat() -> None:
    case = Case("c242n5-cri-annotation-replaced-tap40")
    for app in range(4):
        name = f"shop/web/app{app}"
        assert case.changes(name) == [("1", "40-mid")]
        assert case.requests(name) == []
        # That app1 has none is only in config.json, which this recording does not have.
        shown = case.blame(name)["/annotations/note"]
        assert shown == ("new", "one of 00–39, or Pod spec/CRI")
    assert case.findings() == []


def test_an_update_seen_from_the_last_index_is_by_the_cri_or_a_plugin() -> None:
    case = Case("c242-update-by-plugin-record-index99")
    owner = "CRI request, or one of 00–98"
    assert case.changes("shop/u/a", SHARES, LIMIT) == [(50 * MIB, owner), (777, owner)]
    assert f"by a {owner}" in case.text
    lines = case.blame("shop/u/a")
    assert lines[SHARES] == (777, owner)
    assert lines[LIMIT] == (50 * MIB, owner)
    assert case.findings() == []


def test_a_refused_update_of_another_container_is_no_change() -> None:
    case = Case("c242-refused-update-of-other-tap")
    assert case.requests("shop/u/a") == [("77", "dropped")]
    assert case.changes("shop/u/a") == []
    assert case.changes("shop/u/b") == [(999, "20-up")]
    assert not case.failed("CreateContainer")
    assert CPUS not in case.blame("shop/u/a")
    assert case.blame("shop/u/b")[SHARES] == (999, "20-up")
    (creation,) = [
        operation
        for operation in case.operations().values()
        if (operation["event"], operation["container"]) == ("CreateContainer", "bad")
    ]
    assert dict(zip(creation["changed"], creation["outcomes"], strict=True)) == {
        CPUS: "dropped",
        SHARES: "seen",
    }
    assert case.findings() == ["cpu.cpus, requested by 20-up, was dropped"]


def test_updates_that_runc_refused_have_no_post_event_and_no_effect() -> None:
    case = Case("c242-failed-updates-live-cri")
    assert [kind for _, kind in case.requests("shop/u/a", CPUS)] == ["refused", "refused"]
    assert case.requests("shop/u/a", SHARES) == [
        (300, "superseded"),
        (302, "refused"),
        (303, "refused"),
        (304, "dropped"),
    ]
    assert case.changes("shop/u/a", SHARES) == [(777, "one of 01–29"), (301, "CRI request")]
    assert case.blame("shop/u/a")[SHARES] == (301, "CRI request")
    assert CPUS not in case.blame("shop/u/a")
    operations = case.operations()
    assert [operations[event]["problem"] for event in (28, 35, 41, 45, 49)] == [
        *("", "", "failed", "failed", "")
    ]
    assert "UpdateContainer was not followed by PostUpdateContainer" in case.findings()


def test_an_update_that_a_plugin_voids_changes_nothing() -> None:
    case = Case("c242-empty-own-update-voids-resize-live-cri")
    assert case.changes("shop/u/a") == []
    assert {kind for _, kind in case.requests("shop/u/a")} == {"dropped"}
    lines = case.blame("shop/u/a")
    assert [lines[path] for path in (SHARES, LIMIT)] == [
        (512, "Pod spec/CRI"),
        (64 * MIB, "Pod spec/CRI"),
    ]


@pytest.mark.parametrize("runtime", ["c242", "crio"])
class TestUpdatesOfOtherContainers:
    @pytest.fixture
    def case(self, runtime: str) -> Case:
        return Case(f"{runtime}-updates-live-validate-cri")

    def test_take_effect_in_order(self, case: Case, runtime: str) -> None:
        values = [(value, owner) for value, owner in case.changes("shop/up/a", SHARES)]
        if runtime == "c242":
            assert values[:1] == [(333, "20-up")]
        assert values[-3:] == [(444, "20-up"), (700, "one of 01–29"), (900, ANYONE)]
        assert case.changes("shop/up/a", LIMIT)[0] == (48 * MIB, "20-up")
        assert (100 * MIB, "CRI request") in case.changes("shop/up/a", LIMIT)
        assert case.changes("shop/up/a", QUOTA) == [(30000, "20-up"), (22222, "one of 31–98")]
        assert case.changes("shop/up/a", CPUS) == [("1", "20-up"), ("0", "one of 31–98")]
        assert (555, "40-late") in case.changes("shop/up/b", SHARES)
        assert case.changes("shop/up/c", SHARES) == [(222, "20-up")]

    def test_are_no_changes_where_the_runtime_refused_them(self, case: Case, runtime: str) -> None:
        assert ("77", "dropped") in case.requests("shop/up/a", CPUS)
        assert case.requests("shop/up/b", CPUS) == [("77", "dropped")]
        for container in ("a", "b"):
            lines = case.blame(f"shop/up/{container}")
            assert lines.get(CPUS, ("",))[0] != "77"
        # No event of CRI-O and no answer of its CRI carries the soft limit.
        assert {kind for _, kind in case.requests("shop/up/a", SOFT)} == {
            "dropped" if runtime == "c242" else "requested"
        }
        assert case.changes("shop/up/a", SOFT) == []

    def test_fail_no_creation_without_evidence(self, case: Case, runtime: str) -> None:
        assert not case.failed("CreateContainer")
        doubtful = {one["container"] for one in case.diff["events"] if one["doubt"]}
        assert doubtful == (set() if runtime == "c242" else {"shop/up/bad"})
        titles = case.findings()
        assert "cpu.cpus, requested by 20-up, was dropped" in titles
        assert not any("20-up, was refused" in title for title in titles)

    def test_belong_to_the_last_who_changed_the_value(self, case: Case, runtime: str) -> None:
        lines = case.blame("shop/up/a")
        assert lines[SHARES] == (900, ANYONE)
        assert lines[QUOTA] == (22222, "one of 31–98")
        assert lines[CPUS] == ("0", "one of 31–98")
        assert case.blame("shop/up/c")[SHARES] == (222, "20-up")


AT_CREATION = frozenset(
    {"cdibad", "blockio", "envdup", "propag", "propsh", "mnttwice", "argsplain2", "nsrm2"}
)
AT_START = frozenset({"unified", "rlbad", "mntnone", "hookbad", "oombad", "sysctlbad", "cpusbad"})


@pytest.fixture(scope="module")
def odd() -> Case:
    return Case("c242n5-odd-fields-start-failures-live-cri")


class TestStartFailures:
    def test_are_told_from_failed_creations(self, odd: Case) -> None:
        assert odd.failed("CreateContainer") == {f"shop/odd/{name}" for name in AT_CREATION}
        assert odd.failed("ContainerStatus") == {f"shop/odd/{name}" for name in AT_START}

    def test_refuse_all_requests(self, odd: Case) -> None:
        for name in sorted(AT_CREATION | AT_START):
            container = f"shop/odd/{name}"
            assert odd.changes(container) == []
            assert {kind for _, kind in odd.requests(container)} <= {"refused", "dropped"}

    def test_have_the_request_in_blame(self, odd: Case) -> None:
        for name, path in (
            ("hookbad", "/hooks/createRuntime/~1does~1not~1exist"),
            ("sysctlbad", "/linux/sysctl/kernel.pid_max"),
            ("cpusbad", CPUS),
        ):
            text = " ".join(printed("blame", odd.path, f"shop/odd/{name}").split())
            assert "never ran" in text
            found = json.loads(printed("blame", odd.path, f"shop/odd/{name}", "--format", "json"))
            asked = {
                one["path"]: (one["owner"], one["outcome"]["kind"]) for one in found["requests"]
            }
            assert asked[path] == ("20-odd", "refused")

    def test_a_removed_sysctl_is_gone_and_the_runtime_is_no_remover(self, odd: Case) -> None:
        name, path = "shop/odd/sysctl2", "/linux/sysctl/kernel.msgmax"
        assert odd.changes(name, path) == [(None, "one of 10-first, 20-odd, 60-late")]
        assert odd.requests(name, path) == [("5555", "superseded")]
        assert path not in odd.blame(name)


def test_a_conflict_of_one_plugin_with_itself_concerns_only_the_variable_that_it_asked_for() -> (
    None
):
    case = Case("crio-odd-fields-tap")
    asked = [one for one in case.diff["requests"] if one["container"] == "shop/odd/envdup"]
    assert {one["path"] for one in asked} == {"/process/env/E"}
    assert {(one["owner"], one["outcome"]["kind"]) for one in asked} == {("20-odd", "refused")}
    assert "shop/odd/envdup" in case.failed("CreateContainer")
    assert case.blame("shop/odd/pids0")["/linux/resources/pids/limit"][0] == -1
    assert not case.requests("shop/odd/pids0")
    assert "pids.limit, requested by 20-odd, was dropped" not in case.findings()


def test_without_post_create_an_update_in_a_failed_creation_stays_open() -> None:
    case = Case("crio-failed-creation-update-of-other-tap-no-postcreate")
    assert case.changes("shop/up/a") == []
    assert (
        sorted(kind for _, kind in case.requests("shop/up/a", SHARES, LIMIT, SOFT))
        == ["requested"] * 3
    )
    creation = case.operations()[6]
    assert {*creation["outcomes"]} == {"requested", "dropped"}
    assert "created by" not in printed("blame", case.path, "shop/up/b")


def test_a_lost_sysctl_is_not_in_effect() -> None:
    case = Case("crio-sysctl-replaced-lost-probes-cri")
    path = "/linux/sysctl/kernel.shm_rmid_forced"
    lost = [
        one
        for one in case.diff["changes"] + case.diff["requests"]
        if one["path"] == path and one["event"] in (109, 110)
    ]
    assert {(one["before"], one["after"]) for one in lost} == {(None, "0"), ("0", "1")}
    assert not {one["outcome"]["kind"] for one in lost} & HAPPENED


def test_a_plugin_that_was_late_and_stayed_connected_changes_the_next_container() -> None:
    case = Case("c242n5-keep-connected-live")
    path = "/process/env/BAD"
    assert case.changes("shop/f/slow", path) == []
    assert case.changes("shop/f/after0", path) == [("30", "one of 21–34")]
    assert path not in case.blame("shop/f/slow")
    assert case.blame("shop/f/after0")[path] == ("30", "one of 21–34")
    assert not case.failed("CreateContainer") - {"shop/f/err"}


def test_a_container_with_two_names_is_one() -> None:
    case = Case("c242n5-container-name-annotation-changed")
    # The PostCreateContainer of other/pz110/c2 has the name that a plugin set.
    assert case.failed("CreateContainer") == {"shop/pz111/c0"}
    for name in ("other/pz110/c2", "other/pz110/40"):
        found = json.loads(printed("blame", case.path, name, "--full", "--format", "json"))
        assert found["container"]["created"] and not found["container"]["failure"]
        assert found["changes"]
    assert case.blame("other/pz110/c2") == case.blame("other/pz110/40")
