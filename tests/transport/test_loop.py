# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nri_scope.transport.loop import run


class Large:
    """Something that takes long to make a text of."""

    def __repr__(self) -> str:
        raise AssertionError("nobody asked for a text")


def test_a_result_comes_back_and_nobody_makes_a_text_of_it() -> None:
    large = Large()

    async def main() -> Large:
        return large

    assert run(main()) is large
