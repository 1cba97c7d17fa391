# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.runtime_setup import (
    introduction_of,
    parse_configure,
    parse_registration,
    parse_state_part,
    parse_subscription,
)
from nri_scope.nri.versions import NriVersion, valid_mask

from .captures import NAMES, exchanges


@pytest.mark.parametrize(
    ("name", "version", "inferred", "timeouts"),
    [
        (NAMES[0], "0.6.1", True, (0, 0)),
        (NAMES[1], "0.8.0", True, (5000, 2000)),
        (NAMES[2], "0.12.2", False, (5000, 2000)),
    ],
)
def test_introductions_of_real_runtimes(
    name: str, version: str, inferred: bool, timeouts: tuple[int, int]
) -> None:
    first = next(exchange for exchange in exchanges(name) if exchange.method == "Configure")
    introduction = introduction_of(api.ConfigureRequest.FromString(first.request))
    assert introduction.runtime_name == "containerd"
    assert (str(introduction.version), introduction.inferred) == (version, inferred)
    assert (introduction.registration_timeout_ms, introduction.request_timeout_ms) == timeouts


@pytest.mark.parametrize("more", [True, False])
def test_a_state_part_has_counts_of_pods_and_containers(more: bool) -> None:
    request = api.SynchronizeRequest(
        pods=[api.PodSandbox()] * 2, containers=[api.Container()] * 3, more=more
    )
    part = parse_state_part(request.SerializeToString())
    assert part is not None
    assert (part.pods, part.containers, part.more) == (2, 3, more)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_state_part_or_none(payload: bytes) -> None:
    part = parse_state_part(payload)
    assert part is None or part.pods >= 0


def test_malformed_bytes_are_no_state_part() -> None:
    assert parse_state_part(b"\x0a") is None


def test_a_registration_has_the_plugins_index_and_name() -> None:
    request = api.RegisterPluginRequest(plugin_name="thing", plugin_idx="07")
    assert parse_registration(request.SerializeToString()) == ("07", "thing")
    assert parse_registration(b"") == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_an_introduction_is_parsed_from_bytes(name: str) -> None:
    first = next(exchange for exchange in exchanges(name) if exchange.method == "Configure")
    assert parse_configure(first.request) == introduction_of(
        api.ConfigureRequest.FromString(first.request)
    )


def test_an_empty_subscription_includes_all_events_of_the_version() -> None:
    version = NriVersion.parse("0.6.1")
    assert parse_subscription(api.ConfigureResponse(events=5).SerializeToString(), version) == 5
    assert parse_subscription(b"", version) == valid_mask(version) > 0
    assert parse_subscription(b"", None) == valid_mask(None) > 0


def test_malformed_setup_messages_are_rejected() -> None:
    assert parse_registration(b"\x0a") is None
    assert parse_configure(b"\x0a") is None
    assert parse_subscription(b"\x0a", None) == 0
