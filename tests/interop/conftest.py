# SPDX-License-Identifier: Apache-2.0
"""The reference programs, built once, and a place for sockets with short names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.nri.versions import V0_10
from tests.amount import EXAMPLES
from tests.interop import attribution_found
from tests.interop.attribution_found import ALL, BOTH, FEW, SINGLE, VIEWS, seen_by
from tests.interop.attribution_run import RUNTIMES
from tests.interop.build import Merger, Unavailable, Variant, build

IN_BETWEEN = list(RUNTIMES)[1:-1]
PARTS_OF_ANOTHER = (FEW, SINGLE, BOTH, ALL)
"""Views whose evidence is a part of another one's, or several of them together."""


def _left_out(item: pytest.Item) -> bool:
    """Whether CI leaves it out: these views are of the oldest and the newest version there."""
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


@pytest.fixture(scope="session", autouse=True)
def _one_run_for_all_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    attribution_found.folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(params=list(Variant), ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Each NRI version that the reference programs are built on; skips without Go."""
    chosen: Variant = request.param
    try:
        build(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


# Of the session, so that those of one come together, in one process that reads its recording.
@pytest.fixture(scope="session", params=list(RUNTIMES), ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Merger:
    """Each NRI version that shows changes in another way; skips without Go."""
    chosen: Merger = request.param
    try:
        seen_by(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


@pytest.fixture(scope="session", params=list(VIEWS))
def view(request: pytest.FixtureRequest, release: Merger) -> str:
    """Each choice of connections that this version allows."""
    name: str = request.param
    if VIEWS[name].validator and seen_by(release).version < V0_10:
        pytest.skip("this version has no validators")
    return name


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder whose path leaves room for a socket's name (107 bytes in all)."""
    with tempfile.TemporaryDirectory(prefix="nri-") as path:
        yield Path(path)


@pytest.fixture
def socket(folder: Path) -> Path:
    """Where the runtime of this test listens."""
    return folder / "nri.sock"
