# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.specs import Json, Spec, patch_of, patched

_LEAVES = st.one_of(st.booleans(), st.integers(0, 3), st.sampled_from(["", "a"]))
_KEYS = st.sampled_from("abc")
JSON: st.SearchStrategy[Json] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner), max_leaves=9
)
SPECS: st.SearchStrategy[Spec] = st.dictionaries(_KEYS, JSON)


@given(SPECS, SPECS)
def test_a_patch_leads_from_one_object_to_the_other(one: Spec, other: Spec) -> None:
    assert patched(one, patch_of(one, other)) == other
    assert patch_of(one, one) == {}


@given(st.dictionaries(_KEYS, JSON | st.none()), SPECS)
def test_nulls_are_missing_members(one: Spec, other: Spec) -> None:
    shown = {name: value for name, value in one.items() if value is not None}
    assert patched(other, patch_of(other, one)) == shown
