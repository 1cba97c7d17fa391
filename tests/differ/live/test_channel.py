# SPDX-License-Identifier: Apache-2.0
"""Messages between the recorder and the viewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.live.channel import (
    Answer,
    ChainSeen,
    Closed,
    CriBegan,
    CriEnded,
    CriPollingEnded,
    FinishAsking,
    Message,
    ReadPosition,
    Unread,
    decode,
    encode,
)

# Runtimes may send invalid Unicode.
_TEXT = st.text(st.characters(exclude_categories=()))
_NS = st.integers(-(2**63), 2**63)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(CriBegan, _TEXT, _TEXT, _NS),
    st.builds(CriEnded, _TEXT, _NS),
    st.builds(Answer, _TEXT, _NS, _NS, _NS, _TEXT),
    st.builds(ChainSeen, st.lists(_TEXT)),
    st.builds(CriPollingEnded, _NS, _NS),
    st.builds(ReadPosition, _NS, _NS),
    st.builds(Closed, st.booleans()),
    st.sampled_from([Unread(), FinishAsking()]),
)


@given(_MESSAGES)
def test_messages_round_trip(message: Message) -> None:
    found = decode(*encode(message))
    assert (type(found), found) == (type(message), message)
