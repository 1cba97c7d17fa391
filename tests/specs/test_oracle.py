# SPDX-License-Identifier: Apache-2.0
"""`changes` compared with DeepDiff, which is independent of OCI."""

from __future__ import annotations

import random
from typing import Protocol

from deepdiff import DeepDiff
from hypothesis import assume, given
from hypothesis import strategies as st

from nri_scope.specs import Json, Spec, changes, pointer
from nri_scope.specs.json_spec import KEYED, SET_BY_FIELD, members
from tests.specs.spec_lines import walk

from .generated import ANY, ORDINARY, SPECS, put, shuffled


class _Level(Protocol):
    def path(self, *, output_format: str) -> list[str | int]: ...


def differs(one: Spec, other: Spec) -> bool:
    """Return whether DeepDiff finds a difference, ignoring the order of unordered lists."""
    return bool(
        DeepDiff(
            one,
            other,
            ignore_order_func=_has_no_order,
            report_repetition=True,
            ignore_nan_inequality=True,
            ignore_private_variables=False,
        )
    )


def _has_no_order(level: _Level) -> bool:
    path = ""
    for key in level.path(output_format="list"):
        path = pointer(path, str(key))
    return path in KEYED and not KEYED[path].ordered


def _has_unique_keys(spec: Spec) -> bool:
    """Return whether all members of unordered arrays have unique keys; otherwise order matters."""
    for line in walk(spec):
        keyed = KEYED.get(line.path)
        if keyed and not keyed.ordered and isinstance(line.value, list):
            found = members(line.value, keyed)
            if found is None or any("#" in label for label in found):
                return False
    return True


@given(
    ORDINARY,
    st.randoms(use_true_random=False),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(sorted({*KEYED, *SET_BY_FIELD} - {""})), ANY), max_size=2),
)
def test_edited_specs_differ_iff_deepdiff_finds_a_difference(
    spec: Spec, dice: random.Random, reverse: bool, edits: list[tuple[str, Json]]
) -> None:
    other = shuffled(spec, dice)
    if reverse:
        for line in [*walk(other)]:
            if line.path in KEYED and isinstance(line.value, list):
                put(other, line.path, line.value[::-1])
    for path, value in edits:
        put(other, path, value)
    assume(_has_unique_keys(spec) and _has_unique_keys(other))
    assert bool(changes(spec, other)) == differs(spec, other)


@given(SPECS, SPECS)
def test_any_specs_differ_iff_deepdiff_finds_a_difference(one: Spec, other: Spec) -> None:
    assume(_has_unique_keys(one) and _has_unique_keys(other))
    assert bool(changes(one, other)) == differs(one, other)
