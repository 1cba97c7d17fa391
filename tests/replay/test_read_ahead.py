# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.replay.player import ReadAhead


@given(st.lists(st.integers()), st.data())
def test_looking_ahead_does_not_change_the_items(items: list[int], data: st.DataObject) -> None:
    ahead = ReadAhead(iter(items))
    received: list[int] = []
    for item in ahead:
        received.append(item)
        for _ in range(data.draw(st.integers(0, 2))):
            ahead.fetch()
    assert received == items


def test_an_error_is_raised_at_its_position() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise UsageError("no second one")

    ahead = ReadAhead(items())
    assert next(ahead) == 1
    ahead.fetch()
    with pytest.raises(UsageError, match="no second one"):
        next(ahead)
