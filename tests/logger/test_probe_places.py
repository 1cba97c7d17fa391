# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.logger.probes import MAX_PROBES, places

_indices = st.integers(0, 99).map(lambda number: f"{number:02d}")
_chains = st.lists(_indices, max_size=30)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("", "00 99"),
        ("20", "00 99"),
        ("20 30 60", "00 25 45 99"),
        ("60 20 30", "00 25 45 99"),
        # No probe fits between equal or adjacent indices.
        ("20 20 60", "00 40 99"),
        ("20 21 60", "00 40 99"),
        ("20 22", "00 21 99"),
        # A plugin with a probe's index may be called before or after the probe.
        ("00 40", "00 20 99"),
        ("40 99", "00 69 99"),
        ("00 99", "00 49 99"),
        ("00 01 98 99", "00 49 99"),
    ],
)
def test_probes_are_placed_between_the_plugins(chain: str, expected: str) -> None:
    assert places(chain.split()) == tuple(expected.split())


def test_a_well_placed_probe_keeps_its_index() -> None:
    assert places(["20", "60"], ("00", "50", "99")) == ("00", "50", "99")
    assert places(["20", "30", "60"], ("00", "40", "99")) == ("00", "25", "40", "99")
    assert places(["60", "70"], ("00", "50", "99")) == ("00", "65", "99")


def test_the_number_of_probes_is_bounded() -> None:
    many = places(f"{number:02d}" for number in range(1, 99, 2))
    assert len(many) == MAX_PROBES
    assert (many[0], many[-1]) == ("00", "99")


@given(_chains, st.sets(_indices))
def test_probes_ascend_and_include_both_ends(chain: list[str], now: set[str]) -> None:
    found = places(chain, now)
    assert list(found) == sorted(set(found))
    assert {"00", "99"} <= set(found)
    assert len(found) <= MAX_PROBES


@given(st.lists(_indices, max_size=MAX_PROBES - 1), st.sets(_indices))
def test_every_free_gap_has_one_probe(chain: list[str], now: set[str]) -> None:
    found = places(chain, now)
    for one, other in pairwise(sorted(set(chain))):
        between = [index for index in found if one < index < other]
        assert len(between) == (1 if int(other) - int(one) > 1 else 0)


@given(_chains)
def test_placing_again_changes_nothing(chain: list[str]) -> None:
    found = places(chain)
    assert places(chain, found) == found
