# SPDX-License-Identifier: Apache-2.0
"""Values of cgroup files as values of OCI resources."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Json, agrees
from nri_scope.specs.cgroup_values import cpu_set, values_of_v1, values_of_v2

CPU, MEMORY = "/linux/resources/cpu", "/linux/resources/memory"
PAGE = 4096


def linear(shares: int) -> int:
    return 1 + ((shares - 2) * 9999) // 262142


def quadratic(shares: int) -> int:
    log = math.log2(shares)
    exponent = (log * log + 125 * log) / 612.0 - 7.0 / 34.0
    return 1 if shares <= 2 else 10000 if shares >= 262144 else math.ceil(math.pow(10, exponent))


@given(st.integers(2, 262144), st.sampled_from([linear, quadratic]))
def test_shares_agree_with_the_weight_that_a_runtime_makes_of_them(
    shares: int, formula: Callable[[int], int]
) -> None:
    found = values_of_v2({"cpu.weight": str(formula(shares))})[f"{CPU}/shares"]
    assert agrees(f"{CPU}/shares", shares, found)


@given(st.integers(2, 262144), st.integers(1, 10000))
def test_shares_do_not_agree_with_another_weight(shares: int, weight: int) -> None:
    found = values_of_v2({"cpu.weight": str(weight)})[f"{CPU}/shares"]
    assert agrees(f"{CPU}/shares", shares, found) == (weight in (linear(shares), quadratic(shares)))


@given(st.integers(0, 1 << 50))
def test_a_memory_limit_agrees_with_its_whole_pages(limit: int) -> None:
    files = {"memory.limit_in_bytes": str(limit // PAGE * PAGE)}
    assert agrees(f"{MEMORY}/limit", limit, values_of_v1(files)[f"{MEMORY}/limit"])
    assert not agrees(f"{MEMORY}/limit", limit, limit + PAGE)


def test_no_limit_is_minus_one() -> None:
    unlimited = "9223372036854771712"
    files = {
        "memory.limit_in_bytes": unlimited,
        "memory.soft_limit_in_bytes": unlimited,
        "memory.memsw.limit_in_bytes": unlimited,
        "pids.max": "max",
        "cpu.cfs_quota_us": "-1",
        "hugetlb.2MB.limit_in_bytes": "9223372036852678656",
        "hugetlb.2MB.rsvd.limit_in_bytes": "1",
    }
    assert set(values_of_v1(files).values()) == {-1}
    files = {"memory.max": "max", "memory.swap.max": "max", "pids.max": "max"}
    assert set(values_of_v2(files).values()) == {-1}
    assert agrees("/linux/resources/pids/limit", -1, -1)


def test_cgroup_v2() -> None:
    files = {
        "cpu.max": "max 100000",
        "cpuset.cpus": "0-1,3",
        "cpuset.mems": "",
        "memory.max": "67108864",
        "memory.low": "33554432",
        "memory.swap.max": "0",
        "pids.max": "66",
        "hugetlb.2MB.max": "4194304",
        "hugetlb.1GB.max": "max",
        "hugetlb.1GB.rsvd.max": "max",
        "memory.high": "7",
    }
    assert values_of_v2(files) == {
        f"{CPU}/quota": -1,
        f"{CPU}/period": 100000,
        f"{CPU}/cpus": "0-1,3",
        f"{MEMORY}/limit": 67108864,
        f"{MEMORY}/reservation": 33554432,
        f"{MEMORY}/swap": 67108864,
        "/linux/resources/pids/limit": 66,
        "/linux/resources/hugepageLimits/2MB/limit": 4194304,
        "/linux/resources/hugepageLimits/1GB/limit": -1,
    }
    # Of memory without a limit and a limit for swap, OCI has no value.
    assert f"{MEMORY}/swap" not in values_of_v2({"memory.max": "max", "memory.swap.max": "1"})


@pytest.mark.parametrize(
    ("requested", "actual", "expected"),
    [
        ("0,1", "0-1", True),
        ("1,0,0", "0-1", True),
        ("0-1", "0-2", False),
        ("0,2", "0-2", False),
        ("x", "x", False),
        ("", "", True),
        (1, "1", False),
        (None, 1, False),
        (1, {"anyOf": "x"}, False),
        (1, {"anyOf": [[1], [None, None], ["0", "2"]]}, False),
        (1, {}, False),
    ],
)
def test_values_agree(requested: Json, actual: Json, expected: bool) -> None:
    assert agrees(f"{CPU}/cpus", requested, actual) == expected


@given(st.dictionaries(st.sampled_from(["cpu.weight", "cpu.max", "pids.max"]), st.text()))
def test_any_content_gives_values(files: dict[str, str]) -> None:
    assert all(
        path.startswith("/linux/") for path in {**values_of_v1(files), **values_of_v2(files)}
    )
    for text in files.values():
        assert all(low <= high for low, high in cpu_set(text) or ())
