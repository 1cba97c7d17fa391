# SPDX-License-Identifier: Apache-2.0
"""Resources as the kubelet calculates them; real clusters are compared in test_fidelity."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime import PROFILES
from nri_scope.scenario.manifest.field import milli, parse_quantity, whole
from nri_scope.scenario.manifest.node_facts import CgroupDriver, NodeFacts
from nri_scope.scenario.manifest_scenario import ManifestPod, pods_of

GIB = 1 << 30


def pod_with(*resources: str, spec: str = "", node: NodeFacts | None = None) -> ManifestPod:
    """Return a pod with a container for each of ``resources``."""
    containers = "".join(
        f"  - {{name: c{index}, image: i, resources: {one}}}\n"
        for index, one in enumerate(resources)
    )
    text = f"kind: Pod\nmetadata: {{name: web, uid: a-b}}\nspec:\n{spec}  containers:\n{containers}"
    (pod,) = pods_of(text, PROFILES["containerd-2.4"], node=node)
    return pod


def linux(pod: ManifestPod, index: int = 0) -> api.LinuxContainer:
    return pod.containers[index].container.linux


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("+1k", 1000),
        ("1Ki", 1024),
        ("2Gi", 2 << 30),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("100n", Fraction(1, 10**7)),
        ("9E9", 9 * 10**9),
        ("99999999999E", 2**63 - 1),
        ("-1", -1),
        ("", None),
        ("1x", None),
        ("1 Gi", None),
        ("1ki", None),
        ("1e", None),
        ("٣", None),
        ("1e999999999", None),
        (".", None),
    ],
)
def test_quantities(text: str, value: Fraction | int | None) -> None:
    assert parse_quantity(text) == value


@given(st.integers(0, 2**62), st.sampled_from(["", "m", "u", "n", "k", "Ki"]))
def test_rounding_is_up_and_less_than_one(number: int, suffix: str) -> None:
    quantity = parse_quantity(f"{number}{suffix}")
    assert quantity is not None
    assert 0 <= whole(quantity) - quantity < 1
    assert milli(quantity) == 2**63 - 1 or 0 <= milli(quantity) - quantity * 1000 < 1


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        (["{}"], "besteffort"),
        (["{limits: {example.com/x: 1}}"], "besteffort"),
        (["{requests: {cpu: 0}}"], "besteffort"),
        (["{requests: {cpu: 1m}}"], "burstable"),
        (["{limits: {cpu: 1}}"], "burstable"),
        (["{limits: {cpu: 1, memory: 1Gi}}", "{}"], "burstable"),
        (["{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}"], "burstable"),
        (["{limits: {cpu: 1, memory: 1Gi}}"], "guaranteed"),
        (["{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m}}"], "guaranteed"),
    ],
)
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_quality_of_service_decides_the_cgroup(
    resources: list[str], quality: str, driver: CgroupDriver
) -> None:
    containers = ", ".join(
        f"{{name: c{n}, image: i, resources: {r}}}" for n, r in enumerate(resources)
    )
    text = f"{{kind: Pod, metadata: {{name: w, uid: a-b}}, spec: {{containers: [{containers}]}}}}"
    (pod,) = pods_of(text, PROFILES["containerd-2.1"], cgroup_driver=driver)
    sandbox, container = pod.pod.linux, pod.containers[0].container
    if driver == "cgroupfs":
        middle = "" if quality == "guaranteed" else f"{quality}/"
        parent = f"/kubepods/{middle}poda-b"
        path = f"{parent}/"
        last = parent
    else:
        middle = "" if quality == "guaranteed" else f"kubepods-{quality}.slice/"
        last = f"kubepods-{'' if quality == 'guaranteed' else f'{quality}-'}poda_b.slice"
        parent = f"/kubepods.slice/{middle}{last}"
        path = f"{last}:cri-containerd:"
    assert sandbox.cgroup_parent == parent
    assert sandbox.cgroups_path == path + pod.pod.id
    assert container.linux.cgroups_path == path + container.id
    score = {"guaranteed": -997, "besteffort": 1000}.get(quality)
    if score is not None:
        assert container.linux.oom_score_adj.value == score
    else:
        assert 3 <= container.linux.oom_score_adj.value <= 999
    # CRI-O names only the last slice.
    (pod,) = pods_of(text, PROFILES["cri-o"], cgroup_driver=driver)
    assert pod.pod.linux.cgroup_parent == last


@pytest.mark.parametrize(
    ("resources", "shares", "quota"),
    [
        ("{}", 2, 0),
        ("{requests: {cpu: 1m}}", 2, 0),
        ("{requests: {cpu: 250m}}", 256, 0),
        ("{limits: {cpu: 1m}}", 2, 1000),
        ("{limits: {cpu: 1.5}}", 1536, 150_000),
        ("{requests: {cpu: 10000}}", 262_144, 0),
        ("{requests: {cpu: 1}, limits: {cpu: 2}}", 1024, 200_000),
    ],
)
def test_processor_time(resources: str, shares: int, quota: int) -> None:
    cpu = linux(pod_with(resources)).resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.period.value) == (shares, quota, 100_000)
    assert cpu.HasField("quota") == bool(quota)


@pytest.mark.parametrize(
    ("memory", "score"), [("0", 999), ("1Mi", 999), ("4Gi", 750), ("16Gi", 3), ("64Gi", 3)]
)
def test_score_depends_on_the_share_of_the_nodes_memory(memory: str, score: int) -> None:
    resources = f"{{requests: {{cpu: 1, memory: {memory}}}}}"
    node = NodeFacts(memory=16 * GIB)
    assert linux(pod_with(resources, node=node)).oom_score_adj.value == score


def test_sums_of_limits_do_not_overflow() -> None:
    pod = pod_with(*["{limits: {memory: 5E}}"] * 2)
    assert pod.pod.linux.pod_resources.memory.limit.value == 2**63 - 1
    assert linux(pod).resources.memory.limit.value == 5 * 10**18


def test_a_note_says_that_the_memory_is_assumed_where_it_decides() -> None:
    note = (
        "oom_score_adj: a node with 16 GiB of memory is assumed; "
        "`scenario from-pod --node-memory` sets it"
    )
    asks = "{requests: {memory: 4Gi}}"
    assert note in pod_with(asks).notes
    assert note not in pod_with("{requests: {cpu: 1}}").notes, "the score depends on no memory"
    same = "{memory: 4Gi, cpu: 1}"
    assert note not in pod_with(f"{{requests: {same}, limits: {same}}}").notes
    text = (
        f"{{kind: Pod, metadata: {{name: web}}, spec: {{containers: [{{name: c, image: i, "
        f"resources: {asks}, env: [{{name: A, valueFrom: "
        f"{{resourceFieldRef: {{resource: limits.memory}}}}}}]}}]}}}}"
    )
    (pod,) = pods_of(text, PROFILES["containerd-2.4"], memory=64 * GIB)
    assert linux(pod).oom_score_adj.value == 1000 - 62
    assert f"A={64 * GIB - (100 << 20)}" in pod.containers[0].container.env
    assert not any("memory" in note for note in pod.notes)


def test_a_sidecar_has_the_score_of_the_smallest_container_at_most() -> None:
    spec = (
        "  initContainers:\n  - {name: s, image: i, restartPolicy: Always}\n"
        "  - {name: t, image: i, restartPolicy: Always, resources: {requests: {memory: 8Gi}}}\n"
    )
    big, bigger = "{requests: {memory: 4Gi}}", "{requests: {memory: 12Gi}}"
    pod = pod_with(bigger, big, spec=spec)
    assert [one.kind for one in pod.containers] == ["sidecar", "sidecar", "container", "container"]
    scores = [container.container.linux.oom_score_adj.value for container in pod.containers]
    assert scores == [750, 500, 250, 750]


def test_resources_of_the_pod_count_init_containers_and_sidecars() -> None:
    spec = (
        "  initContainers:\n"
        "  - {name: a, image: i, resources: {requests: {cpu: 300m}}}\n"
        "  - {name: b, image: i, restartPolicy: Always, resources: {requests: {cpu: 100m}}}\n"
        "  - {name: c, image: i, resources: {requests: {cpu: 900m}}}\n"
    )
    # While c runs, so does b.
    pod = pod_with("{requests: {cpu: 200m}}", spec=spec)
    assert pod.pod.linux.pod_resources.cpu.shares.value == 1024
    pod = pod_with("{requests: {cpu: 2}}", spec=spec)
    assert pod.pod.linux.pod_resources.cpu.shares.value == 2100 * 1024 // 1000


def test_cgroup_version_2_has_unified_settings() -> None:
    resources = linux(pod_with("{limits: {memory: 1Gi}}")).resources
    assert resources.unified == {"memory.oom.group": "1", "memory.swap.max": "0"}
    assert resources.memory.swap.value == GIB
    node = NodeFacts(cgroup_version=1, has_swap_accounting=False)
    resources = linux(pod_with("{limits: {memory: 1Gi}}", node=node)).resources
    assert not resources.unified and not resources.memory.HasField("swap")


def test_huge_pages_are_limited_for_each_size() -> None:
    text = "{limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}"
    pod = pod_with(text, node=NodeFacts(limits_huge_pages=True, huge_page_sizes=("2MB", "1GB")))
    limits = [(limit.page_size, limit.limit) for limit in linux(pod).resources.hugepage_limits]
    assert limits == [("2MB", 4 << 20), ("1GB", 0)]
    pod = pod_with(text)
    assert not linux(pod).resources.hugepage_limits
    assert "container c0: containerd limits huge pages only if configured to" in pod.notes
