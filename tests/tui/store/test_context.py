# SPDX-License-Identifier: Apache-2.0
"""The restriction of all views, and its history."""

from __future__ import annotations

import pytest

from nri_scope.errors import FilterError
from nri_scope.events import Container, Pod
from nri_scope.filter import TimeSpan, parse
from nri_scope.tui.store.context import Context
from tests.recording.made import an_event

POD = Pod(1, "8f14e45fceea167a5a36dedd4bea2543", "shop", "web", "u")
APP = Container(1, "c9f0f895fb98ab9159f51fd0297e236d", "app", POD)


def test_new_context_has_no_restriction() -> None:
    context = Context()
    assert (context.where(), context.filter(), context.about) == (None, None, None)
    assert (context.where_text, context.words()) == ("", "")
    assert not context.back()


def test_back_undoes_each_step() -> None:
    context = Context(parse("-status:ok"))
    context.narrow(POD)
    context.narrow(APP)
    context.filter_by("event:Stop*")
    assert (context.where_text, context.about) == ("event:Stop*", APP)
    assert context.back()
    assert (context.where_text, context.about) == ("-status:ok", APP)
    assert context.back()
    assert context.about == POD
    assert context.back()
    assert (context.where_text, context.words()) == ("-status:ok", "")
    # The initial filter can be removed, too.
    assert context.back()
    assert context.where_text == ""
    assert not context.back()


def test_unchanged_restriction_adds_no_step() -> None:
    context = Context()
    context.filter_by("  ")
    context.narrow(APP)
    context.narrow(APP)
    assert context.back()
    assert not context.back()


def test_invalid_filter_changes_nothing() -> None:
    context = Context(parse("web"))
    with pytest.raises(FilterError):
        context.filter_by("nosuchfield:1")
    assert context.where_text == "web"
    assert context.back() and not context.back()


def test_empty_text_removes_the_filter() -> None:
    context = Context(parse("web"))
    context.filter_by("")
    assert context.where() is None


def test_filter_combines_subject_and_filter_text() -> None:
    context = Context(parse("event:CreateContainer OR event:StopContainer"))
    context.narrow(APP)
    where = context.filter()
    assert where is not None
    assert where.matches(an_event(1))
    assert not where.matches(an_event(1, event="StartContainer"))
    assert not where.matches(an_event(1, container_id="aaaa"))
    context.filter_by("")
    assert str(context.filter()) == f"id:{APP.id}"


def test_relative_times_mean_the_same_in_the_filter_with_the_subject() -> None:
    span = TimeSpan(1_000 * 10**9, 2_000 * 10**9)
    context = Context()
    context.bind(lambda: span)
    context.filter_by("time:-10s.. OR time:..+1s")
    shown = context.where()
    # More events were recorded, and the first ones removed.
    span = TimeSpan(1_500 * 10**9, 2_500 * 10**9)
    context.narrow(APP)
    assert context.where() == shown
    assert str(context.filter()) == f"id:{APP.id} ({shown})"
    assert "1970-01-01T00:33:10Z" in str(context.filter())


@pytest.mark.parametrize(
    ("about", "words", "term"),
    [
        (APP, "shop/web/app", f"id:{APP.id}"),
        (POD, "pod shop/web", f"id:{POD.id}"),
        (
            Container(1, "c9f0f895fb98ab91", "", None),
            "container c9f0f895fb98",
            "id:c9f0f895fb98ab91",
        ),
        (Container(1, "", "a\x1bb", None), "a\\x1bb", 'container:"a\x1bb"'),
        (Pod(1, "", "ns", "a b", ""), "pod ns/a b", 'ns:ns pod:"a b"'),
    ],
)
def test_subject_as_words_and_as_a_filter(about: Pod | Container, words: str, term: str) -> None:
    context = Context()
    context.narrow(about)
    assert context.words() == words
    assert str(context.filter()) == term
