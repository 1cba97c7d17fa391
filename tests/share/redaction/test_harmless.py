# SPDX-License-Identifier: Apache-2.0
"""Values of variables that are plain."""

from __future__ import annotations

import pytest

from nri_scope.share.redaction.harmless import is_plain


@pytest.mark.parametrize(
    "value",
    [
        "C",
        "POSIX",
        "C.UTF-8",
        "de_DE",
        "en_US.utf8",
        "ja_JP.eucJP",
        "ru_RU.KOI8-R",
        "8080",
        "512Mi",
    ],
)
def test_plain_values_are_harmless(value: str) -> None:
    assert is_plain(value)


@pytest.mark.parametrize("value", ["C.0000000g", "en_US.hunter2", "POSIX.s3cr3t", "8080x", "C."])
def test_values_that_only_begin_like_plain_ones_are_not_harmless(value: str) -> None:
    assert not is_plain(value)
