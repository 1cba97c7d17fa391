# SPDX-License-Identifier: Apache-2.0
"""Tests that replay containers that start and end beside others, which have to move."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import ParseDict
from nri_scope.errors import UsageError
from nri_scope.plugin import api
from nri_scope.pytest_plugin import NriReplay
from nri_scope.replay.testing import Result

from cpu_pool import CpuPool, whole_cpus

PATH = "/linux/resources/cpu/cpus"

pytestmark = pytest.mark.nri_recording("pods.yaml")


def moves(result: Result) -> list[tuple[str, str, object]]:
    """Return event, container and its new CPUs, for each change that was requested."""
    return [
        (event.event, one.container, one.change.after)
        for event in result.events
        for one in event.changes
        if one.change.path == PATH
    ]


def test_others_move_when_cpus_are_taken_and_returned(nri_replay: NriReplay) -> None:
    result = nri_replay(CpuPool("0-3"))
    result.assert_ok()
    assert moves(result) == [
        ("Synchronize", "shop/web/app", "0,1,2,3"),
        ("Synchronize", "shop/web/sidecar", "0,1,2,3"),
        # Two CPUs for the solver.
        ("CreateContainer", "hpc/solver/solver", "0,1"),
        ("CreateContainer", "shop/web/app", "2,3"),
        ("CreateContainer", "shop/web/sidecar", "2,3"),
        ("CreateContainer", "hpc/solver/sidecar", "2,3"),
        # One for the tuner.
        ("CreateContainer", "hpc/tuner/tuner", "2"),
        ("CreateContainer", "shop/web/app", "3"),
        ("CreateContainer", "shop/web/sidecar", "3"),
        ("CreateContainer", "hpc/solver/sidecar", "3"),
        # Eight are not available.
        ("CreateContainer", "data/greedy/app", "3"),
        # The solver and the tuner end.
        *(
            ("StopContainer", name, cpus)
            for cpus in ("0,1,3", "0,1,2,3")
            for name in (
                "shop/web/app",
                "shop/web/sidecar",
                "hpc/solver/sidecar",
                "data/greedy/app",
            )
        ),
        ("CreateContainer", "hpc/late/late", "0,1,2"),
        ("CreateContainer", "shop/web/app", "3"),
        ("CreateContainer", "shop/web/sidecar", "3"),
        ("CreateContainer", "hpc/solver/sidecar", "3"),
        ("CreateContainer", "data/greedy/app", "3"),
        # Those that ended do not move any more.
        ("StopContainer", "shop/web/app", "0,1,2,3"),
        ("StopContainer", "shop/web/sidecar", "0,1,2,3"),
    ]


def test_containers_keep_their_cpus_when_the_runtime_restarts(nri_replay: NriReplay) -> None:
    plugin = CpuPool("0-3")
    # After the start of the tuner, the fourteenth event.
    result = nri_replay(plugin, faults=["restart-runtime:after=14"])
    result.assert_ok()
    assert len([reply for reply in result.replies if reply.event == "Synchronize"]) == 2
    assert [cpus for event, name, cpus in moves(result) if name == "hpc/tuner/tuner"] == ["2"]
    assert not plugin.exclusive and not plugin.unconfirmed


def test_cpus_of_a_container_that_is_not_created_are_returned(nri_replay: NriReplay) -> None:
    # Without PostCreateContainer, as after a creation that fails after the plugins have replied.
    plugin = CpuPool("0-3", creation_s=0)
    result = nri_replay(plugin, faults=["skip:PostCreateContainer"])
    result.assert_ok()
    # An unsolicited update, before the container stops.
    assert ("UpdateContainers", "shop/web/app", "0,1,2,3") in moves(result)


@pytest.mark.parametrize(
    ("shares", "quota", "count"),
    [(2048, 200_000, 2), (1024, 200_000, 0), (1536, 150_000, 0), (512, 0, 0), (1024, 0, 0)],
)
def test_whole_cpus_are_request_and_limit(shares: int, quota: int, count: int) -> None:
    cpu = {"shares": {"value": shares}, "quota": {"value": quota}, "period": {"value": 100_000}}
    container = ParseDict({"linux": {"resources": {"cpu": cpu}}}, api.Container())
    assert whole_cpus(container) == count


def test_cpus_of_the_configuration_replace_those_of_the_option(nri_replay: NriReplay) -> None:
    plugin = CpuPool("0-3")
    nri_replay(plugin, config="4-6,9\n").assert_ok()
    assert plugin.shared == "4,5,6,9"


def test_too_few_cpus_are_rejected() -> None:
    for cpus, problem in [("3", "3: too few CPUs"), ("", "none: too few"), ("a-b", "not a list")]:
        with pytest.raises(UsageError, match=problem):
            CpuPool("").configure(cpus, None)  # type: ignore[arg-type]
