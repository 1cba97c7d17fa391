# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri_scope.nri.request_subject import (
    MALFORMED,
    UNKNOWN,
    decode_reply,
    decode_request,
    event_name,
    is_plugins_call,
    name_of_container,
    name_of_pod,
)

from .captures import ISULAD, NAMES, exchanges

UNKNOWN_FIELD = b"\xfa\x3f\x01x"  # field 1023, a string


@pytest.mark.parametrize("name", [*NAMES, *ISULAD])
def test_requests_of_real_runtimes_round_trip(name: str) -> None:
    seen = set()
    for exchange in exchanges(name):
        decoded = decode_request(exchange.method, exchange.request, PLUGIN_SERVICE)
        assert decoded.mark == "" and decoded.message is not None
        for message, raw in (
            (decoded.message, exchange.request),
            (decode_reply(exchange.method, exchange.reply), exchange.reply),
        ):
            assert message is not None
            written = message.SerializeToString(deterministic=True)
            again = type(message).FromString(written)
            assert again == message
            assert again.SerializeToString(deterministic=True) == written
            # Only the order of map entries differs.
            assert sorted(written) == sorted(raw)
        if decoded.event not in ("Configure", "Synchronize"):
            assert decoded.pod is not None and decoded.pod.id
            assert (decoded.container is None) == decoded.event.endswith("PodSandbox")
        seen.add(decoded.event)
    assert {"RunPodSandbox", "CreateContainer", "PostStartContainer", "RemovePodSandbox"} <= seen
    assert "StateChange" not in seen


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=64))
def test_arbitrary_bytes_are_a_message_or_malformed(method: str, payload: bytes) -> None:
    decoded = decode_request(method, payload)
    assert decoded.mark in ("", MALFORMED)
    assert (decoded.message is None) == (decoded.mark == MALFORMED)
    decode_reply(method, payload)


@given(st.text(), st.binary(max_size=16))
def test_unknown_methods_are_marked(method: str, payload: bytes) -> None:
    if method not in METHODS:
        assert decode_request(method, payload) == (method, method, None, None, None, UNKNOWN)
        assert decode_reply(method, payload) is None


def test_a_known_method_of_another_service_is_unknown() -> None:
    assert decode_request("StartContainer", b"", RUNTIME_SERVICE).mark == UNKNOWN
    assert decode_request("RegisterPlugin", b"", RUNTIME_SERVICE).mark == ""


def test_unknown_fields_stay_in_the_message() -> None:
    payload = api.StartContainerRequest(pod=api.PodSandbox(id="p")).SerializeToString()
    decoded = decode_request("StartContainer", payload + UNKNOWN_FIELD)
    assert decoded.pod is not None and decoded.pod.id == "p"
    assert decoded.message is not None
    assert decoded.message.SerializeToString(deterministic=True) == payload + UNKNOWN_FIELD


def test_a_state_change_is_named_after_its_event() -> None:
    for number, name in [(6, "StartContainer"), (13, "PostUpdatePodSandbox"), (14, None)]:
        payload = bytes([0x08, number])
        decoded = decode_request("StateChange", payload)
        assert decoded.event == (name or "ValidateContainerAdjustment")


@pytest.mark.parametrize("number", [0, 15, 99, -1])
def test_a_state_change_with_an_unknown_number_shows_it(number: int) -> None:
    message = api.StateChangeEvent(event=api.Event.ValueType(number), pod=api.PodSandbox(id="p"))
    decoded = decode_request("StateChange", message.SerializeToString())
    assert decoded.event == f"StateChange({number})"
    assert decoded.pod is not None and decoded.pod.id == "p"
    assert decoded.mark == ""


def test_a_malformed_state_change_is_marked() -> None:
    decoded = decode_request("StateChange", b"\x08")
    assert (decoded.event, decoded.mark) == ("StateChange", MALFORMED)
    assert event_name("StateChange", None) == "StateChange"


def test_invalid_utf8_is_malformed() -> None:
    assert decode_request("StopPodSandbox", b"\x0a\x03\x0a\x01\xff").mark == MALFORMED


def test_a_pod_with_only_an_id_is_a_pod() -> None:
    request = api.StopContainerRequest(container=api.Container(id="c", pod_sandbox_id="p"))
    assert decode_request("StopContainer", request.SerializeToString()).pod is None
    request.pod.id = "p"
    decoded = decode_request("StopContainer", request.SerializeToString())
    assert decoded.pod == api.PodSandbox(id="p")
    assert decoded.container is not None and decoded.container.id == "c"


def test_a_plugins_calls_are_distinguished_from_the_runtimes() -> None:
    own = {name for name in METHODS if is_plugins_call(name, "")}
    assert own == {"RegisterPlugin", "UpdateContainers"}
    assert is_plugins_call("UpdateContainers", MALFORMED)
    # UNKNOWN: a method of this name in another service.
    assert not is_plugins_call("UpdateContainers", UNKNOWN)
    assert not is_plugins_call("Hibernate", UNKNOWN)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("k8s_app_web_shop_u-1_0", "app"),
        ("app", "app"),
        ("k8s_app_web_shop_u-1", "k8s_app_web_shop_u-1"),
        ("k8s_app_web_shop_u-1_x", "k8s_app_web_shop_u-1_x"),
        ("k8s_app_we_b_shop_u-1_0", "k8s_app_we_b_shop_u-1_0"),
        ("", ""),
    ],
)
def test_the_name_of_a_container_is_that_of_kubernetes(name: str, plain: str) -> None:
    assert name_of_container(api.Container(name=name)) == plain


@pytest.mark.parametrize(
    ("pod", "plain"),
    [
        (api.PodSandbox(name="k8s_POD_web_shop_u-1_0", namespace="shop", uid="u-1"), "web"),
        (api.PodSandbox(name="k8s_POD_web_shop_u-1_0"), "web"),
        (api.PodSandbox(name="k8s_POD_web_shop_u-1_0", uid="u-2"), "k8s_POD_web_shop_u-1_0"),
        (api.PodSandbox(name="k8s_POD_web_shop_u-1_0", namespace="x"), "k8s_POD_web_shop_u-1_0"),
        (api.PodSandbox(name="k8s_app_web_shop_u-1_0"), "k8s_app_web_shop_u-1_0"),
        (api.PodSandbox(name="web"), "web"),
    ],
)
def test_the_name_of_a_pod_is_that_of_kubernetes(pod: api.PodSandbox, plain: str) -> None:
    assert name_of_pod(pod) == plain
