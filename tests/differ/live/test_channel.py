# SPDX-License-Identifier: Apache-2.0
"""Messages between the recorder and the viewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.live import ChainSeen, Closed, Message, ReadPosition, Unread, decode, encode

# Runtimes may send invalid Unicode.
_TEXT = st.text(st.characters(exclude_categories=()))
_NS = st.integers(-(2**63), 2**63)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(ChainSeen, st.lists(_TEXT)),
    st.builds(ReadPosition, _NS, _NS),
    st.builds(Closed, st.booleans()),
    st.just(Unread()),
)


@given(_MESSAGES)
def test_messages_round_trip(message: Message) -> None:
    found = decode(*encode(message))
    assert (type(found), found) == (type(message), message)
