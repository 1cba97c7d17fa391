# SPDX-License-Identifier: Apache-2.0
"""Failure policies: their names, their message, and the runtimes that know them."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.runtime_setup import (
    NO_POLICY,
    FailurePolicy,
    check_failure_policy,
    configure_reply,
    parse_failure_policy,
)

BOTH = FailurePolicy(fail_request=True, keep_connected=True)


@pytest.mark.parametrize("text", ["", "fail_request", "keep_connected",
                                  "fail_request,keep_connected"])  # fmt: skip
def test_a_policy_has_the_names_of_its_fields(text: str) -> None:
    assert str(FailurePolicy.parse(text)) == text


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    for text in ("fail_requests", "fail_request,fail_requests", ","):
        with pytest.raises(UsageError, match=r"NRI has no failure policy (''|.*did you mean)"):
            FailurePolicy.parse(text)


def test_without_a_policy_the_reply_is_that_of_older_plugins() -> None:
    assert configure_reply(0x7FF, NO_POLICY) == b"\x10\xff\x0f"
    assert parse_failure_policy(b"\x10\xff\x0f") == NO_POLICY


def test_a_policy_is_sent_with_the_numbers_of_the_upstream_fields() -> None:
    # api.proto of NRI 0.12.5: failure_policy = 3, fail_request = 1, keep_connected = 2.
    assert configure_reply(1, BOTH) == b"\x10\x01\x1a\x04\x08\x01\x10\x01"
    assert parse_failure_policy(configure_reply(1, BOTH)) == BOTH


def test_a_malformed_reply_has_no_policy() -> None:
    assert parse_failure_policy(b"\x1a\x07\x08") == NO_POLICY


@pytest.mark.parametrize(
    ("version", "knows"),
    [("v0.12.3", False), ("v0.12.4", True), ("v0.12.5", True), ("", False), ("(devel)", False)],
)
def test_runtimes_know_policies_since_0_12_4(version: str, knows: bool) -> None:
    configure = api.ConfigureRequest(
        runtime_name="containerd", runtime_version="v2.4.2", NRI_version=version
    )
    check_failure_policy(NO_POLICY, configure)
    if knows:
        check_failure_policy(BOTH, configure)
        return
    with pytest.raises(UsageError, match="does not know the failure policy fail_request,keep_"):
        check_failure_policy(BOTH, configure)
