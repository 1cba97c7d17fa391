# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.doctor.config_checks import parse_go_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        (".5s", 0.5),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("-3s", -3),
        ("+3s", 3),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5d", "five", "1m30", "--1s", "٥s", "-"])
def test_text_that_go_rejects_is_none(text: str) -> None:
    assert parse_go_duration(text) is None


@given(st.text(alphabet="0123456789.smhnuµ+- d"))
def test_any_text_is_a_number_of_seconds_or_none(text: str) -> None:
    seconds = parse_go_duration(text)
    assert seconds is None or isinstance(seconds, float)
