# SPDX-License-Identifier: Apache-2.0
"""Merging is upstream's: the same requests to plugins, results, owners and conflicts."""

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
"""A thousand of them take a second for each version."""

pytestmark = pytest.mark.interop


@pytest.fixture(params=list(Merger), ids=lambda merger: merger.name)
def merger(request: pytest.FixtureRequest) -> Merger:
    """Each NRI version whose merging is a different one; skips without Go."""
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
            # Field by field, so that pytest shows what is different.
            assert ours.error == theirs.error, case
            assert ours.seen == theirs.seen, case
            assert ours.response == theirs.response, case
            assert ours.validation == theirs.validation, case
    return outcomes


def test_every_rule_of_merging_is_upstreams(merger: Merger) -> None:
    assert len({case.name for case in RULES}) == len(RULES)
    assert_equal(merger, RULES)


def test_any_chain_is_merged_as_upstream_does(merger: Merger) -> None:
    outcomes = assert_equal(merger, generated(GENERATED))
    # The cases are worth something: many chains end in a conflict, more do not, and every event
    # and length of chain is there.
    failed = sum(bool(outcome.error) for outcome in outcomes)
    assert 0.03 * GENERATED < failed < 0.5 * GENERATED
    kinds = Counter((case.event, len(case.replies)) for case in generated(GENERATED))
    assert len(kinds) == 12 and min(kinds.values()) > 0.006 * GENERATED


def test_upstream_takes_an_empty_adjustment_for_no_reply(merger: Merger) -> None:
    """What our passive parties answer to CreateContainer; the reference's own silence is empty."""
    silent = api.CreateContainerResponse.FromString(EMPTY_ADJUSTMENT)
    creations = [case for case in generated(1000) if case.event == "CreateContainer"]
    filled = [
        replace(case, replies=(*case.replies, *[silent] * (len(PLUGINS) - len(case.replies))))
        for case in creations
    ]
    assert sum(case != other for case, other in zip(creations, filled, strict=True)) > 100
    program = build_merger(merger)
    found = merge_with_reference(program, filled)
    wanted = merge_with_reference(program, creations)
    for case, one, other in zip(creations, found, wanted, strict=True):
        assert one == other, case
