# SPDX-License-Identifier: Apache-2.0
"""Texts of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.entries import Began, Ended
from nri_scope.events import Event, Gap, Status
from nri_scope.text.escape import columns, safe
from nri_scope.tui.store.markers import DamageMarker, EntryMarker, RowKey
from nri_scope.tui.store.rows import (
    COLUMNS,
    ListRow,
    RowKind,
    RowStyle,
    changed_in_short,
    damaged_row,
    event_row,
    gone_row,
    marker_row,
    path_in_short,
)
from tests.recording.made import SECOND, a_session, an_event, at

_LONGEST = 700
"""Bound on the columns of one field."""


def test_cells_of_an_event() -> None:
    row = event_row(an_event(42, 1.5), at(0))
    assert (row.kind, row.event_id, row.key) == (RowKind.EVENT, 42, RowKey.of_event(42))
    assert {name: row.cell(name) for name in ("id", "elapsed", "event", "subject")} == {
        "id": "42",
        "elapsed": "+1.50s",
        "event": "CreateContainer",
        "subject": "shop/web/app",
    }
    assert [row.cell(name) for name in ("plugin", "took", "deadline", "status")] == [
        "00-nri-scope",
        "91µs",
        "2s",
        "ok",
    ]
    assert row.cell("time").endswith(":01.500")
    assert row.cell("delta") == ""


@pytest.mark.parametrize(
    ("before", "shown"),
    [(1.5, "+0ns"), (1.4999, "+100µs"), (0, "+1.50s"), (-3600, "+1h00m"), (1.75, "-250ms")],
)
def test_delta_is_the_time_since_the_event_before(before: float, shown: str) -> None:
    assert event_row(an_event(42, 1.5), at(0), at(before)).cell("delta") == shown


@pytest.mark.parametrize(
    ("timeout_ns", "shown"),
    [(0, ""), (-5, ""), (2_000_000_000, "2s"), (1_999_969_264, "2s"), (2_500_000_000, "2.50s"),
     (90_000_000_000, "1m30s"), (60_000_000_000, "1m"), (500_000_000, "500ms")],
)  # fmt: skip
def test_deadline_is_abbreviated(timeout_ns: int, shown: str) -> None:
    assert event_row(an_event(1, timeout_ns=timeout_ns), 0).cell("deadline") == shown


@pytest.mark.parametrize(
    ("event", "style", "status"),
    [
        (an_event(1), RowStyle.PLAIN, "ok"),
        (an_event(1, changed=("/a",), outcomes=("seen",)), RowStyle.CHANGED, "ok"),
        (an_event(1, changed=("/a",), outcomes=("dropped",)), RowStyle.PLAIN, "ok"),
        (an_event(1, changed=("/a",)), RowStyle.PLAIN, "ok"),
        (an_event(1, problem="slow"), RowStyle.SLOW, "↑slow"),
        (an_event(1, problem="slow", took_ns=2, timeout_ns=3), RowStyle.SLOW, "slow"),
        (an_event(1, problem="failed"), RowStyle.ERROR, "↓failed"),
        (an_event(1, took_ns=2 * SECOND, timeout_ns=0), RowStyle.PLAIN, "ok"),
        (an_event(1, status="timeout", status_code=4), RowStyle.TIMEOUT, "timeout"),
        (an_event(1, status="error", problem="failed"), RowStyle.ERROR, "error"),
        (an_event(1, mark="malformed"), RowStyle.ODD, "malformed"),
    ],
)
def test_style_and_status_of_an_event(event: Event, style: RowStyle, status: str) -> None:
    row = event_row(event, 0)
    assert (row.style, row.cell("status")) == (style, status)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/process/env/FOO", "env FOO"),
        ("/mounts/~1data", "mounts[/data]"),
        ("/mounts/~1data/options", "mounts[/data].options"),
        ("/annotations/example.com~1x", "annotations[example.com/x]"),
        ("/linux/devices/~1dev~1kvm", "devices[/dev/kvm]"),
        ("/linux/resources/memory/limit", "memory.limit"),
        ("/linux/cgroupsPath", "cgroupsPath"),
        ("/process/args", "args"),
        ("/process/rlimits/RLIMIT_NOFILE", "rlimits[RLIMIT_NOFILE]"),
        ("/hooks/prestart", "hooks.prestart"),
        ("/somethingNew/of/later", "somethingNew.of.later"),
        ("no path", '"no path"'),
    ],
)
def test_changed_path_is_abbreviated(path: str, words: str) -> None:
    assert path_in_short(path) == words


@pytest.mark.parametrize(
    ("changed", "owners", "words"),
    [
        ((), (), ""),
        ((), ("10-a",), ""),
        (("/process/env/FOO",), (), "env FOO"),
        (("/process/env/FOO",), ("30-x",), "env FOO by 30-x"),
        (("/process/env/FOO", "/a", "/b", "/c"), ("30-x",) * 4, "env FOO, 3 more by 30-x"),
        (("/a", "/a"), ("10-a", "20-b"), "a, 1 more by 10-a, 20-b"),
        (("/a", "/b", "/c"), ("10-a", "20-b", "30-c"), "a, 2 more by 10-a, 20-b and 1 more"),
    ],
)
def test_changes_are_summarised(
    changed: tuple[str, ...], owners: tuple[str, ...], words: str
) -> None:
    seen = ("seen",) * len(changed)
    event = an_event(1, changed=changed, owners=owners, outcomes=seen)
    assert changed_in_short(event) == words


def test_owners_of_other_requests_are_not_those_of_the_changes() -> None:
    event = an_event(
        1,
        changed=("/a", "/a"),
        owners=("10-a", "20-b"),
        outcomes=("seen", "dropped"),
        targets=("", ""),
    )
    assert changed_in_short(event) == "a by 10-a"


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ((), "? env FOO by 30-x"),
        (("requested",), "? env FOO by 30-x"),
        (("dropped",), "! env FOO by 30-x"),
        (("refused",), "! env FOO by 30-x"),
        (("superseded",), "^ env FOO by 30-x"),
        (("in effect",), "env FOO by 30-x"),
    ],
)
def test_requests_that_are_no_changes_have_a_sign(outcomes: tuple[str, ...], words: str) -> None:
    event = an_event(1, changed=("/process/env/FOO",), owners=("30-x",), outcomes=outcomes)
    assert changed_in_short(event) == words


def test_changes_of_another_container_name_it() -> None:
    event = an_event(
        1,
        changed=("/a", "/b", "/c"),
        owners=("30-x",),
        outcomes=("seen", "seen", "refused"),
        targets=("shop/web/app", "", ""),
    )
    assert changed_in_short(event) == "a of app, 1 more by 30-x"


def test_text_of_gaps_and_sessions() -> None:
    gap = Gap(1, 3, at(0), at(1.5), "the disk is full", 1200)
    key = RowKey(5, 0, at(0), 1)
    row = marker_row(EntryMarker(key, gap))
    assert (row.kind, row.style, row.gap, row.key) == (RowKind.GAP, RowStyle.GAP, gap, key)
    assert row.text == "gap of 1.50s, events lost: 1,200, session 3 (the disk is full)"
    unknown = marker_row(EntryMarker(key, replace(gap, lost=None, session=None)))
    assert unknown.text == "gap of 1.50s, events lost: unknown (the disk is full)"
    session = a_session(2, 0, 9, end_reason="done")
    began = marker_row(EntryMarker(key, Began(session)))
    ended = marker_row(EntryMarker(key, Ended(session)))
    assert began.text == "session 2: 00-nri-scope on containerd 1.7.24, NRI 0.6.1 (inferred)"
    assert ended.text == "session 2 ended: done"
    assert [began.kind, ended.kind, began.session] == [RowKind.BEGAN, RowKind.ENDED, session]


def test_unreadable_rows_state_the_reason() -> None:
    assert damaged_row(7, "torn").text == "event 7 cannot be read: torn"
    assert gone_row(7).text == "event 7 was removed from the recording"
    behind = marker_row(DamageMarker.behind(7, "torn"))
    assert behind.text == "the recording cannot be read from here on: torn"
    assert RowKey.of_event(7) < behind.key < RowKey.of_event(9)


def test_marking_changes_only_the_mark() -> None:
    row = event_row(an_event(1), 0)
    assert row.mark(False) is row
    assert row.mark(True).marked
    assert row.mark(True).mark(False) == row


def test_long_name_is_cut_with_an_ellipsis() -> None:
    row = event_row(an_event(1, subject=f"shop/{'x' * 10_000_000}/app"), 0)
    assert "x…" in row.cell("subject")
    assert row.cell("subject").endswith("/app")


_HOSTILE = st.text(
    st.sampled_from("a[b]/\\\x1b\x07\n\u202e\u200b\u0301\U000e0001漢"), max_size=40
) | st.sampled_from(["[bold]x[/bold]", "\x1b[2J", "e" + "\u0301" * 50, "x" * 3_000])


@given(_HOSTILE, _HOSTILE, st.integers(-(1 << 63), (1 << 63) - 1))
def test_hostile_values_give_safe_and_bounded_texts(text: str, other: str, number: int) -> None:
    event = replace(
        an_event(1),
        at_ns=number,
        took_ns=number,
        timeout_ns=number,
        plugin=text,
        event=other,
        namespace=text,
        pod=other,
        container=text,
        pod_id=text,
        container_id=other,
        status=cast("Status", text),
        mark=other,
        changed=(text, other),
        owners=(other, text, text),
    )
    session = replace(
        a_session(1, 0, 1),
        plugin_name=text,
        runtime_name=other,
        nri_version=text,
        end_reason=other,
        started_ns=number,
        ended_ns=number,
    )
    key = RowKey(1, 0)
    rows: list[ListRow] = [
        event_row(event, -number),
        marker_row(EntryMarker(key, Gap(1, 1, number, -number, text, number))),
        marker_row(EntryMarker(key, Began(session))),
        marker_row(EntryMarker(key, Ended(session))),
        marker_row(DamageMarker(key, text)),
        damaged_row(1, other),
    ]
    for row in rows:
        assert len(row.cells) == len(COLUMNS)
        for shown in (*row.cells, row.text):
            assert safe(shown) == shown
            assert columns(shown) <= 4 * _LONGEST
