# SPDX-License-Identifier: Apache-2.0
"""The reference programs, built once, and a place for sockets with short names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.build import Unavailable, Variant, build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needed = getattr(item, "fixturenames", ())
        if Path(__file__).parent in item.path.parents and {"variant", "pairing"} & set(needed):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(params=list(Variant), ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Each NRI version that the reference programs are built on; skips without Go."""
    chosen: Variant = request.param
    try:
        build(chosen)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    return chosen


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder whose path leaves room for a socket's name (107 bytes in all)."""
    with tempfile.TemporaryDirectory(prefix="nri-") as path:
        yield Path(path)


@pytest.fixture
def socket(folder: Path) -> Path:
    """Where the runtime of this test listens."""
    return folder / "nri.sock"
