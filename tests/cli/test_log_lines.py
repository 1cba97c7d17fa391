# SPDX-License-Identifier: Apache-2.0
"""Lines of the log as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.cli.log_lines import LogLines
from nri_scope.entries import Began, Ended, Item
from nri_scope.events import LATE
from nri_scope.text.escape import columns
from nri_scope.text.quantities import clock, day
from tests.recording.made import START, a_gap, a_session, an_event, at

NOON = clock(START)[:8]


def lines(item: Item, **options: bool | int) -> list[str]:
    layout = LogLines(colour=bool(options.get("colour")), width=options.get("width") or None)
    # Returns the heading of the day, too.
    layout.of(an_event(1))
    return layout.of(item)


def line(item: Item) -> str:
    (only,) = lines(item)
    return only


def test_line_of_an_event() -> None:
    assert line(an_event(42)) == (f"    42 {NOON}.000   91µs   CreateContainer      shop/web/app")


@pytest.mark.parametrize(
    ("item", "end"),
    [
        (an_event(1, subject="", event="Synchronize"), "  Synchronize"),
        (
            an_event(1, status="error", status_code=2, status_message="no\nway"),
            r" ! CreateContainer      shop/web/app  error 2: no\nway",
        ),
        (
            an_event(1, status="timeout", status_code=4),
            " ! CreateContainer      shop/web/app  reply too late (deadline 2.00s)",
        ),
        (
            an_event(1, status="timeout", status_code=4, status_message=LATE),
            " ! CreateContainer      shop/web/app  reply too late (deadline 2.00s)",
        ),
        (
            an_event(1, status="timeout", status_code=4, status_message="it is gone"),
            " ! CreateContainer      shop/web/app  no reply in time (deadline 2.00s): it is gone",
        ),
        (
            an_event(1, mark="malformed"),
            " ! CreateContainer      shop/web/app  malformed request, kept raw",
        ),
        (
            an_event(1, mark="unknown"),
            " ! CreateContainer      shop/web/app  unknown method or service, kept raw",
        ),
        (
            an_event(1, changed=("/process/env/FOO", "/b"), owners=("30-env", "60-cpu")),
            "   CreateContainer      shop/web/app  asked for env FOO and 1 more by 30-env, 60-cpu",
        ),
        (
            an_event(
                1,
                changed=("/process/env/FOO", "/b"),
                owners=("30-env", "60-cpu"),
                outcomes=("seen", "in effect"),
            ),
            "   CreateContainer      shop/web/app  changed env FOO and 1 more by 30-env, 60-cpu",
        ),
        (
            an_event(
                1,
                changed=("/process/env/FOO", "/process/env/FOO", "/b"),
                owners=("30-env", "60-cpu", "60-cpu"),
                outcomes=("seen", "superseded", "dropped"),
                targets=("", "", "shop/web/other"),
            ),
            "changed env FOO by 30-env; asked for env FOO, b of shop/web/other by 60-cpu: "
            "superseded, dropped",
        ),
        (a_gap(1, 0, 2), "  2.00s ! events lost: 3, session 1 (the disk is full)"),
        (
            a_gap(1, 0, 2, session=None, lost=None),
            "  2.00s ! events lost: unknown (the disk is full)",
        ),
        (
            Began(a_session(2)),
            f"── session 2: 00-nri-scope on containerd 1.7.24, NRI 0.6.1 (inferred), from {NOON}",
        ),
        (Began(a_session(2, nri_version="")), f", NRI unknown, from {NOON}"),
        (Ended(a_session(2, 0, 0)), f"ended {NOON}: the runtime closed the connection"),
    ],
)
def test_line_of_each_kind_of_item(item: Item, end: str) -> None:
    assert line(item).endswith(end)


def test_a_new_day_has_a_heading() -> None:
    layout = LogLines()
    assert layout.of(an_event(1))[0].startswith(f"── {day(START)[:10]}, times at UTC")
    assert len(layout.of(an_event(2, 1))) == 1
    tomorrow = layout.of(an_event(3, 86400))
    assert tomorrow[0].startswith(f"── {day(at(86400))[:10]}") and len(tomorrow) == 2


def test_a_line_has_the_plugin_if_there_are_several() -> None:
    layout = LogLines()
    layout.add_columns([a_session(1, plugin="00-a"), a_session(2, plugin="20-longer")])
    assert layout.of(an_event(1, plugin="00-a"))[1].endswith(
        "   00-a      CreateContainer      shop/web/app"
    )
    one = LogLines()
    one.add_columns([a_session(1, 0, 1, plugin="00-a"), a_session(2, 2, plugin="00-a")])
    assert "00-a" not in one.of(an_event(1, plugin="00-a"))[1]


def test_a_line_has_the_session_if_the_plugin_does_not_identify_it() -> None:
    layout = LogLines()
    layout.add_columns([a_session(2, 0, 5), a_session(3, 2)])
    assert layout.of(an_event(1, session=3))[1].startswith("     1 s3 ")


def test_colour_only_adds_escape_sequences() -> None:
    import re

    for item in (an_event(1), an_event(2, status="error"), a_gap(1, 0, 1), Began(a_session(1))):
        (plain,), (coloured,) = lines(item), lines(item, colour=True)
        assert coloured != plain
        assert re.sub(r"\x1b\[[0-9]*m", "", coloured) == plain


NASTY = st.text("\x1b[31m\n\r\x07\u202e\u200b容é /", max_size=12)


@settings(deadline=None)
@given(NASTY, NASTY, NASTY, st.integers(1, 120) | st.none())
def test_text_of_a_recording_is_escaped(
    name: str, words: str, plugin: str, width: int | None
) -> None:
    items: list[Item] = [
        an_event(1, event=name, subject=f"{name}/{name}/{name}", mark=name, plugin=plugin),
        an_event(2, status="error", status_message=words, owners=(name,), changed=(words,)),
        Began(a_session(1, runtime_name=words, plugin=plugin, nri_version=name)),
        Ended(a_session(1, 0, 1, end_reason=words)),
    ]
    layout = LogLines(width=width)
    for item in items:
        for text in layout.of(item):
            assert text.isprintable()
            assert width is None or columns(text) <= width
