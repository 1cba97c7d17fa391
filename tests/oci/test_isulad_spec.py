# SPDX-License-Identifier: Apache-2.0
"""Laws of iSulad's merging and of its application to a spec, over generated replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RuntimeKilled
from nri_scope.nri.changes import requested_fields
from nri_scope.nri.merging import IsuladCreation
from nri_scope.oci import isulad_spec
from nri_scope.oci.isulad_spec import MachineCpus
from nri_scope.specs import value_at
from nri_scope.specs.json_spec import ABSENT

KEYS = st.sampled_from(["a", "b", "-a", "-b", "-", ""])
PATHS = st.sampled_from(["/a", "/b", "-/a", "-/b"])
MIB = st.sampled_from([-1, 0, 1, 4 << 20, 64 << 20, 128 << 20, 512 << 20])
NUMBERS = st.sampled_from([0, 1, 1_000, 50_000])
SETS = st.sampled_from(["", "0", "1", "0-1", "7", "x"])


def optional(
    kind: type[api.OptionalInt64 | api.OptionalUInt64], values: st.SearchStrategy[int]
) -> st.SearchStrategy[api.OptionalInt64 | api.OptionalUInt64 | None]:
    return st.none() | st.builds(kind, value=values)


MEMORY = st.builds(
    api.LinuxMemory,
    limit=optional(api.OptionalInt64, MIB),
    reservation=optional(api.OptionalInt64, MIB),
    swap=optional(api.OptionalInt64, MIB),
    use_hierarchy=st.none() | st.builds(api.OptionalBool, value=st.booleans()),
)
CPU = st.builds(
    api.LinuxCPU,
    shares=optional(api.OptionalUInt64, NUMBERS),
    quota=optional(api.OptionalInt64, NUMBERS),
    realtime_runtime=optional(api.OptionalInt64, NUMBERS),
    realtime_period=optional(api.OptionalUInt64, NUMBERS),
    cpus=SETS,
    mems=SETS,
)
RESOURCES = st.builds(
    api.LinuxResources,
    memory=st.none() | MEMORY,
    cpu=st.none() | CPU,
    unified=st.dictionaries(KEYS, KEYS, max_size=1),
    blockio_class=st.none() | st.builds(api.OptionalString, value=KEYS),
)
LINUX = st.builds(
    api.LinuxContainerAdjustment,
    devices=st.lists(
        st.builds(api.LinuxDevice, path=PATHS, type=st.sampled_from("cb"), minor=NUMBERS),
        max_size=3,
    ),
    resources=st.none() | RESOURCES,
    cgroups_path=st.sampled_from(["", "/c"]),
)
RLIMITS = st.builds(
    api.POSIXRlimit,
    type=st.sampled_from(["RLIMIT_CORE", "RLIMIT_CPU"]),
    soft=st.integers(0, 2),
    hard=st.integers(0, 2),
)
ADJUSTMENTS = st.builds(
    api.ContainerAdjustment,
    annotations=st.dictionaries(KEYS, KEYS, max_size=3),
    mounts=st.lists(st.builds(api.Mount, destination=PATHS, source=KEYS), max_size=3),
    env=st.lists(st.builds(api.KeyValue, key=KEYS), max_size=2) | st.just([]),
    hooks=st.none() | st.just(api.Hooks(poststop=[api.Hook(path="/h")])),
    linux=st.none() | LINUX,
    rlimits=st.lists(RLIMITS, max_size=2),
    args=st.lists(KEYS, max_size=1),
)
CHAINS = st.lists(ADJUSTMENTS, min_size=1, max_size=4)
CONTAINERS = st.builds(
    api.Container,
    annotations=st.dictionaries(KEYS, KEYS, max_size=1),
    mounts=st.lists(st.builds(api.Mount, destination=st.sampled_from(["/a", "/c"])), max_size=2),
    linux=st.builds(
        api.LinuxContainer,
        devices=st.lists(st.builds(api.LinuxDevice, path=st.just("/a")), max_size=1),
        resources=RESOURCES,
    ),
)


def merged(container: api.Container, chain: list[api.ContainerAdjustment]) -> IsuladCreation:
    creation = IsuladCreation(api.CreateContainerRequest(container=container))
    for number, one in enumerate(chain):
        creation.apply(api.CreateContainerResponse(adjust=one), f"{number}0-p")
    return creation


@given(CONTAINERS, CHAINS)
def test_what_each_plugin_changes_adds_up_to_the_merged_result(
    container: api.Container, chain: list[api.ContainerAdjustment]
) -> None:
    creation = merged(container, chain)
    first = spec = isulad_spec.first(oci.spec_of(container))
    for _, own in creation.applied:
        spec = isulad_spec.adjust(spec, own)
    whole = isulad_spec.written(isulad_spec.adjust(first, creation.adjustment))
    assert isulad_spec.written(spec) == whole == isulad_spec.written(whole)


@given(CONTAINERS, CHAINS)
def test_each_request_is_merged_or_dropped_with_a_reason(
    container: api.Container, chain: list[api.ContainerAdjustment]
) -> None:
    creation = merged(container, chain)
    for number, (asked, (plugin, own)) in enumerate(zip(chain, creation.applied, strict=True)):
        assert plugin == f"{number}0-p"
        dropped = {one.path: one.reason for one in creation.dropped if one.plugin == plugin}
        known = dropped.keys() | {path for path, _ in requested_fields(own)}
        assert {path for path, _ in requested_fields(asked)} <= known
        assert all(dropped.values())


@given(CONTAINERS, CHAINS)
def test_the_container_keeps_what_no_plugin_changed(
    container: api.Container, chain: list[api.ContainerAdjustment]
) -> None:
    creation = merged(container, chain)
    first = isulad_spec.first(oci.spec_of(container))
    after = isulad_spec.adjust(first, creation.adjustment)
    # Mounts are only appended, unsorted, and annotations only added.
    mounts, annotations = first.get("mounts", []), first.get("annotations", {})
    assert isinstance(mounts, list) and isinstance(annotations, dict)
    assert after.get("mounts", [])[: len(mounts)] == mounts  # type: ignore[index]
    assert annotations.items() <= after.get("annotations", {}).items()  # type: ignore[union-attr]
    # No device gets a cgroup rule, and no variable is set.
    for path in ("/linux/resources/devices", "/process/env", "/process/args"):
        assert value_at(first, path) == value_at(after, path)
    assert value_at(after, "/hooks") in ({}, ABSENT)


@given(CONTAINERS, CHAINS)
def test_a_refusal_names_a_plugin_that_asked_for_one_of_its_fields(
    container: api.Container, chain: list[api.ContainerAdjustment]
) -> None:
    creation = merged(container, chain)
    asked = {
        f"{number}0-p": {path for path, _ in requested_fields(one)}
        for number, one in enumerate(chain)
    }
    for found in (
        isulad_spec.creation_refusal(creation, MachineCpus("0-1", "0")),
        isulad_spec.start_refusal(creation),
    ):
        if found is not None and found.reason != isulad_spec.CPUSET:
            assert asked[found.plugin] & set(found.paths)


@given(CHAINS, st.lists(st.sampled_from(["", "other"]), max_size=2))
def test_only_an_update_that_is_reached_kills(
    chain: list[api.ContainerAdjustment], ids: list[str]
) -> None:
    creation = merged(api.Container(), chain[:-1])
    reply = api.CreateContainerResponse(
        adjust=chain[-1], update=[api.ContainerUpdate(container_id=id_) for id_ in ids]
    )
    reached = bool(ids) and bool(ids[0])
    try:
        creation.apply(reply, "90-last")
    except RuntimeKilled:
        assert reached
        return
    updates = [one.reason for one in creation.dropped if one.container_id == "other"]
    assert not reached or all("drops the rest" in reason for reason in updates)
    assert len(updates) == ids.count("other")


@pytest.mark.parametrize(
    ("limit", "swap", "asked", "outcome"),
    [
        # iSulad derives twice the limit before the chain, and again for 0 after it.
        (64, 0, {"limit": 128}, {"limit": 128, "swap": 128}),
        (64, 0, {"limit": 129}, "swap limit is below"),
        (64, 0, {"limit": 0}, "needs a memory limit"),
        (64, 0, {"limit": -1}, "below 4 MiB"),
        (64, 0, {"swap": 0}, {"limit": 64, "swap": 128}),
        (64, 0, {"swap": -1}, {"limit": 64, "swap": -1}),
        (0, 0, {"limit": 64}, {"limit": 64, "swap": 128}),
        (0, 0, {"swap": 64}, "needs a memory limit"),
        (0, 0, {"reservation": 64}, {"reservation": 64}),
        (64, 0, {"reservation": 65}, "reservation is above"),
        (64, 0, {"kernel": 3}, "below 4 MiB"),
    ],
)
def test_memory_limits(
    limit: int, swap: int, asked: dict[str, int], outcome: str | dict[str, int]
) -> None:
    container, adjustment = api.Container(), api.ContainerAdjustment()
    container.linux.resources.memory.limit.value = limit << 20
    container.linux.resources.memory.swap.value = swap << 20
    for name, mib in asked.items():
        value = -1 if mib < 0 else mib << 20
        getattr(adjustment.linux.resources.memory, name).value = value
    creation = merged(container, [adjustment])
    refusal = isulad_spec.creation_refusal(creation)
    if isinstance(outcome, str):
        assert refusal is not None and outcome in refusal.reason
        return
    assert refusal is None
    first = isulad_spec.first(oci.spec_of(container))
    spec = isulad_spec.written(isulad_spec.adjust(first, creation.adjustment))
    expected = {name: mib if mib < 0 else mib << 20 for name, mib in outcome.items()}
    expected["swappiness"] = 2**64 - 1
    assert value_at(spec, "/linux/resources/memory") == expected


@pytest.mark.parametrize(
    ("cpus", "node", "fails"),
    [
        ("0", None, False),
        ("77", None, False),
        ("x", None, True),
        ("1-0", MachineCpus("0-3", "0"), False),
        ("0,3", MachineCpus("0-3", "0"), False),
        ("0-4", MachineCpus("0-3", "0"), True),
        ("2", MachineCpus("0-1,3", "0"), True),
        ("0-999999999", MachineCpus("0-3", "0"), True),
    ],
)
def test_cpu_sets_are_checked_against_the_node(
    cpus: str, node: MachineCpus | None, fails: bool
) -> None:
    adjustment = api.ContainerAdjustment()
    adjustment.linux.resources.cpu.cpus, adjustment.linux.resources.cpu.mems = cpus, "0"
    refusal = isulad_spec.creation_refusal(merged(api.Container(), [adjustment]), node)
    assert (refusal is not None) == fails
