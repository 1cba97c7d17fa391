# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers and places of keys, as plain lists would have them."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tui.model.groups import Groups, Slots


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=40))
def test_groups_are_lists(added: list[tuple[int, int]]) -> None:
    groups, plain = Groups(), [list[int]() for _ in range(4)]
    for _ in plain:
        groups.add_group()
    number = 0
    for at, further in added:
        number += further
        groups.append(at, number)
        plain[at].append(number)
    assert [list(groups[at]) for at in range(4)] == plain
    assert groups.total() == len(added)


@given(st.lists(st.integers(0, 20), unique=True))
def test_keys_are_found_where_they_are(keys: list[int]) -> None:
    slots = Slots()
    for key in keys:
        slots.append(key)
    assert [slots.key(place) for place in range(len(slots))] == keys
    assert [slots.find(key) for key in keys] == list(range(len(keys)))
    assert all(slots.find(key) is None for key in range(-1, 22) if key not in keys)


def test_a_list_without_holes_takes_next_to_nothing() -> None:
    tracemalloc.start()
    try:
        slots, groups = Slots(), Groups()
        for number in range(10_000):
            slots.append(number + 1)
            groups.add_group()
            groups.append(number, 2 * number)
            groups.append(number, 2 * number + 1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 10_000 * 40
