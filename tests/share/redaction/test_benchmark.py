# SPDX-License-Identifier: Apache-2.0
"""Corpora of the redaction benchmark: only planted credentials count as found."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks import labelled
from benchmarks.corpora import Sample, gitleaks
from benchmarks.redaction import leaks, stays
from benchmarks.samples import Sampler
from nri_scope.share.redaction.rules import compiled


def test_every_planted_secret_can_be_read_before_redaction() -> None:
    cases = list(labelled.planted(4))

    assert len(cases) > 200
    assert [case.name for case in cases if not leaks(case, case.event)] == []


def test_every_credential_can_be_read_in_every_place_before_redaction() -> None:
    samples = [Sample("one", "abc_0123456789abcdef", "abc_0123456789abcdef"), *gitleaks(1)]
    cases = list(labelled.of_samples("x", samples[:40], len(labelled.TOKEN_PLACES)))

    assert len(cases) == 40 * len(labelled.TOKEN_PLACES)
    assert [case.name for case in cases if not leaks(case, case.event)] == []


def test_every_value_to_keep_can_be_read_before_redaction() -> None:
    cases = list(labelled.staying())

    assert len(cases) > 50
    assert [case.name for case in cases if not stays(case, case.event)] == []


@pytest.mark.parametrize(
    "expression",
    [
        r"\bab[0-9]{3}(?:x|yz)+\w?[^a-z]",
        r"(?i)[\w.-]{0,50}?(?:acme)(?:[ \t]{0,20})(?:=|:)([a-f0-9]{32})(?:[\x60'\"\s;]|$)",
        r"(?P<value>do[op]_v1_[[:alnum:]]{8})\z",
    ],
)
def test_samples_match_their_expression(expression: str) -> None:
    chance = Random(1)
    for _ in range(50):
        text, groups = Sampler(expression, chance).sample()
        found = compiled(expression).search(text)

        assert found is not None, text
        assert all(group in text for group in groups.values())
