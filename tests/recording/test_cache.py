# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recording.cache import RecentlyUsed

_operations = st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 20)), max_size=200)


@given(_operations, st.integers(4, 12))
def test_recently_used_entries_are_kept_within_twice_the_limit(
    operations: list[tuple[str, int]], limit: int
) -> None:
    cache: RecentlyUsed[int, int] = RecentlyUsed(limit)
    costs: dict[int, int] = {}
    # Keys, the most recently used last.
    recent_keys: list[int] = []
    for operation, key in operations:
        cost = 1 + key % 4
        if operation == "put":
            cache.put(key, key, cost)
            costs[key] = cost
        else:
            found = cache.get(key)
            assert found in (None, key)
            if found is None:
                assert key not in costs or sum(costs.values()) > limit
                costs.pop(key, None)
        recent_keys = [other for other in recent_keys if other != key] + (
            [key] if key in costs else []
        )
        room = limit
        for recent_key in reversed(recent_keys):
            room -= costs[recent_key]
            if room < 0:
                break
            assert recent_key in cache
        assert (
            sum(costs[recent_key] for recent_key in recent_keys if recent_key in cache) <= 2 * limit
        )


def test_clear_removes_all() -> None:
    cache: RecentlyUsed[int, int] = RecentlyUsed(1)
    for key in range(5):
        cache.put(key, key)
    cache.clear()
    assert not any(key in cache for key in range(5))
