# SPDX-License-Identifier: Apache-2.0
"""Each pattern of redacted texts finds the example above it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nri_scope.share.redaction import texts

DEFINITIONS = re.findall(
    r"(?:^# For example (.+)\n)?^(\w+) = re\.compile\(",
    Path(texts.__file__).read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_patterns_are_known() -> None:
    assert len(DEFINITIONS) > 20


@pytest.mark.parametrize(("example", "name"), DEFINITIONS)
def test_a_pattern_finds_the_example_above_it(example: str, name: str) -> None:
    match = getattr(texts, name).search(example)
    assert match is not None and match[0]
