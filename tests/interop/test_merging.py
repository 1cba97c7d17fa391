# SPDX-License-Identifier: Apache-2.0
"""Merging matches upstream: requests to plugins, results, owners and conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.no_change import EMPTY_ADJUSTMENT
from nri_scope.nri.versions import NriVersion
from tests.amount import amount
from tests.interop.build import Merger, Unavailable, build_merger
from tests.interop.merge_cases import PLUGINS, Case, generated
from tests.interop.merge_rules import RULES
from tests.interop.merging import Outcome, agree, merge_with_ours, merge_with_reference

GENERATED = amount(5000, 1000)
"""Number of generated cases; a thousand take a second for each version."""

pytestmark = pytest.mark.interop


@pytest.fixture(params=list(Merger), ids=lambda merger: merger.name)
def merger(request: pytest.FixtureRequest) -> Merger:
    """Each NRI version with different merging; skips without Go."""
    chosen: Merger = request.param
    try:
        build_merger(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


def assert_equal(merger: Merger, cases: Sequence[Case]) -> list[Outcome]:
    version = NriVersion.parse(merger.nri_version)
    assert version is not None
    outcomes = merge_with_reference(build_merger(merger), cases)
    for case, theirs in zip(cases, outcomes, strict=True):
        ours = merge_with_ours(case, version)
        if not agree(case, ours, theirs, version):
            # Field by field, so that pytest shows the difference.
            assert ours.error == theirs.error, case
            assert ours.seen == theirs.seen, case
            assert ours.response == theirs.response, case
            assert ours.validation == theirs.validation, case
    return outcomes


def test_every_rule_matches_upstream(merger: Merger) -> None:
    assert len({case.name for case in RULES}) == len(RULES)
    assert_equal(merger, RULES)


def test_generated_chains_match_upstream(merger: Merger) -> None:
    outcomes = assert_equal(merger, generated(GENERATED))
    # The cases are varied: many chains end in a conflict, more do not, and every event and chain
    # length occurs.
    failed = sum(bool(outcome.error) for outcome in outcomes)
    assert 0.03 * GENERATED < failed < 0.5 * GENERATED
    kinds = Counter((case.event, len(case.replies)) for case in generated(GENERATED))
    assert len(kinds) == 12 and min(kinds.values()) > 0.006 * GENERATED


def test_upstream_ignores_an_empty_adjustment(merger: Merger) -> None:
    """The reply of passive plugins to CreateContainer; passive reference plugins reply nothing."""
    silent = api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT)
    creations = [case for case in generated(1000) if case.event == "CreateContainer"]
    filled = [
        replace(case, replies=(*case.replies, *[silent] * (len(PLUGINS) - len(case.replies))))
        for case in creations
    ]
    assert sum(case != other for case, other in zip(creations, filled, strict=True)) > 100
    program = build_merger(merger)
    found = merge_with_reference(program, filled)
    expected = merge_with_reference(program, creations)
    for case, one, other in zip(creations, found, expected, strict=True):
        assert one == other, case
