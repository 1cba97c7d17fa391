# SPDX-License-Identifier: Apache-2.0
"""iSulad's merging, compared with what tests of a built iSulad showed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RuntimeKilled
from nri_scope.nri.merging import IsuladCreation, IsuladStopping
from nri_scope.nri.no_change import EMPTY_ADJUSTMENT
from nri_scope.oci import isulad_spec
from nri_scope.oci.isulad_spec import creation_refusal
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


def refusal(creation: IsuladCreation) -> tuple[str, str]:
    found = creation_refusal(creation)
    return ("", "") if found is None else (found.reason, found.plugin)


def reasons(creation: IsuladCreation) -> dict[str, str]:
    return {one.path: one.reason for one in creation.dropped}


def test_annotations_mounts_devices_and_the_memory_limit_are_applied() -> None:
    reply = adjusting(
        annotate("v"),
        lambda to: to.mounts.add(destination="/data"),
        lambda to: to.linux.devices.add(path="/dev/null"),
        lambda to: setattr(to.linux.resources.memory.limit, "value", 7 << 20),
    )
    creation = merged((A, reply))
    assert creation.adjustment == reply.adjust
    assert creation.applied == [(A, reply.adjust)]
    assert not creation.dropped and refusal(creation) == ("", "")


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (lambda to: to.args.append("sh"), "/process/args"),
        (lambda to: setattr(to.linux, "cgroups_path", "/x"), "/linux/cgroupsPath"),
        (lambda to: setattr(to.linux.oom_score_adj, "value", 7), "/process/oomScoreAdj"),
        (lambda to: setattr(to.linux.resources.pids, "limit", 7), "/linux/resources/pids/limit"),
        (lambda to: to.mounts.add(destination="-/data"), "/mounts/~1data"),
    ],
)
def test_these_adjustments_are_ignored(part: Part, path: str) -> None:
    creation = merged((A, adjusting(part)))
    assert "iSulad ignores" in reasons(creation)[path]
    assert not creation.adjustment.ByteSize() and refusal(creation) == ("", "")


@pytest.mark.parametrize("changes", [{"old": "2"}, {"-old": ""}, {"-old": "", "old": "2"}])
def test_an_existing_annotation_keeps_its_value(changes: dict[str, str]) -> None:
    creation = merged((A, adjusting(lambda to: to.annotations.update(changes))))
    assert "iSulad restores" in reasons(creation)["/annotations/old"]
    assert not creation.adjustment.annotations


def test_a_variable_fails_the_creation_and_the_removal_of_one_drops_the_rest() -> None:
    variable = adjusting(lambda to: to.env.add(key="A", value="1"))
    assert "environment variable" in refusal(merged((A, variable)))[0]
    gone = merged((A, variable), (B, adjusting(lambda to: to.env.add(key="-A"))))
    assert refusal(gone) == ("", "")
    removal = merged(
        (A, adjusting(annotate("v"), lambda to: to.env.add(key="-A"), cpu(1, "0", "0")))
    )
    assert refusal(removal) == ("", "")
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
    assert creation.adjustment == adjusting(annotate("v"), lambda to: to.hooks.SetInParent()).adjust
    assert {"/hooks/prestart", "/linux/resources/cpu/shares", "/process/rlimits/RLIMIT_CORE"} <= (
        reasons(creation).keys()
    )


@pytest.mark.parametrize(("cpus", "mems", "fails"), [("0", "0", False), ("0", "", True),
                                                     ("", "0", True), ("", "", True)])  # fmt: skip
def test_a_cpu_without_both_cpus_and_mems_fails(cpus: str, mems: str, fails: bool) -> None:
    failure, plugin = refusal(merged((A, adjusting(cpu(5, cpus, mems)))))
    assert (bool(failure), plugin) == (fails, A if fails else "")


def test_limits_of_an_rlimit_are_swapped() -> None:
    creation = merged((A, adjusting(lambda to: to.rlimits.add(type="RLIMIT_CORE", soft=1, hard=2))))
    assert [(one.soft, one.hard) for one in creation.adjustment.rlimits] == [(2, 1)]
    (altered,) = isulad_spec.altered(creation)
    assert altered == (
        A, "/process/rlimits/RLIMIT_CORE", {"type": "RLIMIT_CORE", "hard": 2, "soft": 1},
        isulad_spec.SWAPPED,
    )  # fmt: skip
    assert isulad_spec.start_refusal(creation) is not None


def test_the_last_annotation_wins_but_the_first_cpu_and_the_losers_annotations_stay() -> None:
    creation = merged((A, adjusting(annotate("first"))), (B, adjusting(annotate("last"))))
    assert creation.adjustment.annotations == {"k": "last"}
    loser = adjusting(lambda to: to.annotations.update({"l": "1"}), cpu(2, "1", "1"))
    creation = merged((A, adjusting(cpu(1, "0", "0"))), (B, loser))
    assert creation.adjustment.linux.resources.cpu.shares.value == 1
    assert creation.adjustment.annotations == {"l": "1"}
    assert "both tried to set" in reasons(creation)["/linux/resources/cpu/shares"]


def test_a_reply_without_adjust_kills_isulad() -> None:
    merged((A, api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT)))
    with pytest.raises(RuntimeKilled, match="would kill iSulad"):
        merged((A, api.CreateContainerResponse()))


OTHER, NOBODY = api.ContainerUpdate(container_id="other"), api.ContainerUpdate()
HOOK: Part = lambda to: to.hooks.prestart.add(path="/hook")  # noqa: E731
NOTHING: Part = lambda to: None  # noqa: E731


@pytest.mark.parametrize(
    ("part", "updates", "dies"),
    [
        (NOTHING, [OTHER], True),
        (NOTHING, [OTHER, NOBODY], True),
        # iSulad stops at the first failure, and so never looks at these.
        (NOTHING, [NOBODY, OTHER], False),
        (HOOK, [OTHER], False),
        (lambda to: to.env.add(key="-A"), [OTHER], False),
        (lambda to: to.mounts.add(destination="-/a"), [OTHER], False),
    ],
)
def test_an_update_kills_isulad_unless_the_reply_is_cut_before_it(
    part: Part, updates: list[api.ContainerUpdate], dies: bool
) -> None:
    reply = adjusting(part)
    reply.update.extend(updates)
    if dies:
        with pytest.raises(RuntimeKilled, match="would kill iSulad"):
            merged((A, reply))
        return
    dropped = [one for one in merged((A, reply)).dropped if one.path == "/linux/resources"]
    assert [one.container_id for one in dropped] == [one.container_id for one in updates]


@pytest.mark.parametrize(("updates", "dies"), [([], False), ([OTHER], True), ([NOBODY], False)])
def test_an_update_in_a_stop_kills_isulad(updates: list[api.ContainerUpdate], dies: bool) -> None:
    stopping = IsuladStopping(api.StopContainerRequest())
    reply = api.StopContainerResponse(update=updates)
    if dies:
        with pytest.raises(RuntimeKilled):
            stopping.apply(reply, A)
    else:
        stopping.apply(reply, A)
        assert len(stopping.dropped) == len(updates) and not stopping.updates


def test_owners_exist_only_after_the_first_resource() -> None:
    memory: Part = lambda to: setattr(to.linux.resources.memory.limit, "value", 8 << 20)  # noqa: E731
    mount: Part = lambda to: to.mounts.add(destination="/a")  # noqa: E731
    # The second is the first to claim the mount, and the third is refused.
    replies = [adjusting(mount, memory), adjusting(mount), adjusting(mount, annotate("c"))]
    creation = merged(*zip((A, B, "30-c"), replies, strict=True))
    assert [one.destination for one in creation.adjustment.mounts] == ["/a", "/a"]
    assert creation.adjustment.annotations == {"k": "c"}
    assert "30-c and 20-b both tried to set mounts /a" in reasons(creation)["/mounts/~1a"]


def test_a_removal_releases_an_earlier_plugins_member() -> None:
    memory: Part = lambda to: setattr(to.linux.resources.memory.limit, "value", 8 << 20)  # noqa: E731

    def replacing(plugin: str) -> api.CreateContainerResponse:
        return adjusting(
            lambda to: to.annotations.update({"-k": "", "k": plugin}),
            lambda to: to.mounts.add(destination="-/a"),
            lambda to: to.mounts.add(destination="/a", source=plugin),
        )

    creation = merged(("00-m", adjusting(memory)), (A, replacing(A)), (B, replacing(B)))
    assert creation.adjustment.annotations == {"k": B}
    assert [(one.destination, one.source) for one in creation.adjustment.mounts] == [("/a", B)]


def test_realtime_fields_exclude_each_other_and_drop_the_rest() -> None:
    def realtime(to: api.ContainerAdjustment) -> None:
        cpu = to.linux.resources.cpu
        cpu.realtime_runtime.value, cpu.realtime_period.value = 1, 2
        cpu.cpus = cpu.mems = "0"

    creation = merged((A, adjusting(realtime)))
    assert (
        creation.adjustment
        == adjusting(lambda to: setattr(to.linux.resources.cpu.realtime_runtime, "value", 1)).adjust
    )
    assert refusal(creation) == ("", "") and isulad_spec.start_refusal(creation) is not None


def test_no_recorded_reply_to_a_real_isulad_would_have_killed_it() -> None:
    replies = [one for one in exchanges("isulad") if one.method == "CreateContainer"]
    assert len(replies) == 25
    for one in replies:
        request = api.CreateContainerRequest.FromString(one.request)
        creation = IsuladCreation(request)
        creation.apply(api.CreateContainerResponse.FromString(one.reply), one.plugin)
        assert refusal(creation) == ("", "") and not creation.dropped
