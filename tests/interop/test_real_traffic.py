# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' traffic repeats a capture with new identities in each round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.text_format import MessageToString

from benchmarks.traffic import CHAINS, Sent, captured, repeated

IDENTITY = re.compile(
    r"(?<!sha256:)(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)


def identities(stream: list[Sent]) -> set[str]:
    return {found for _, message in stream for found in IDENTITY.findall(MessageToString(message))}


@pytest.fixture(params=CHAINS, ids=lambda file: file.name.removesuffix(".jsonl.gz"))
def stream(request: pytest.FixtureRequest) -> list[Sent]:
    file: Path = request.param
    return captured(file, "00-probe-a")


def test_each_round_has_new_identities(stream: list[Sent]) -> None:
    length = len(stream)
    rounds = list(repeated(stream, 3 * length))
    sets = [identities(rounds[n * length : (n + 1) * length]) for n in range(3)]

    original = identities(stream)
    assert all(len(one) == len(original) for one in sets)
    assert len(original.union(*sets)) == 4 * len(original)


def test_each_round_has_the_same_events(stream: list[Sent]) -> None:
    length = len(stream)
    rounds = list(repeated(stream, 2 * length))

    assert [sent.method for sent in rounds] == [sent.method for sent in stream] * 2
    # An object has one identity throughout a round.
    seen: dict[str, str] = {}
    for before, after in zip(stream, rounds[length:], strict=True):
        for kind in ("pod", "container"):
            old, new = getattr(before.message, kind, None), getattr(after.message, kind, None)
            assert (old is None) == (new is None)
            if old is not None and new is not None and old.id:
                assert seen.setdefault(old.id, new.id) == new.id
    assert len(set(seen.values())) == len(seen) > 5


def test_the_traffic_is_deterministic(stream: list[Sent]) -> None:
    assert list(repeated(stream, 40)) == list(repeated(stream, 40))
    assert len(list(repeated(stream, 7))) == 7
