# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tui.widgets.filter_bar import shown
from tests.tui.hostile import assert_harmless


@given(st.text(max_size=60))
def test_input_is_escaped_character_for_character(text: str) -> None:
    assert len(shown(text)) == len(text)
    assert_harmless(shown(text))


def test_ordinary_input_is_unchanged() -> None:
    assert shown('pod:"wéb 容器" took:>1ms') == 'pod:"wéb 容器" took:>1ms'
