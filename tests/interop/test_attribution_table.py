# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/diff.md match the expectations of the other attribution tests."""

from __future__ import annotations

import pytest

from tests.interop.attribution_found import run_of
from tests.interop.attribution_table import NEWEST, PAGE, inserted
from tests.interop.build import Unavailable

pytestmark = pytest.mark.interop


def test_the_tables_of_the_page_are_up_to_date() -> None:
    try:
        run_of(NEWEST)
    except Unavailable as error:
        pytest.skip(f"the Go reference cannot be built: {error}")
    text = PAGE.read_text()
    assert text == inserted(text), "run python -m tests.interop.attribution_table"
