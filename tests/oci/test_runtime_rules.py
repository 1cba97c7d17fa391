# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.oci import UpdatePath, runtime_rules_of


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
