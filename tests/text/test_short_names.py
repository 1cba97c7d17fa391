# SPDX-License-Identifier: Apache-2.0
"""Names in few columns keep what tells replicas and containers apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.text.escape import columns, safe
from nri_scope.text.short_names import middle_cut, short_container, short_pod

_POD = "payments-prod/checkout-api-7d9f8c6b5d-x2x9z"
_LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (14, "…x2x9z/i…proxy"),
        (18, "…x2x9z/istio-proxy"),
        (26, "checkout…x2x9z/istio-proxy"),
        (43, "…/checkout-api-7d9f8c6b5d-x2x9z/istio-proxy"),
        (55, f"{_POD}/istio-proxy"),
    ],
)
def test_pod_suffix_and_container_stay(width: int, shown: str) -> None:
    assert short_container(f"{_POD}/istio-proxy", width) == shown


def test_a_container_in_no_pod_has_no_slash() -> None:
    assert short_container("payments-prod_checkout-api", 18) == "payments-prod…-api"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (14, "…/checko…x2x9z"),
        (31, "payments-prod/checkout-ap…x2x9z"),
        (43, _POD),
    ],
)
def test_pod_suffix_stays(width: int, shown: str) -> None:
    assert short_pod(_POD, width) == shown


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("kafka-broker-0", 10, "kafka-b…-0"),
        ("registry", 5, "re…ry"),
        ("a-" + "b" * 30, 10, "a-bb…bbbbb"),
        ("ab", 1, "…"),
        ("トークン-名前", 5, "トー…"),
    ],
)
def test_one_name(name: str, width: int, shown: str) -> None:
    assert middle_cut(name, width) == shown


@given(st.tuples(_LABEL, _LABEL, _LABEL), st.integers(0, 130))
def test_names_fit_and_are_whole_if_possible(names: tuple[str, str, str], width: int) -> None:
    namespace, pod, container = names
    for name, short in ((f"{namespace}/{pod}", short_pod), ("/".join(names), short_container)):
        shown = short(name, width)
        assert columns(shown) <= width
        assert (shown == name) == (len(name) <= width)
    if width >= 7 + len(container):
        assert short_container("/".join(names), width).endswith(f"/{container}")


@given(st.text(max_size=60), st.integers(0, 70))
def test_any_text_fits(text: str, width: int) -> None:
    for short in (short_pod, short_container, middle_cut):
        assert columns(short(safe(text), width)) <= width
