# SPDX-License-Identifier: Apache-2.0
"""Long values are cut on terminals only."""

from __future__ import annotations

import pytest

from nri_scope.differ.render.text import change_lines
from nri_scope.specs import Change
from nri_scope.text.styled_text import Layout


@pytest.mark.parametrize("width", [None, 80])
def test_a_long_value_is_whole_unless_on_a_terminal(width: int | None) -> None:
    value = "x" * 9_000
    change = Change("/process/env/LONG", "1", value, "changed")
    lines = "".join(str(line).strip() for line in change_lines(Layout(width), change))
    assert (value in lines) == (width is None)
