# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope.transport.loop import run


class Large:
    """An object whose repr is expensive."""

    def __repr__(self) -> str:
        raise AssertionError("nobody asked for a text")


def test_a_result_is_returned_without_being_formatted() -> None:
    large = Large()

    async def main() -> Large:
        return large

    assert run(main()) is large
