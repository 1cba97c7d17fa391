# SPDX-License-Identifier: Apache-2.0
"""Matchers: accepted values, and invalid arguments."""

from __future__ import annotations

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.plain import Plain
from nri_scope.replay.golden.matchers import MAX_PATTERN, parse_matcher


@pytest.mark.parametrize(
    ("tag", "argument", "value", "accepted"),
    [
        ("!regex", "^a+$", "aaa", True),
        ("!regex", "^a+$", "aab", False),
        ("!regex", "b", "abc", True),
        ("!regex", "^51", 512, True),
        ("!regex", "true", True, False),
        ("!regex", ".*", ["a"], False),
        ("!regex", ".*", None, False),
        ("!tolerance", "100 ±5", 105, True),
        ("!tolerance", "100 ±5", 95, True),
        ("!tolerance", "100 ±5", 106, False),
        ("!tolerance", "1000 +-1.5%", 1015, True),
        ("!tolerance", "1000 +/- 1.5 %", 1016, False),
        ("!tolerance", "-100 ±10%", -110, True),
        ("!tolerance", "-100 ±10%", -111, False),
        ("!tolerance", "1 ±1", "2", True),
        ("!tolerance", "1 ±1", "two", False),
        ("!tolerance", "1 ±1", True, False),
        ("!tolerance", "1 ±1", None, False),
        # Equal as floats.
        ("!tolerance", "9007199254740993 ±0", 9007199254740992, False),
        ("!present", "", {}, True),
        ("!present", "", False, True),
        ("!present", "", None, False),
        ("!ignored", "", None, True),
        ("!ignored", "", [1], True),
    ],
)
def test_a_matcher_accepts_matching_values_only(
    tag: str, argument: str, value: Plain, accepted: bool
) -> None:
    assert parse_matcher(tag, argument).accepts(value) is accepted


@pytest.mark.parametrize(
    ("tag", "argument", "message"),
    [
        ("!regex", "(", "bad regular expression"),
        ("!regex", "(?=a)", "bad regular expression"),
        ("!regex", "", "for any value, write !present"),
        ("!regex", "a" * (MAX_PATTERN + 1), "the maximum is 4096"),
        ("!regex", "((((a{1,100}){1,100}){1,100}){1,100})", "bad"),
        ("!tolerance", "", "write !tolerance 512 ±10%"),
        ("!tolerance", "512", "write !tolerance 512 ±10%"),
        ("!tolerance", "512 ±-1", "write !tolerance 512 ±10%"),
        ("!tolerance", "1e9 ±1", "write !tolerance 512 ±10%"),
        ("!tolerance", "9" * 21 + " ±1", "write !tolerance 512 ±10%"),
        ("!present", "x", "takes no value"),
        ("!ignored", "x", "takes no value"),
        ("!ignore", "", "did you mean !ignored?"),
        ("!present,", "", "put a space after a matcher"),
        ("tag:yaml.org,2002:binary", "aGk=", "matchers are !regex, !tolerance, !present, !ignored"),
    ],
)
def test_an_invalid_matcher_is_rejected_in_one_line(tag: str, argument: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_matcher(tag, argument)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("argument", ["512 ±10%", "-3 ±0.5", "0 ±00%"])
def test_a_tolerance_keeps_its_notation(argument: str) -> None:
    assert parse_matcher("!tolerance", argument).argument == argument
