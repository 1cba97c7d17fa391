# SPDX-License-Identifier: Apache-2.0
"""Conversions of manifests equal what real clusters told a plugin, but for listed differences."""

from __future__ import annotations

import pytest

from tests.kubernetes.comparison import ASSIGNED
from tests.kubernetes.fidelity import compare
from tests.kubernetes.known_differences import assigned_values, problems
from tests.kubernetes.observation import STORED

PROFILES = sorted(folder.name for folder in STORED.iterdir())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_field_equals_what_a_plugin_got_or_is_listed(profile: str) -> None:
    comparison = compare(STORED / profile, profile)
    assert comparison.compared > 100
    assert problems(comparison, profile) == []


def test_assigned_values_are_listed_and_differ() -> None:
    differing = {name for one in PROFILES for name in compare(STORED / one, one).assigned}
    assert differing == set(ASSIGNED) == assigned_values()
