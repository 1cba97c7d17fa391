# SPDX-License-Identifier: Apache-2.0
"""Comparison of expected and actual replies, and matchers that updates keep."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.nri.plain import Plain
from nri_scope.replay.golden.compare import differences, matches, merge_matchers
from nri_scope.replay.golden.matchers import Expected, Ignored, Present, RegexMatcher, Tolerance
from nri_scope.replay.golden.reply_values import UNORDERED

from .replies import as_expected, plains, texts

MATCHERS: st.SearchStrategy[Expected] = st.sampled_from(
    [RegexMatcher("^a"), Tolerance(5, "10", True), Present(), Ignored()]
)
leaves: st.SearchStrategy[Expected] = st.one_of(st.booleans(), st.integers(0, 9), texts, MATCHERS)
expecteds: st.SearchStrategy[Expected] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "flags", "destination"]) | texts, inner, max_size=3)
    ),
    max_leaves=10,
)


def paths(expected: Expected, got: Plain) -> list[str]:
    return [difference.path for difference in differences(expected, got)]


@given(plains)
def test_a_value_matches_itself(value: Plain) -> None:
    assert matches(as_expected(value), value)


@given(plains, plains)
def test_only_equal_values_match(one: Plain, other: Plain) -> None:
    if matches(as_expected(one), other):
        assert matches(as_expected(other), one)


@given(expecteds, plains)
def test_merged_matchers_match_and_are_stable(expected: Expected, got: Plain) -> None:
    result = merge_matchers(expected, got)
    assert matches(result, got)
    assert merge_matchers(result, got) == result


@given(plains, st.randoms(use_true_random=False))
def test_matchers_that_accept_any_value_are_kept_for_an_unchanged_value(
    value: Plain, random: Random
) -> None:
    def with_matchers(value: Plain) -> Expected:
        if isinstance(value, dict):
            # Sets are sorted.
            return {k: with_matchers(v) for k, v in value.items() if k not in UNORDERED}
        if isinstance(value, list):
            return [with_matchers(item) for item in value]
        return random.choice([value, Present(), Ignored()])

    expected = with_matchers(value)
    assert merge_matchers(merge_matchers(expected, value), value) == merge_matchers(expected, value)
    if not any(name in str(value) for name in UNORDERED):
        assert merge_matchers(expected, value) == expected


def test_a_difference_has_its_path_and_both_sides() -> None:
    expected: Expected = {"adjust": {"env": {"a/b~c": "1", "gone": "x"}}}
    got: Plain = {"adjust": {"env": {"a/b~c": "2"}, "args": ["x"]}}
    first, second, third = differences(expected, got)
    assert (first.path, first.expected, first.got) == ("/adjust/env/a~1b~0c", "1", "2")
    assert (second.path, second.expected, second.got) == ("/adjust/env/gone", "x", None)
    assert (third.path, third.expected, third.got) == ("/adjust/args", None, ["x"])


def test_values_of_other_types_differ() -> None:
    assert paths({"a": 1, "b": 1, "c": {}}, {"a": True, "b": "1", "c": []}) == ["/a", "/b", "/c"]


def test_a_missing_mapping_is_one_difference() -> None:
    assert paths({"a": {"b": 1, "c": 2}}, {}) == ["/a"]


def test_mounts_are_addressed_by_destination() -> None:
    expected: Expected = {"mounts": [{"destination": "/a", "type": "x"}, {"destination": "/b"}]}
    assert paths(expected, {"mounts": [{"destination": "/a"}, {"destination": "/b"}]}) == [
        "/mounts/~1a/type"
    ]
    assert paths(expected, {"mounts": [{"destination": "/b"}]}) == ["/mounts/~1a"]
    moved: Plain = {"mounts": [{"destination": "/b"}, {"destination": "/a", "type": "x"}]}
    (order,) = differences(expected, moved)
    assert (order.path, order.expected, order.got) == (
        "/mounts/(order)",
        ["/a", "/b"],
        ["/b", "/a"],
    )


def test_sets_may_be_written_in_any_order() -> None:
    assert matches({"CDI_devices": ["b", "a"]}, {"CDI_devices": ["a", "b"]})
    assert paths({"args": ["b", "a"]}, {"args": ["a", "b"]}) == ["/args/0", "/args/1"]


def test_a_mapping_of_ignored_values_may_be_absent() -> None:
    expected: Expected = {"linux": {"resources": {"cpu": {"shares": Ignored()}}}}
    assert matches(expected, {})
    assert merge_matchers(expected, {}) == expected
    assert not matches({"linux": {"a": Ignored(), "b": Present()}}, {})
    assert not matches({"pids": {}}, {})


def test_matchers_are_kept_where_they_still_match() -> None:
    old: Expected = {
        "shares": Tolerance(500, "10", True),
        "quota": Tolerance(500, "10", True),
        "note": RegexMatcher("^v[0-9]"),
        "time": Ignored(),
        "gone": Present(),
        "plain": "old",
    }
    new: Plain = {"shares": 510, "quota": 700, "note": "v9", "plain": "new", "more": [1]}
    assert merge_matchers(old, new) == {
        "shares": Tolerance(500, "10", True),
        "quota": 700,
        "note": RegexMatcher("^v[0-9]"),
        "plain": "new",
        "more": [1],
        "time": Ignored(),
    }


def test_matchers_are_kept_with_their_item_of_a_list() -> None:
    old: Expected = [{"destination": "/a", "source": RegexMatcher("^/x")}, {"destination": "/b"}]
    others: list[Plain] = [{"destination": "/c"}, {"destination": "/b"}]
    new: Plain = [*others, {"destination": "/a", "source": "/x1"}]
    with_matcher: Expected = {"destination": "/a", "source": RegexMatcher("^/x")}
    assert merge_matchers(old, new) == [*others, with_matcher]
    assert merge_matchers(["a", RegexMatcher("^b"), "c"], ["new", "a", "b1", "c"]) == [
        "new",
        "a",
        RegexMatcher("^b"),
        "c",
    ]
    assert merge_matchers([RegexMatcher("^a"), "x"], ["a1", "y"]) == [RegexMatcher("^a"), "y"]
