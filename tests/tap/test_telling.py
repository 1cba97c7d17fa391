# SPDX-License-Identifier: Apache-2.0
"""What two processes of a tap tell each other arrives as it was told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.tap.telling import Ear, Kind, Told, piece, telling

_NS = st.integers(0, 2**62)
_PIECES = st.tuples(st.integers(0, 2**32 - 1), st.booleans(), st.binary(max_size=300), _NS, _NS)


@given(st.lists(_PIECES, max_size=20), st.lists(st.integers(1, 500), min_size=1, max_size=5))
def test_pieces_arrive_however_they_are_cut(
    pieces: list[tuple[int, bool, bytes, int, int]], cuts: list[int]
) -> None:
    said = b"".join(piece(*one) for one in pieces)
    ear, heard, start = Ear(), list[Told](), 0
    while start < len(said):
        size = cuts[len(heard) % len(cuts)]
        heard += ear.feed(said[start : start + size])
        start += size
    assert heard == [
        (Kind.FORTH if forth else Kind.BACK, relay, at_ns, until_ns, data)
        for relay, forth, data, at_ns, until_ns in pieces
    ]


def test_values_arrive_as_they_were() -> None:
    (told,) = Ear().feed(telling(Kind.ENDED, 7, 123, None, 'wörds "quoted"', ""))
    assert (told.kind, told.relay, told.at_ns) == (Kind.ENDED, 7, 123)
    assert told.values() == [None, 'wörds "quoted"', ""]
