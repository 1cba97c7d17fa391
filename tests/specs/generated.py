# SPDX-License-Identifier: Apache-2.0
"""Generated specs for property tests: plausible and hostile ones."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from nri_scope.specs import Json, Spec
from nri_scope.specs.json_spec import KEYED, SET_BY_FIELD

# Few keys, so that two specs share some; some are odd.
_KEYS = st.sampled_from(
    ["a", "b", "", "/", "~", "~1", "/dev/x", "a#2", "b#1", "#2", "-a", "a=b", "é", "0", "1"]
)
_SCALARS: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.just(2**70),
    st.sampled_from([0.0, 1.0, float("nan"), float("inf")]),
    _KEYS,
)


def _nested(below: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=3)


ANY: st.SearchStrategy[Json] = st.recursive(_SCALARS, _nested, max_leaves=6)
"""Any JSON."""


def _member(names: tuple[str, ...]) -> st.SearchStrategy[Json]:
    keys: dict[str, st.SearchStrategy[Json]] = dict.fromkeys(names, _KEYS)
    return st.fixed_dictionaries(keys, optional={"options": ANY, "x": ANY})


_MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "/process/env": st.tuples(_KEYS, _SCALARS).map(lambda pair: f"{pair[0]}={pair[1]}") | _KEYS,
    "/process/rlimits": _member(("type",)),
    "/mounts": _member(("destination",)),
    "/linux/namespaces": _member(("type",)),
    "/linux/devices": _member(("path",)),
    "/linux/resources/devices": st.fixed_dictionaries(
        {}, optional={"type": _KEYS, "major": st.integers(0, 2), "access": _KEYS, "allow": ANY}
    ),
    "/linux/resources/hugepageLimits": _member(("pageSize",)),
    "/linux/seccomp/syscalls": st.fixed_dictionaries(
        {"names": st.lists(_KEYS, min_size=1, max_size=2)}, optional={"action": _KEYS}
    ),
    "/cdiDevices": _member(("name",)),
    "/hooks/prestart": _member(("path",)),
    "/process/user/additionalGids": st.integers(0, 3),
    "/linux/maskedPaths": _KEYS,
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "/process/args": st.lists(_KEYS, max_size=3),
    "/process/oomScoreAdj": _SCALARS,
    "/process/scheduler": st.dictionaries(_KEYS, _SCALARS, max_size=2),
    "/annotations": st.dictionaries(_KEYS, _KEYS, max_size=4),
    "/linux/netDevices": st.dictionaries(_KEYS, st.dictionaries(_KEYS, _KEYS, max_size=1)),
    "/linux/resources/cpu": st.dictionaries(_KEYS, _SCALARS, max_size=3),
    "/linux/resources/pids": st.dictionaries(st.just("limit"), _SCALARS, max_size=1),
    "/linux/seccomp/defaultAction": _KEYS,
}
_PLACES: dict[str, st.SearchStrategy[Any]] = _VALUES | {
    path: st.lists(member, max_size=4) for path, member in _MEMBERS.items()
}


def put(spec: Spec, path: str, value: Json) -> None:
    """Set `path` in `spec`, in place; a parent other than an object is replaced."""
    *parents, last = path.split("/")[1:]
    for name in parents:
        inner = spec.get(name)
        if not isinstance(inner, dict):
            inner = spec[name] = {}
        spec = inner
    spec[last] = value


@st.composite
def _ordinary(draw: st.DrawFn) -> Spec:
    spec: Spec = {}
    for path in draw(st.lists(st.sampled_from(sorted(_PLACES)), unique=True, max_size=6)):
        put(spec, path, draw(_PLACES[path]))
    return spec


@st.composite
def _hostile(draw: st.DrawFn) -> Spec:
    spec = draw(_ordinary())
    paths = sorted({*SET_BY_FIELD - {""}, *KEYED, *_PLACES})
    for path in draw(st.lists(st.sampled_from(paths), max_size=2)):
        put(spec, path, draw(ANY))
    return spec


ORDINARY: st.SearchStrategy[Spec] = _ordinary()
"""Specs with objects and arrays in OCI's places; their contents may be odd."""

SPECS: st.SearchStrategy[Spec] = (
    ORDINARY | _hostile() | st.dictionaries(_KEYS | st.sampled_from(["linux", "mounts"]), ANY)
)
"""Any object, most of them similar to a spec."""


def shuffled(spec: Spec, dice: random.Random) -> Spec:
    """Return the spec with everything shuffled whose order has no meaning."""
    new = _shuffle(spec, "", dice)
    assert isinstance(new, dict)
    return new


def _shuffle(value: Json, path: str, dice: random.Random) -> Json:
    if isinstance(value, dict):
        items = [(key, _shuffle(inner, f"{path}/{key}", dice)) for key, inner in value.items()]
        dice.shuffle(items)
        return dict(items)
    keyed = KEYED.get(path)
    if not isinstance(value, list) or keyed is None or keyed.ordered:
        return value
    by_key: dict[str, list[Json]] = {}
    for item in value:
        split = keyed.split(item)
        if split is None:
            return value
        by_key.setdefault(split[0], []).append(item)
    # Members with equal keys keep their order, since it numbers them.
    order = [key for key, items in by_key.items() for _ in items]
    dice.shuffle(order)
    return [by_key[key].pop(0) for key in order]
