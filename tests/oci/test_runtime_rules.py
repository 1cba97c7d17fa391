# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.oci import UpdatePath, runtime_rules_of, shows_start


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("containerd", UpdatePath.CRI, UpdatePath.CRI),
        ("cri-o", UpdatePath.CRI_O, UpdatePath.OCI_RUNTIME),
        ("CRI-O", UpdatePath.CRI_O, UpdatePath.OCI_RUNTIME),
        ("v2", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
        ("another", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
        ("", UpdatePath.UNKNOWN, UpdatePath.UNKNOWN),
    ],
)
def test_update_paths_by_runtime(name: str, own: UpdatePath, other: UpdatePath) -> None:
    rules = runtime_rules_of(name)
    assert (rules.own_updates, rules.other_updates) == (own, other)
    assert rules.ignores_evictions == (own is not UpdatePath.UNKNOWN)


@pytest.mark.parametrize(
    ("event", "runtime", "expected"),
    [
        ("StartContainer", "containerd", True),
        ("StartContainer", "cri-o", True),
        ("StartContainer", "v2", False),
        ("PostStartContainer", "v2", True),
        ("PostStartContainer", "containerd", True),
        ("CreateContainer", "containerd", False),
    ],
)
def test_isulads_start_container_shows_no_started_container(
    event: str, runtime: str, expected: bool
) -> None:
    assert shows_start(event, runtime) is expected
