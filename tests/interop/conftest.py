# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the reference programs, built once, and a folder with a short path for sockets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from nri_scope.nri.versions import V0_10
from tests.amount import EXAMPLES
from tests.interop import attribution_found
from tests.interop.attribution_found import ALL, BOTH, FEW, SINGLE, VIEWS, run_of
from tests.interop.attribution_run import RUNTIMES
from tests.interop.build import Merger, Unavailable, Variant, build

IN_BETWEEN = list(RUNTIMES)[1:-1]
PARTS_OF_ANOTHER = (FEW, SINGLE, BOTH, ALL)
"""Views whose evidence is a subset or a combination of other views."""


def _left_out(item: pytest.Item) -> bool:
    """Whether CI skips a test: it runs these views only for the oldest and the newest version."""
    chosen = getattr(getattr(item, "callspec", None), "params", {})
    return bool(
        EXAMPLES and chosen.get("release") in IN_BETWEEN and chosen.get("view") in PARTS_OF_ANOTHER
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if _left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        needed = getattr(item, "fixturenames", ())
        if Path(__file__).parent in item.path.parents and {"variant", "pairing", "release"} & set(
            needed
        ):
            item.add_marker(pytest.mark.interop)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test that finds only while it runs that it cannot build the reference."""
    try:
        return (yield)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")


@pytest.fixture(scope="session", autouse=True)
def _one_run_for_all_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    attribution_found.folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(params=list(Variant), ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Each NRI version of the reference programs; skips without Go."""
    chosen: Variant = request.param
    try:
        build(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


# Session scope groups the tests of a version in one process, which reads its recording once.
@pytest.fixture(scope="session", params=list(RUNTIMES), ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Merger:
    """Each NRI version with different visibility of changes; skips without Go."""
    chosen: Merger = request.param
    try:
        run_of(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


@pytest.fixture(scope="session", params=list(VIEWS))
def view(request: pytest.FixtureRequest, release: Merger) -> str:
    """Each view that the version supports."""
    name: str = request.param
    if VIEWS[name].validator and run_of(release).version < V0_10:
        pytest.skip("this version has no validators")
    return name


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder with a short path: socket paths are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="nri-") as path:
        yield Path(path)


@pytest.fixture
def socket(folder: Path) -> Path:
    """Path of the runtime's socket."""
    return folder / "nri.sock"
