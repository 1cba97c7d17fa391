# SPDX-License-Identifier: Apache-2.0
"""iSulad's merging, compared with what tests of a built iSulad showed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RuntimeKilled
from nri_scope.nri.merging import IsuladCreation, IsuladStopping
from nri_scope.nri.no_change import EMPTY_ADJUSTMENT
from tests.nri.captures import exchanges

from .chains import A, B, adjusting

Part = Callable[[api.ContainerAdjustment], object]


def merged(*replies: tuple[str, api.CreateContainerResponse]) -> IsuladCreation:
    request = api.CreateContainerRequest(container=api.Container(id="c", annotations={"old": "1"}))
    creation = IsuladCreation(request)
    for plugin, reply in replies:
        creation.apply(reply, plugin)
    assert creation.request == request, "every plugin gets the original"
    return creation


def cpu(shares: int, cpus: str = "", mems: str = "") -> Part:
    def adjust(to: api.ContainerAdjustment) -> None:
        to.linux.resources.cpu.shares.value = shares
        to.linux.resources.cpu.cpus, to.linux.resources.cpu.mems = cpus, mems

    return adjust


def annotate(value: str) -> Part:
    return lambda to: to.annotations.update({"k": value})


def reasons(creation: IsuladCreation) -> dict[str, str]:
    return {one.path: one.reason for one in creation.dropped}


def test_annotations_mounts_devices_and_the_memory_limit_are_applied() -> None:
    reply = adjusting(
        annotate("v"),
        lambda to: to.mounts.add(destination="/data"),
        lambda to: to.linux.devices.add(path="/dev/null"),
        lambda to: setattr(to.linux.resources.memory.limit, "value", 7),
    )
    creation = merged((A, reply))
    assert creation.adjustment == reply.adjust
    assert creation.applied == [(A, reply.adjust)]
    assert not creation.dropped and creation.failure == ("", "")


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (lambda to: to.args.append("sh"), "/process/args"),
        (lambda to: setattr(to.linux, "cgroups_path", "/x"), "/linux/cgroupsPath"),
        (lambda to: setattr(to.linux.oom_score_adj, "value", 7), "/process/oomScoreAdj"),
        (lambda to: setattr(to.linux.resources.pids, "limit", 7), "/linux/resources/pids/limit"),
        (lambda to: to.annotations.update({"-old": ""}), "/annotations/old"),
        (lambda to: to.mounts.add(destination="-/data"), "/mounts/~1data"),
    ],
)
def test_these_adjustments_are_ignored(part: Part, path: str) -> None:
    creation = merged((A, adjusting(part)))
    assert "iSulad ignores" in reasons(creation)[path]
    assert not creation.adjustment.annotations and not creation.adjustment.mounts
    assert creation.failure == ("", "")


def test_a_variable_fails_the_creation_and_the_removal_of_one_drops_the_rest() -> None:
    assert (
        "environment variable"
        in merged((A, adjusting(lambda to: to.env.add(key="A", value="1")))).failure[0]
    )
    removal = merged(
        (A, adjusting(annotate("v"), lambda to: to.env.add(key="-A"), cpu(1, "0", "0")))
    )
    assert removal.failure == ("", "")
    assert removal.adjustment == adjusting(annotate("v")).adjust
    assert "/linux/resources/cpu/shares" in reasons(removal)


def test_hooks_drop_the_linux_part_and_the_rlimits_of_the_same_reply() -> None:
    reply = adjusting(
        annotate("v"),
        lambda to: to.hooks.prestart.add(path="/hook"),
        cpu(1, "0", "0"),
        lambda to: to.rlimits.add(type="RLIMIT_CORE", soft=1, hard=2),
    )
    creation = merged((A, reply))
    assert creation.adjustment == adjusting(annotate("v")).adjust
    assert {"/hooks/prestart", "/linux/resources/cpu/shares", "/process/rlimits/RLIMIT_CORE"} <= (
        reasons(creation).keys()
    )


@pytest.mark.parametrize(("cpus", "mems", "fails"), [("0", "0", False), ("0", "", True),
                                                     ("", "0", True), ("", "", True)])  # fmt: skip
def test_a_cpu_without_both_cpus_and_mems_fails(cpus: str, mems: str, fails: bool) -> None:
    failure, plugin = merged((A, adjusting(cpu(5, cpus, mems)))).failure
    assert (bool(failure), plugin) == (fails, A if fails else "")


def test_limits_of_an_rlimit_are_swapped() -> None:
    creation = merged((A, adjusting(lambda to: to.rlimits.add(type="RLIMIT_CORE", soft=1, hard=2))))
    assert [(one.soft, one.hard) for one in creation.adjustment.rlimits] == [(2, 1)]
    assert "swaps" in reasons(creation)["/process/rlimits/RLIMIT_CORE"]


def test_the_last_annotation_wins_but_the_first_cpu_and_the_losers_annotations_stay() -> None:
    creation = merged((A, adjusting(annotate("first"))), (B, adjusting(annotate("last"))))
    assert creation.adjustment.annotations == {"k": "last"}
    loser = adjusting(lambda to: to.annotations.update({"l": "1"}), cpu(2, "1", "1"))
    creation = merged((A, adjusting(cpu(1, "0", "0"))), (B, loser))
    assert creation.adjustment.linux.resources.cpu.shares.value == 1
    assert creation.adjustment.annotations == {"l": "1"}
    assert "both tried to set" in reasons(creation)["/linux/resources/cpu/shares"]


def test_a_reply_without_adjust_or_with_an_update_kills_isulad() -> None:
    merged((A, api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT)))
    updating = api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT)
    updating.update.add(container_id="other")
    for reply in (api.CreateContainerResponse(), updating):
        with pytest.raises(RuntimeKilled, match="would kill iSulad"):
            merged((A, reply))
    stopping = IsuladStopping(api.StopContainerRequest())
    stopping.apply(api.StopContainerResponse(), A)
    with pytest.raises(RuntimeKilled):
        stopping.apply(api.StopContainerResponse(update=updating.update), A)


def test_no_recorded_reply_to_a_real_isulad_would_have_killed_it() -> None:
    replies = [one for one in exchanges("isulad") if one.method == "CreateContainer"]
    assert len(replies) == 25
    for one in replies:
        request = api.CreateContainerRequest.FromString(one.request)
        creation = IsuladCreation(request)
        creation.apply(api.CreateContainerResponse.FromString(one.reply), one.plugin)
        assert creation.failure == ("", "") and not creation.dropped
