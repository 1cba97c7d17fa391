# SPDX-License-Identifier: Apache-2.0
"""The list of plugins of NRI 0.1."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.nri.v01 import listed_types

LISTED = b"""\
{
  "version": "0.1",
  "plugins": [
    {"type": "konfine", "conf": {"list": [1, 2.50, "]}"], "A": 1, "a": 2, "big": 1e999}},
    {"Type": "/x/y", "conf": %s}
  ]
}
""" % (b"9" * 10_000)


def test_the_plugins_are_listed_in_order() -> None:
    assert listed_types(LISTED) == ("konfine", "/x/y")


@pytest.mark.parametrize(
    "content",
    [b"{}", b'{"version": "0.1"}', b'{"Plugins": []}', b' {"plugins": [ ]} and more ]}'],
)
def test_a_list_may_have_no_plugins(content: bytes) -> None:
    assert listed_types(content) == ()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"\xff", b'{"plugins": {}}', b'{"plugins": [null]}'),
        *(b'{"plugins": [{}]}', b'{"plugins": [{"type": 5}]}', b'{"plugins": [{"type": ""}]}'),
        *(b'{"version": 1}', b'{"plugins": [], "Plugins": []}', b'{"a": NaN}', b"[" * 100_000),
        b" " * 300_000,
    ],
)
def test_a_broken_list_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError):
        listed_types(content)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(
    st.lists(
        st.builds(
            lambda kind, conf: {"type": kind, "conf": conf},
            st.text(min_size=1, max_size=5),
            _VALUES,
        ),
        max_size=3,
    ),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_the_plugins_of_any_valid_list_are_found(
    plugins: list[dict[str, object]], indent: int | None, is_ascii: bool
) -> None:
    conf = {"plugins": plugins, "version": "0.1"}
    text = json.dumps(conf, indent=indent, ensure_ascii=is_ascii)
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return
    assert listed_types(content) == tuple(plugin["type"] for plugin in plugins)
