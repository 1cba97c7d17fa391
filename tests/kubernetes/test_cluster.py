# SPDX-License-Identifier: Apache-2.0
"""Run the manifests on a real cluster; a plugin gets what they are converted to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.testbed.packages import BEST_EFFORT, SeriesUnavailable

from .fidelity import compare
from .known_differences import problems
from .observation import observe
from .programs import RUNTIMES


@pytest.mark.kubernetes
@pytest.mark.parametrize("profile", RUNTIMES)
def test_a_plugin_gets_what_manifests_are_converted_to(profile: str, tmp_path: Path) -> None:
    before = _left_over()
    try:
        observe(profile, tmp_path)
    except SeriesUnavailable as error:
        if RUNTIMES[profile] in BEST_EFFORT or profile == "cri-o":
            pytest.skip(str(error))
        raise
    assert problems(compare(tmp_path, profile), profile) == []
    assert _left_over() <= before


def _left_over() -> set[Path]:
    """Return the folders and cgroups of clusters; those of other tests may vanish."""
    return {*Path("/tmp").glob("nsk-*"), *Path("/sys/fs/cgroup").glob("**/nsk-*")}
