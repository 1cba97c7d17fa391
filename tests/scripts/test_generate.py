# SPDX-License-Identifier: Apache-2.0
"""Tests of the check for outdated generated code."""

import pytest

from scripts.generate import drift

FRESH = {"nri/api_pb2.py": "A = 1\nB = 2\n", "nri/__init__.py": ""}


def test_equal_code_has_not_drifted() -> None:
    assert drift(FRESH, FRESH) == []


@pytest.mark.parametrize(
    ("committed", "line"),
    [
        ({**FRESH, "nri/api_pb2.py": "A = 1\nB = 3\n"}, "-B = 3"),
        ({"nri/__init__.py": ""}, "+A = 1"),
        ({**FRESH, "nri/old_pb2.py": "C = 4\n"}, "-C = 4"),
    ],
    ids=["edited", "missing", "left over"],
)
def test_outdated_code_is_reported(committed: dict[str, str], line: str) -> None:
    assert line in drift(committed, FRESH)
