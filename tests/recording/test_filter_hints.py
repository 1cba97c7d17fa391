# SPDX-License-Identifier: Apache-2.0
"""A filter without a match names the value that no event has, and similar ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import FilterError
from nri_scope.filter import parse
from nri_scope.recording.query.coverage import unmatched_words
from nri_scope.recording.reading.reader import Recording
from tests.sample_names import CHECKOUT_POD, REPLICA_POD

RECORDING = Path(__file__).parents[2] / "recordings" / "demo.nriscope.db"


@pytest.fixture(scope="module")
def demo() -> Iterator[Recording]:
    with Recording.open(RECORDING) as recording:
        yield recording


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (f"pod={CHECKOUT_POD}",
         f'"pod={CHECKOUT_POD}" is searched in names; did you mean pod:{CHECKOUT_POD}?'),
        ("changed:cpuset", "no event has changed:cpuset; did you mean changed:cpu.shares or "
         "changed:cpu.cpus?"),
        ('changed:"env FO"', 'no event has changed:"env FO"; did you mean changed:"env FOO"?'),
        ("owner:30-env", "no event has owner:30-env; did you mean owner:30-env-injector?"),
        ("plugin:image", "no event has plugin:image; did you mean plugin:40-image-check?"),
        (f"pod:{CHECKOUT_POD} OR pod:{CHECKOUT_POD}z",
         f"no event has pod:{CHECKOUT_POD}z; did you mean pod:{CHECKOUT_POD} "
         f"or pod:{REPLICA_POD}?"),
        ("container:zzzzzz", "no event has container:zzzzzz"),
        (f"pod:{CHECKOUT_POD} container:report", ""),
        ("-pod:nosuch", ""),
        ("status:timeout took:>1h", ""),
        ("a=b", ""),
        ("pod:no*such", ""),
    ],
)  # fmt: skip
def test_the_first_unmatched_value_is_named(demo: Recording, where: str, words: str) -> None:
    assert unmatched_words(demo, parse(where)) == words


@given(st.text(max_size=40))
def test_any_filter_has_an_answer(text: str) -> None:
    try:
        where = parse(text)
    except FilterError:
        return
    with Recording.open(RECORDING) as recording:
        assert isinstance(unmatched_words(recording, where), str)
