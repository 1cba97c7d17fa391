# SPDX-License-Identifier: Apache-2.0
"""Looking up many paths of a spec labels each array only once."""

from __future__ import annotations

import pytest

from nri_scope.specs import ABSENT, Spec, path_labels, value_at, values_of_key
from nri_scope.specs.json_spec import members

MANY = 3_000


def test_an_array_is_labelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[Spec] = [
        {"process": {"env": [f"K{number}={value}{number}" for number in range(MANY)]}}
        for value in "ab"
    ]
    count = 0

    def counted(*arguments: object) -> object:
        nonlocal count
        count += 1
        return members(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(path_labels, "members", counted)

    for number in range(0, MANY, 100):
        path = f"/process/env/K{number}"
        assert [value_at(spec, path) for spec in specs] == [f"a{number}", f"b{number}"]
        assert [values_of_key(spec, path) for spec in specs] == [[f"a{number}"], [f"b{number}"]]
    assert value_at(specs[0], "/process/env/none") is ABSENT
    assert count == 2


def test_equal_arrays_are_not_confused() -> None:
    one: Spec = {"process": {"env": ["A=1"]}}
    same_text: Spec = {"process": {"env": ["A=2"]}, "other": one}
    for _ in range(3):
        assert value_at(one, "/process/env/A") == "1"
        assert value_at(same_text, "/process/env/A") == "2"
        assert value_at(same_text, "/other/process/env/0") == "A=1"
