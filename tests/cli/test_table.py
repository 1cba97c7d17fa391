# SPDX-License-Identifier: Apache-2.0
"""Rows in aligned columns."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.cli.output import table


def test_columns_are_aligned_with_numbers_at_the_right() -> None:
    assert list(table(("name", "n"), [("a", 5), ("容器", 1000), (None, None)])) == [
        "name     n",
        "────  ────",
        "a        5",
        "容器  1000",
        "",
    ]


def test_without_rows_there_are_headings() -> None:
    assert list(table(("a", "bcd"), [])) == ["a  bcd", "─  ───"]


def test_values_are_safe_and_bytes_are_shown_as_sql_writes_them() -> None:
    assert list(table(("x",), [("\x1b[2J",), (b"\x00\xff",)]))[2:] == ["\\x1b[2J", "x'00ff'"]


def test_lines_fit_the_width() -> None:
    for line in table(("a", "b", "c"), [("x" * 100, "y" * 100, "z" * 100)], 70):
        assert len(line) <= 70


def test_cells_are_complete_without_a_width() -> None:
    assert list(table(("a", "b"), [("x" * 100, "y" * 100)]))[2] == f"{'x' * 100}  {'y' * 100}"


def test_the_first_line_does_not_wait_for_the_last_row() -> None:
    consumed = 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal consumed
        for number in range(10_000):
            consumed += 1
            yield (number,)

    next(table(("n",), rows()))
    assert consumed < 1000
