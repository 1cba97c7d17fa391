# SPDX-License-Identifier: Apache-2.0
"""What `changes` finds against what DeepDiff, which knows nothing of OCI, finds."""

from __future__ import annotations

import random
from typing import Protocol

from deepdiff import DeepDiff
from hypothesis import assume, given
from hypothesis import strategies as st

from nri_scope.oci import Json, Spec, changes, pointer
from nri_scope.oci.lists import KEYED, OPEN, members
from tests.oci.spec_lines import walk

from .specs import ANY, ORDINARY, SPECS, put, shuffled


class _Level(Protocol):
    def path(self, *, output_format: str) -> list[str | int]: ...


def differs(one: Spec, other: Spec) -> bool:
    """Whether DeepDiff finds a difference, told which lists have no order."""
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


def _tells_members_apart(spec: Spec) -> bool:
    """Whether unordered arrays have no keyless members, nor any of one key: their order counts."""
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
    st.lists(st.tuples(st.sampled_from(sorted({*KEYED, *OPEN} - {""})), ANY), max_size=2),
)
def test_both_find_a_difference_or_none_of_edited_specs(
    spec: Spec, dice: random.Random, turned: bool, edits: list[tuple[str, Json]]
) -> None:
    other = shuffled(spec, dice)
    if turned:
        for line in [*walk(other)]:
            if line.path in KEYED and isinstance(line.value, list):
                put(other, line.path, line.value[::-1])
    for path, value in edits:
        put(other, path, value)
    assume(_tells_members_apart(spec) and _tells_members_apart(other))
    assert bool(changes(spec, other)) == differs(spec, other)


@given(SPECS, SPECS)
def test_both_find_a_difference_or_none_of_any_specs(one: Spec, other: Spec) -> None:
    assume(_tells_members_apart(one) and _tells_members_apart(other))
    assert bool(changes(one, other)) == differs(one, other)
