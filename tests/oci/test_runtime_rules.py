# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.oci import UpdatePath, manner_of


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
def test_no_runtime_is_taken_for_another(name: str, own: UpdatePath, other: UpdatePath) -> None:
    manner = manner_of(name)
    assert (manner.own_updates, manner.other_updates) == (own, other)
    assert manner.ignores_evictions == (own is not UpdatePath.UNKNOWN)
