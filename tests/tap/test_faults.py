# SPDX-License-Identifier: Apache-2.0
"""Parsing of the fault options."""

from __future__ import annotations

import pytest

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event
from nri_scope.tap.settings import Faults, parse_faults


def test_events_probabilities_and_durations_are_parsed() -> None:
    faults = parse_faults(("createcontainer=1.5s:0.25",), ("all",), ("StopContainer:0.5",), 7)
    (delay,), (drop,), (error,) = faults.delays, faults.drops, faults.errors
    assert (delay.events, delay.delay_s, delay.probability) == (
        frozenset(["CreateContainer"]),
        1.5,
        0.25,
    )
    assert drop.events == {event.name for event in Event}
    assert drop.probability == 1.0
    assert (error.events, error.probability) == (frozenset(["StopContainer"]), 0.5)
    assert faults.any
    assert not Faults().any


def test_the_announcement_repeats_the_options() -> None:
    faults = parse_faults(("all=1s",), (), ("StopContainer:0.5",), 7)
    assert faults.announcement == (
        "injecting faults: --delay all=1s --error StopContainer:0.5 --seed 7"
    )


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        ("CreateContainer", "has no valid duration"),
        ("CreateContainer=", "has no valid duration"),
        ("CreateContainer=3", "has no valid duration"),
        ("CreateContainer=0s", "has no valid duration"),
        ("CreateContainer=999d", "has no valid duration"),
        ("Create=3s", "there is no event 'Create'"),
        ("=3s", "there is no event ''"),
        ("CreateContainer=3s:2", "'2' is not a probability"),
        ("CreateContainer=3s:", "'' is not a probability"),
    ],
)
def test_an_invalid_delay_is_rejected(delay: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_faults((delay,), (), ())


@pytest.mark.parametrize("probability", ["nan", "-0.1", "1.01", "often", "inf"])
def test_a_probability_outside_0_to_1_is_rejected(probability: str) -> None:
    with pytest.raises(UsageError, match="is not a probability"):
        parse_faults((), (f"all:{probability}",), ())
