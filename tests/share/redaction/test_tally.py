# SPDX-License-Identifier: Apache-2.0
"""Repeated messages are counted each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.engine import ReplacementCounts

KEY = bytes(range(32))
VARIABLES = st.lists(
    st.builds("{}={}".format, st.sampled_from("abc"), st.sampled_from(["qzx7k2", "u:p@h", "1"])),
    max_size=4,
)


@given(st.lists(VARIABLES, max_size=30))
def test_a_repeated_message_counts_like_a_new_one(messages: list[list[str]]) -> None:
    each, repeated = ReplacementCounts(), Redactor(Rules.DEFAULT, KEY)
    total = 0
    for variables in messages:
        container = api.Container(id="c1", pod_sandbox_id="p1", env=variables)
        request = api.StartContainerRequest(container=container).SerializeToString()
        repeated.request("StartContainer", request)
        alone = Redactor(Rules.DEFAULT, KEY)
        alone.request("StartContainer", request)
        for count in alone.tally:
            total += count.values
            for _ in range(count.values):
                each.add(count.rule, count.place)
    assert repeated.tally.total == each.total == total
    assert repeated.tally.by_rule() == each.by_rule()
    assert list(repeated.tally) == list(each)
