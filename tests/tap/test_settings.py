# SPDX-License-Identifier: Apache-2.0
"""Settings of a tap, stored in a file beside a wrapped plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.tap.run import TapSettings


@given(
    st.builds(
        TapSettings,
        output=st.text(),
        where=st.text(),
        redact=st.none() | st.text(),
        max_size=st.none() | st.integers(),
        max_age=st.none() | st.floats(allow_nan=False),
    )
)
def test_settings_survive_a_round_trip(settings: TapSettings) -> None:
    plain = json.loads(json.dumps(settings.plain()))
    assert TapSettings.read(plain) == settings
    assert TapSettings.read({**plain, "of a later version": 1}) == settings


def test_settings_without_an_output_file_are_rejected() -> None:
    with pytest.raises(UsageError, match="no output file"):
        TapSettings.read({"where": ""})


@pytest.mark.parametrize(
    "invalid",
    [
        {"where": "evnt:x"},
        {"redact": "/no/such/rules"},
        {"max_size": 10},
    ],
)
def test_invalid_settings_are_rejected_before_a_file_is_created(
    invalid: dict[str, object], tmp_path: Path
) -> None:
    settings = TapSettings.read({"output": str(tmp_path / "x.db"), **invalid})
    with pytest.raises(NriScopeError):
        settings.check()
    assert list(tmp_path.iterdir()) == []
