# SPDX-License-Identifier: Apache-2.0
"""The CRI's answer, as somebody's recording has it."""

from __future__ import annotations

import pytest

from nri_scope.differ.told import real_spec


def test_has_the_spec() -> None:
    assert real_spec(b'{"pid": 3, "runtimeSpec": {"linux": {"x": 1.5}}}') == {"linux": {"x": 1.5}}


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"runtimeSpec": 3}',
        b'{"runtimeSpec": {"x": NaN}}',
        b'{"runtimeSpec": {"x": -Infinity}}',
        b'{"runtimeSpec": {"x": 1e999}}',
        b'{"runtimeSpec": ' + b"[" * 100_000,
    ],
)
def test_has_none_that_could_be_used(reply: bytes) -> None:
    assert real_spec(reply) is None
