# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name, parse_plugin_file, plugin_id

INDICES = st.integers(0, 99).map("{:02}".format)
NAMES = st.from_regex(r"[A-Za-z0-9_.+-]+", fullmatch=True)


@given(INDICES, NAMES)
def test_a_plugin_file_name_round_trips(index: str, name: str) -> None:
    assert check_index(index) == index
    assert check_name(name) == name
    assert parse_plugin_file(plugin_id(index, name)) == (index, name)


@pytest.mark.parametrize("index", ["", "7", "abc", "100", "-1", "1 ", "0x", "٠١", "00\n"])
def test_an_index_is_exactly_two_ascii_digits(index: str) -> None:
    with pytest.raises(UsageError, match="not a plugin index"):
        check_index(index)


def test_a_single_digit_suggests_a_leading_zero() -> None:
    with pytest.raises(UsageError, match="write 07"):
        check_index("7")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a\n", "x:y"])
def test_other_characters_in_a_name_are_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        check_name(name)


@pytest.mark.parametrize("name", ["logger", "1-logger", "aa-x", "00_x", "00", "00-", "-00-x", ""])
def test_a_file_name_without_index_and_name_is_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="not a name for a plugin file"):
        parse_plugin_file(name)
