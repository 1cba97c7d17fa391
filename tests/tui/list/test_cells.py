# SPDX-License-Identifier: Apache-2.0
"""Cells of a row in columns of several widths."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.differ.operations import Operation
from nri_scope.events import Event
from nri_scope.text.escape import columns
from nri_scope.tui.list.columns import cell, place
from nri_scope.tui.store.rows import event_row, operation_row
from tests.recording.made import SECOND, an_event, at

_CHANGED = an_event(
    1,
    plugin="60-cpu-policy",
    changed=("/linux/resources/cpu/cpus", "/a", "/b", "/c"),
    outcomes=("seen", "seen", "seen", "seen"),
    owners=("60-cpu-policy",),
    timeout_ns=60 * SECOND,
)


def cells(event: Event, width: int) -> dict[str, str]:
    row = event_row(event, at(0))
    return {each.column.name: cell(row, each).strip() for each in place(width)}


@pytest.mark.parametrize(
    ("width", "name", "text"),
    [
        (77, "changed", "Δ4"),
        (97, "changed", "Δ4 cpu.cpus"),
        (157, "changed", "cpu.cpus, 3 more by 60-cpu-pol"),
        (77, "plugin", "60"),
        (117, "plugin", "60-cpu-policy"),
        (77, "took", "91µs/1m"),
        (117, "took", "91µs/1m"),
        (157, "took", "91µs"),
        (157, "deadline", "1m"),
    ],
)
def test_wider_lists_show_longer_forms(width: int, name: str, text: str) -> None:
    assert cells(_CHANGED, width)[name].startswith(text)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("shop", "web", "app"), "shop/web/app"),
        (("kube-system", "coredns-5dd", ""), "…/coredns-5dd"),
        (("kube-system", "etcd-1", "etcd"), "…/etcd-1/etcd"),
        (("kube-system", "coredns-5dd5756b68-x", "dns"), "coredns-5dd…-x/dns"),
        (("kube-system", "x", "a-container-with-a-name"), "x/a-containe…-name"),
    ],
)
def test_long_names_keep_their_distinctive_parts(names: tuple[str, str, str], shown: str) -> None:
    namespace, pod, container = names
    event = replace(_CHANGED, namespace=namespace, pod=pod, container=container)
    event = event if container else replace(event, container_id="")
    found = cells(event, 77)["subject"]
    assert found == shown


@pytest.mark.parametrize(
    ("width", "text"), [(3, "Δ4"), (9, "Δ4"), (10, "Δ4 cpu.cp…"), (11, "Δ4 cpu.cpus")]
)
def test_narrow_columns_only_count_changes(width: int, text: str) -> None:
    placed = next(each for each in place(77) if each.column.name == "changed")
    assert cell(event_row(_CHANGED, at(0)), replace(placed, width=width)).strip() == text


def test_number_of_changes_is_never_cut() -> None:
    paths = ("/annotations/example.com~1a-long-name", "/a", "/b")
    event = replace(_CHANGED, changed=paths, outcomes=("seen",) * 3)
    placed = next(each for each in place(157) if each.column.name == "changed")
    text = cell(event_row(event, at(0)), replace(placed, width=28))
    assert text == "annotations[example…, 2 more"


def test_missing_values_give_empty_cells() -> None:
    event = replace(_CHANGED, changed=(), owners=(), timeout_ns=0, plugin="")
    found = cells(event, 77)
    assert (found["changed"], found["plugin"], found["took"]) == ("", "", "91µs")


@given(st.integers(25, 200), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_cell_is_exactly_as_wide_as_its_column(
    width: int, one: str, other: str, third: str
) -> None:
    event = replace(
        _CHANGED, namespace=one, pod=other, container=third, changed=(one, other), plugin=third
    )
    row = event_row(event, at(0))
    for each in place(width):
        assert columns(cell(row, each)) == each.width


def test_an_owner_that_lists_plugins_is_one_owner() -> None:
    first = replace(_CHANGED, owners=("one of 00–19, 20-qos",) * len(_CHANGED.changed))
    events = (first, replace(first, id=2))
    row = operation_row(Operation(events, ()), at(0), is_open=False)
    placed = next(each for each in place(117, grouped=True) if each.column.name == "plugin")
    assert cell(row, replace(placed, width=30)).strip() == "one of 00–19, 20-qos"
    assert cell(row, replace(placed, width=14)).strip() == "one of 00–19,…"
