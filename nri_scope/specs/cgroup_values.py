# SPDX-License-Identifier: Apache-2.0
"""Convert contents of cgroup files to values of OCI resources, and compare them with requests.

Some values are inexact: cgroup v2 has a CPU weight, which several numbers of shares share, and the
kernel rounds memory limits down to pages.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Final

from .json_spec import Json

RESOURCES: Final = "/linux/resources"
_CPU, _MEMORY = f"{RESOURCES}/cpu", f"{RESOURCES}/memory"
ANY_OF: Final = "anyOf"
"""Key of an inexact value: ``{"anyOf": [[from, to], …]}``, with ranges that include both ends."""
_SHARES = range(2, 262_145)
_PAGE_MAX = 65_536
"""The largest page size of Linux. A limit is rounded down by less than that."""
_UNLIMITED = 1 << 62
"""cgroup v1 shows no limit as the largest number of whole pages, or huge pages, below 2⁶³."""


def values_of_v1(files: Mapping[str, str]) -> dict[str, Json]:
    """Return the values by OCI path, from the contents of cgroup v1 files by name."""
    values: dict[str, Json] = {}
    for name, path, convert in (
        ("cpu.shares", f"{_CPU}/shares", _number),
        ("cpu.cfs_quota_us", f"{_CPU}/quota", _number),
        ("cpu.cfs_period_us", f"{_CPU}/period", _number),
        *_CPUSETS,
        ("memory.limit_in_bytes", f"{_MEMORY}/limit", _limit),
        ("memory.soft_limit_in_bytes", f"{_MEMORY}/reservation", _limit),
        ("memory.memsw.limit_in_bytes", f"{_MEMORY}/swap", _limit),
        _PIDS,
    ):
        _add(values, path, convert(files.get(name, "")))
    return values | _huge_pages(files, ".limit_in_bytes")


def values_of_v2(files: Mapping[str, str]) -> dict[str, Json]:
    """Return the values by OCI path, from the contents of cgroup v2 files by name."""
    values: dict[str, Json] = {}
    weight = _number(files.get("cpu.weight", ""))
    if weight is not None:
        values[f"{_CPU}/shares"] = {ANY_OF: shares_of_weight(weight)}
    quota, _, period = files.get("cpu.max", "").partition(" ")
    _add(values, f"{_CPU}/quota", _limit(quota))
    _add(values, f"{_CPU}/period", _number(period))
    for name, path, convert in (
        *_CPUSETS,
        ("memory.max", f"{_MEMORY}/limit", _limit),
        ("memory.low", f"{_MEMORY}/reservation", _limit),
        _PIDS,
    ):
        _add(values, path, convert(files.get(name, "")))
    # OCI's limit is that of memory and swap together; cgroup v2's is that of swap alone.
    limit, swap = values.get(f"{_MEMORY}/limit"), _limit(files.get("memory.swap.max", ""))
    if swap == -1:
        values[f"{_MEMORY}/swap"] = -1
    elif swap is not None and isinstance(limit, int) and limit >= 0:
        values[f"{_MEMORY}/swap"] = limit + swap
    return values | _huge_pages(files, ".max")


def shares_of_weight(weight: int) -> list[Json]:
    """Return the ranges of CPU shares that runc converts to a weight, by each of its formulas."""
    values: list[Json] = []
    for formula in (_linear_weight, _quadratic_weight):
        first = bisect_left(_SHARES, weight, key=formula)
        end = bisect_right(_SHARES, weight, key=formula)
        if first < end:
            values.append([_SHARES[first], _SHARES[end - 1]])
    return values


def agrees(path: str, requested: Json, actual: Json) -> bool:
    """Return whether a value read from a cgroup is what a request of ``requested`` leads to."""
    if isinstance(actual, dict):
        ranges = actual.get(ANY_OF)
        return (
            isinstance(requested, int)
            and isinstance(ranges, list)
            and any(_includes(span, requested) for span in ranges)
        )
    if isinstance(requested, str) and isinstance(actual, str):
        wanted = cpu_set(requested)
        return wanted is not None and wanted == cpu_set(actual)
    if not (isinstance(requested, int) and isinstance(actual, int)):
        return False
    if path.startswith(f"{_MEMORY}/") and actual >= 0:
        return 0 <= requested - actual < _PAGE_MAX
    return requested == actual or (requested < 0 and actual == -1)


def cpu_set(text: str) -> frozenset[tuple[int, int]] | None:
    """Return the maximal ranges of a list of CPUs or nodes, such as ``0-2,4``; None if invalid."""
    pairs: list[tuple[int, int]] = []
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        if not (_is_number(first) and (not dash or _is_number(last))):
            return None
        pairs.append((int(first), int(last if dash else first)))
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return frozenset(merged)


def _includes(span: Json, requested: int) -> bool:
    match span:
        case [int(low), int(high)]:
            return low <= requested <= high
    return False


def _linear_weight(shares: int) -> int:
    """Return runc's weight by ConvertCPUSharesToCgroupV2Value (opencontainers/cgroups 0.0.2)."""
    return 1 + (shares - 2) * 9_999 // 262_142


def _quadratic_weight(shares: int) -> int:
    """Return the weight by the same function of opencontainers/cgroups 0.0.3 and later."""
    if shares <= 2 or shares >= 262_144:
        return 1 if shares <= 2 else 10_000
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _number(text: str) -> int | None:
    return int(text) if _is_number(text.removeprefix("-")) else None


def _limit(text: str) -> int | None:
    number = -1 if text == "max" else _number(text)
    return -1 if number is not None and number >= _UNLIMITED else number


def _text(text: str) -> str | None:
    return text or None


_Row = tuple[str, str, Callable[[str], Json]]
_CPUSETS: tuple[_Row, ...] = (
    ("cpuset.cpus", f"{_CPU}/cpus", _text),
    ("cpuset.mems", f"{_CPU}/mems", _text),
)
_PIDS: _Row = ("pids.max", f"{RESOURCES}/pids/limit", _limit)


def _huge_pages(files: Mapping[str, str], ending: str) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for name, text in files.items():
        size = name.removeprefix("hugetlb.").removesuffix(ending)
        if name == f"hugetlb.{size}{ending}" and "." not in size:
            _add(values, f"{RESOURCES}/hugepageLimits/{size}/limit", _limit(text))
    return values


def _add(values: dict[str, Json], path: str, value: Json) -> None:
    if value is not None:
        values[path] = value
