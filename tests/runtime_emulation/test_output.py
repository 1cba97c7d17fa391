# SPDX-License-Identifier: Apache-2.0
"""Output of launched plugins, as lines within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.runtime import output as module
from nri_scope.runtime.output import LAST_KEPT, LINE_COST, LINE_MAX, ProcessOutput, Stream

OUT, ERR = Stream.STDOUT, Stream.STDERR
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))


class Collected(ProcessOutput):
    """Output whose forwarded lines are stored."""

    def __init__(self, *, passing: bool = False) -> None:
        self.lines: list[tuple[Stream, str, int]] = []
        super().__init__(lambda *line: self.lines.append(line), passing=passing)


def texts(output: Collected) -> list[str]:
    return [text for _, text, _ in output.lines]


@given(st.lists(LINE), LINE, st.lists(st.integers(0, 300)))
def test_any_split_of_the_bytes_gives_the_same_lines(
    lines: list[str], partial: str, cuts: list[int]
) -> None:
    data = ("".join(f"{line}\n" for line in lines) + partial).encode()
    output = Collected()
    start = 0
    for end in [*sorted(cuts), len(data)]:
        output.feed(OUT, data[start:end], 1)
        start = max(start, end)
    output.finish(OUT)
    assert texts(output) == [*lines, *([partial] if partial else [])]


@given(st.lists(st.integers(0, 60).map(lambda count: b"x\n" * count + b"rest"), max_size=20))
def test_every_line_is_forwarded_or_counted(reads: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "OUTPUT_MAX", 30 * LINE_COST)
        output = Collected()
    for data in reads:
        output.feed(OUT, data, 1)
    output.finish(OUT)
    whole = b"".join(reads).decode().splitlines()
    assert len(output.lines) + output.left_out == len(whole)
    assert texts(output) == whole[: len(output.lines)]
    assert output.last(OUT, LAST_KEPT) == whole[-LAST_KEPT:]


def test_a_line_has_the_time_of_its_first_byte() -> None:
    output = Collected()
    for mono_ns, data in [(1, b"one"), (2, b"\ntwo"), (3, b"\n"), (4, b"\nfour")]:
        output.feed(ERR, data, mono_ns)
    output.finish(ERR)
    assert output.lines == [(ERR, "one", 1), (ERR, "two", 2), (ERR, "", 4), (ERR, "four", 4)]


def test_lines_of_two_streams_are_separate_and_reported_when_complete() -> None:
    output = Collected()
    output.feed(OUT, b"to out, ", 1)
    output.feed(ERR, b"to err\r\n", 2)
    assert output.lines == [(ERR, "to err", 2)]
    output.feed(OUT, b"in two reads\n", 3)
    assert output.lines == [(ERR, "to err", 2), (OUT, "to out, in two reads", 1)]


def test_undecodable_bytes_are_escaped() -> None:
    output = Collected()
    output.feed(OUT, b"caf\xe9 \xff\n", 1)
    assert texts(output) == ["caf\\xe9 \\xff"]


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_a_long_line_is_cut_between_characters(character: str) -> None:
    output = Collected()
    data = (character * (2 * LINE_MAX)).encode()
    for start in range(0, len(data), 1000):
        output.feed(OUT, data[start : start + 1000], 1)
    output.feed(OUT, b"\nnext\n", 2)
    size = len(character.encode())
    kept = LINE_MAX // size
    more = len(data) - kept * size
    assert texts(output) == [f"{character * kept} … ({more} more bytes)", "next"]


def test_last_lines_include_the_incomplete_one() -> None:
    output = Collected()
    output.feed(ERR, b"one\ntwo\nthree", 1)
    output.feed(OUT, b"other\n", 1)
    assert output.last(ERR, 2) == ["two", "three"]
    assert output.last(OUT, 2) == ["other"]


def test_a_flood_is_reported_only_up_to_the_limit() -> None:
    output = Collected()
    count = 0
    while not output.left_out:
        output.feed(OUT, b"again\n" * 1000, 1)
        count += 1000
    assert len(output.lines) == module.OUTPUT_MAX // (len("again") + LINE_COST) + 1
    assert len(output.lines) + output.left_out == count


def test_passed_lines_resume_after_a_flood() -> None:
    output = Collected(passing=True)
    flood = 2 * module.OUTPUT_MAX // LINE_COST
    output.feed(OUT, b"x\n" * flood, 1)
    output.feed(OUT, b"x\n" * flood, 1)
    assert 0 < len(output.lines) < flood
    assert len(output.lines) + output.left_out == 2 * flood
    output.feed(OUT, b"later\n", 1 + 1_000_000_000)
    assert texts(output)[-1] == "later"
    assert output.last(OUT, 1) == ["later"]
