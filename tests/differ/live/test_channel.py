# SPDX-License-Identifier: Apache-2.0
"""Messages between the recorder and the viewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.live import Closed, Message, ReadPosition, decode, encode

_NS = st.integers(-(2**63), 2**63)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(ReadPosition, _NS, _NS),
    st.builds(Closed, st.booleans()),
)


@given(_MESSAGES)
def test_messages_round_trip(message: Message) -> None:
    found = decode(*encode(message))
    assert (type(found), found) == (type(message), message)
