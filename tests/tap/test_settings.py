# SPDX-License-Identifier: Apache-2.0
"""A tap's settings, kept in a file beside a wrapped plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.tap.settings import Settings

TEXTS = st.lists(st.text()).map(tuple)


@given(
    st.builds(
        Settings,
        output=st.text(),
        where=st.text(),
        redact=st.none() | st.text(),
        max_size=st.none() | st.integers(),
        max_age=st.none() | st.floats(allow_nan=False),
        delays=TEXTS,
        drops=TEXTS,
        errors=TEXTS,
        seed=st.integers(),
    )
)
def test_they_are_read_as_they_were_written(settings: Settings) -> None:
    plain = json.loads(json.dumps(settings.plain()))
    assert Settings.read(plain) == settings
    assert Settings.read({**plain, "of a later version": 1}) == settings


def test_without_a_file_to_record_to_they_are_none() -> None:
    with pytest.raises(UsageError, match="no output file"):
        Settings.read({"where": ""})


@pytest.mark.parametrize(
    "wrong",
    [
        {"where": "evnt:x"},
        {"redact": "/no/such/rules"},
        {"max_size": 10},
        {"drops": ("NoSuchEvent",)},
        {"delays": ("CreateContainer",)},
        {"errors": ("all:7",)},
    ],
)
def test_what_would_be_refused_is_refused_before_there_is_a_file(
    wrong: dict[str, object], tmp_path: Path
) -> None:
    settings = Settings.read({"output": str(tmp_path / "x.db"), **wrong})
    with pytest.raises(NriScopeError):
        settings.check()
    assert list(tmp_path.iterdir()) == []
