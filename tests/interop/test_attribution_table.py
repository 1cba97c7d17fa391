# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/diff.md are what the other tests of attribution expect."""

from __future__ import annotations

import pytest

from tests.interop.attribution_found import seen_by
from tests.interop.attribution_table import NEWEST, PAGE, inserted
from tests.interop.build import Unavailable

pytestmark = pytest.mark.interop


def test_the_page_has_the_tables() -> None:
    try:
        seen_by(NEWEST)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    text = PAGE.read_text()
    assert text == inserted(text), "python -m tests.interop.attribution_table writes it anew"
