# SPDX-License-Identifier: Apache-2.0
"""Adjusting gives the same specs and refusals as upstream's generator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import CreationMerging
from nri_scope.oci import adjust, remarks, spec_of
from nri_scope.specs import Spec
from tests.amount import amount
from tests.interop.merge_cases import Case, generated
from tests.interop.toolchain import Unavailable

from .examples import ADJUSTMENT, CONTAINER_SPEC
from .generator import build, comparable, generate
from .random_messages import RandomMessages

pytestmark = pytest.mark.interop

COUNT = amount(3000, 500)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Upstream's generator; without Go, skip, or fail in CI."""
    try:
        return build(tmp_path_factory.mktemp("refspec"))
    except Unavailable as error:
        if os.environ.get("CI"):
            raise RuntimeError(f"CI is set, so this is no reason to skip: {error}") from error
        pytest.skip(f"the Go reference cannot be built: {error}")


def assert_equal(program: Path, cases: Sequence[tuple[Spec, api.ContainerAdjustment]]) -> int:
    """Compare each case with upstream and return the number of refusals."""
    refused = 0
    for (spec, adjustment), theirs in zip(cases, generate(program, cases), strict=True):
        refusals = [each.reason for each in remarks(adjustment) if each.kind == "refused"]
        if isinstance(theirs, str):
            refused += 1
            assert theirs == refusals[0]
        else:
            assert not refusals
            assert comparable(adjust(spec, adjustment)) == comparable(theirs), adjustment
    return refused


def test_every_field_is_applied_as_upstream(program: Path) -> None:
    assert assert_equal(program, [({}, ADJUSTMENT), (CONTAINER_SPEC, ADJUSTMENT)]) == 0


def test_random_adjustments_are_applied_as_upstream(program: Path) -> None:
    messages = RandomMessages(seed=1)
    cases = [(spec_of(messages.container()), messages.adjustment()) for _ in range(COUNT)]
    assert assert_equal(program, cases) == 0


def test_merged_chains_are_applied_as_upstream(program: Path) -> None:
    cases = [merged for case in generated(COUNT) if (merged := _merged(case)) is not None]
    assert len(cases) > COUNT / 3
    assert 0 < assert_equal(program, cases) < len(cases) / 2


def test_unknown_namespaces_are_refused_as_upstream(program: Path) -> None:
    kinds = ("x", "-x", "", "-", "network")
    adjustments = [
        api.ContainerAdjustment(
            linux=api.LinuxContainerAdjustment(namespaces=[api.LinuxNamespace(type=kind)])
        )
        for kind in kinds
    ]
    assert assert_equal(program, [({}, each) for each in adjustments]) == 4


def _merged(case: Case) -> tuple[Spec, api.ContainerAdjustment] | None:
    if not isinstance(case.request, api.CreateContainerRequest):
        return None
    creation = CreationMerging(case.request, version=None)
    try:
        for number, reply in enumerate(case.replies):
            assert isinstance(reply, api.CreateContainerResponse)
            creation.apply(reply, f"{number}0-plugin")
    except AdjustmentRefused:
        return None
    adjustment = api.ContainerAdjustment()
    adjustment.CopyFrom(creation.adjustment)
    for keys in (adjustment.annotations, adjustment.linux.sysctl, adjustment.linux.net_devices):
        # With a removal and a value for one key, Go's random order decides.
        for key in [key for key in keys if f"-{key}" in keys]:
            del keys[f"-{key}"]
    return spec_of(case.request.container), adjustment
