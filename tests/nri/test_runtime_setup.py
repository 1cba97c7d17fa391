# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.runtime_setup import (
    introduced,
    introduction,
    registration,
    state_part,
    subscribed,
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
def test_real_runtimes_introduce_themselves(
    name: str, version: str, inferred: bool, timeouts: tuple[int, int]
) -> None:
    first = next(exchange for exchange in exchanges(name) if exchange.method == "Configure")
    said = introduction(api.ConfigureRequest.FromString(first.request))
    assert said.runtime_name == "containerd"
    assert (str(said.version), said.inferred) == (version, inferred)
    assert (said.registration_timeout_ms, said.request_timeout_ms) == timeouts


@pytest.mark.parametrize("more", [True, False])
def test_a_part_is_counted(more: bool) -> None:
    request = api.SynchronizeRequest(
        pods=[api.PodSandbox()] * 2, containers=[api.Container()] * 3, more=more
    )
    part = state_part(request.SerializeToString())
    assert part is not None
    assert (part.pods, part.containers, part.more) == (2, 3, more)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_part_or_none(payload: bytes) -> None:
    part = state_part(payload)
    assert part is None or part.pods >= 0


def test_malformed_bytes_are_no_part() -> None:
    assert state_part(b"\x0a") is None


def test_a_registration_says_who_the_plugin_is() -> None:
    request = api.RegisterPluginRequest(plugin_name="thing", plugin_idx="07")
    assert registration(request.SerializeToString()) == ("07", "thing")
    assert registration(b"") == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_an_introduction_is_read_from_its_bytes(name: str) -> None:
    first = next(exchange for exchange in exchanges(name) if exchange.method == "Configure")
    assert introduced(first.request) == introduction(api.ConfigureRequest.FromString(first.request))


def test_an_empty_subscription_is_to_all_that_the_version_has() -> None:
    version = NriVersion.parse("0.6.1")
    assert subscribed(api.ConfigureResponse(events=5).SerializeToString(), version) == 5
    assert subscribed(b"", version) == valid_mask(version) > 0
    assert subscribed(b"", None) == valid_mask(None) > 0


def test_malformed_bytes_introduce_nobody() -> None:
    assert registration(b"\x0a") is None
    assert introduced(b"\x0a") is None
    assert subscribed(b"\x0a", None) == 0
