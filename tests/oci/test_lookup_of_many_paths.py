# SPDX-License-Identifier: Apache-2.0
"""Many paths of one spec are looked up without labelling its arrays for each of them."""

from __future__ import annotations

import pytest

from nri_scope.oci import ABSENT, Lookup, Spec, path_lookup, value_at
from nri_scope.oci.lists import members

MANY = 3_000


def test_an_array_is_labelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec: Spec = {"process": {"env": [f"K{number}=v{number}" for number in range(MANY)]}}
    paths = [f"/process/env/K{number}" for number in range(0, MANY, 100)]
    expected = [value_at(spec, path) for path in paths]
    count = 0

    def counted(*given: object) -> object:
        nonlocal count
        count += 1
        return members(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(path_lookup, "members", counted)
    lookup = Lookup(spec)

    assert [lookup.at(path) for path in paths] == expected
    assert expected == [f"v{number}" for number in range(0, MANY, 100)]
    assert lookup.at("/process/env/none") is ABSENT
    assert count == 1
