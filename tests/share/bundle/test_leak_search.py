# SPDX-License-Identifier: Apache-2.0
"""Originals are found in all encodings."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.bundle.leak_scan import MANY, Needles
from nri_scope.share.redaction import Original


def an_original(value: str, *, searchable: bool = True) -> Original:
    return Original(value, "a-rule", searchable)


_values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30)


@given(value=_values, before=st.binary(max_size=5), behind=st.binary(max_size=5), data=st.data())
def test_a_value_is_found_in_all_encodings(
    value: str, before: bytes, behind: bytes, data: st.DataObject
) -> None:
    plain = value.encode()
    forms = {
        "plain": plain,
        "json": json.dumps(value)[1:-1].encode(),
        "json in UTF-8": json.dumps(value, ensure_ascii=False)[1:-1].encode(),
        "URL": quote(value, safe="").encode(),
        "form": quote_plus(value).encode(),
        "hexadecimal": plain.hex().encode(),
        "JSON pointer": value.replace("~", "~0").replace("/", "~1").encode(),
        "base64": base64.b64encode(before + plain + behind),
        "base64 for URLs": base64.urlsafe_b64encode(before + plain + behind),
    }
    form = forms[data.draw(st.sampled_from(sorted(forms)))]
    found = Needles([an_original(value)]).find(b"\xff\x00" + form + b"\xfe")
    assert found is not None and found.original.value == value


@given(st.lists(_values, min_size=1, max_size=5), st.binary(max_size=200))
def test_a_value_is_found_only_in_content_that_contains_it(
    values: list[str], content: bytes
) -> None:
    needles = Needles(map(an_original, values))
    found = needles.find(content)
    assert (found is None) == (not any(form in content for form in needles._originals))


def test_values_that_are_not_searchable_are_not_found() -> None:
    assert Needles([an_original("true", searchable=False)]).find(b"true") is None


@pytest.mark.parametrize("size", [10, 299, 300, 5_000])
def test_long_values_are_found(size: int) -> None:
    value = ("0123456789abcdef" * size)[:size]
    needles = Needles([an_original(value), an_original("something else")])
    assert needles.longest >= size
    assert needles.find(value[:-1].encode()) is None
    found = needles.find(b"x" * 100 + value.encode())
    assert found is not None and found.start == 100


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_each_of_many_values_is_found(count: int) -> None:
    values = [f"value-{number:04d}-of-many" for number in range(count)]
    needles = Needles(map(an_original, values))
    assert (len(needles) >= MANY) == (count == 3_000)
    for value in values[::97]:
        found = needles.find(f"value-of-many with {value} in it".encode())
        assert found is not None and found.original.value == value and found.start == 19
    assert needles.find(b"value-0001-of-man") is None


@given(
    st.lists(_values, min_size=1, max_size=5), st.binary(max_size=50), st.integers(0), st.booleans()
)
def test_few_and_many_values_give_the_same_result(
    values: list[str], content: bytes, which: int, there: bool
) -> None:
    needles = Needles(map(an_original, values))
    if there:
        some = sorted(needles._originals)
        content += some[which % len(some)] + content
    with pytest.MonkeyPatch.context() as patch:
        few = needles.find(content)
        patch.setattr("nri_scope.share.bundle.leak_scan.MANY", 0)
        many = Needles(map(an_original, values)).find(content)
    assert (few is None) == (many is None)
    if many is not None:
        assert any(content.startswith(form, many.start) for form in needles._originals)


def test_each_of_many_long_values_is_found() -> None:
    values = [f"{number:04d}".join(["a long one"] * 100) for number in range(100)]
    needles = Needles(map(an_original, values))
    for value in values[::9]:
        found = needles.find(b"a long one" + value.encode())
        assert found is not None and found.original.value == value


@given(st.lists(st.text("ab", min_size=6, max_size=12), min_size=1, max_size=20), st.text("ab"))
def test_values_with_common_prefixes_are_found(values: list[str], text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nri_scope.share.bundle.leak_scan.MANY", 0)
        needles = Needles(map(an_original, values))
        found = needles.find(text.encode())
    assert (found is not None) == any(value in text for value in values)
    assert found is None or text.startswith(found.original.value, found.start)


def test_many_values_with_a_common_prefix_are_searched_in_linear_time() -> None:
    values = [f"secret{'a' * number}{number:04d}" for number in range(3_000)]
    needles = Needles(map(an_original, values))
    assert needles.find(f"secret{'a' * 3_000}b".encode() * 100) is None
    found = needles.find(f"x{values[1_234]}".encode())
    assert found is not None and found.original.value == values[1_234]


def test_without_removes_values_that_a_text_contains() -> None:
    needles = Needles([an_original("CREATE TABLE"), an_original("hunter22")])
    fewer = needles.without(b"CREATE TABLE event")
    assert fewer.find(b"CREATE TABLE") is None
    assert fewer.find(b"hunter22") is not None
