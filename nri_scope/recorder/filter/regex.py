# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of filters: the usual syntax, compiled to a program for ``automaton``.

Not Python's ``re``: that one tries alternatives one after the other, and both the pattern (typed by
somebody) and the text (names in a recording from a stranger) could make it run for ages, holding
the interpreter's lock while ``record --where`` should be answering the runtime. What can be matched
in time linear in the text is understood here; back-references and look-around cannot, and are
refused by name.

Grammar::

    pattern  = ["(?i)"] alternatives
    alternatives = sequence ("|" sequence)*
    sequence = (atom [("*" | "+" | "?" | "{" m ["," [n]] "}") ["?"]])*
    atom     = character | "." | "^" | "$" | class | escape | "(" ["?:"] alternatives ")"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from nri_scope.errors import FilterError
from nri_scope.recorder.filter.charset import ANY, CLASSES, Charset

MAX_DEPTH = 40
"""Groups inside groups: the parser recurses once per level."""
MAX_PROGRAM = 1000
"""Instructions; bounds the work done for one character of a text."""

_COUNTS = re.compile(r"\{([0-9]{0,5})(,?)([0-9]{0,5})\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}


class Op(IntEnum):
    """What an instruction does; all but CHAR take no character."""

    CHAR = 1
    SPLIT = 2
    START = 3
    END = 4
    WORD_BORDER = 5
    NO_WORD_BORDER = 6
    MATCH = 7


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step; ``to`` are the steps that may follow it, as indexes into the program."""

    op: Op
    to: tuple[int, ...] = ()
    chars: Charset = ANY


@dataclass(frozen=True, slots=True)
class _Atom:
    op: Op
    chars: Charset = ANY


@dataclass(frozen=True, slots=True)
class _Sequence:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Alternatives:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    item: _Node
    least: int
    most: int | None


_Node = _Atom | _Sequence | _Alternatives | _Repeat


def compile_regex(pattern: str) -> tuple[Instruction, ...]:
    """The program of ``pattern``; it starts at instruction 0.

    Raises FilterError, whose position counts within ``pattern``.
    """
    parser = _Parser(pattern)
    tree = parser.parse()
    return _Emitter(pattern).emit(tree)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.ignore_case = False

    def fail(self, problem: str, at: int | None = None, hint: str = "") -> FilterError:
        position = self.at if at is None else at
        return FilterError(self.pattern, position, f"regular expression: {problem}", hint)

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        self.at += len(char)
        return char

    def accept(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def parse(self) -> _Node:
        self.ignore_case = self.accept("(?i)")
        tree = self.alternatives()
        if self.peek():
            raise self.fail("this ) closes nothing", hint="write \\) for the character")
        return tree

    def alternatives(self) -> _Node:
        items = [self.sequence()]
        while self.accept("|"):
            items.append(self.sequence())
        return items[0] if len(items) == 1 else _Alternatives(tuple(items))

    def sequence(self) -> _Node:
        items: list[_Node] = []
        while (char := self.peek()) and char not in "|)":
            start = self.at
            if self.counts() is not None:
                raise self.fail("nothing to repeat here", start, "escape it for the character")
            item = self.atom()
            start = self.at
            if (counts := self.counts()) is not None:
                least, most = counts
                if most is not None and most < least:
                    raise self.fail("the second number is smaller than the first", start)
                item = _Repeat(item, least, most)
                # Lazy or greedy is the same when only the fact of a match counts.
                self.accept("?")
                start = self.at
                if self.counts() is not None:
                    raise self.fail("repeats a repetition", start, "put the inner one in ( )")
            items.append(item)
        return _Sequence(tuple(items))

    def counts(self) -> tuple[int, int | None] | None:
        """A repetition's least and most, if one stands here."""
        if self.accept("*"):
            return 0, None
        if self.accept("+"):
            return 1, None
        if self.accept("?"):
            return 0, 1
        found = _COUNTS.match(self.pattern, self.at)
        # As everywhere else, a brace that counts nothing is an ordinary character.
        if found is None or not (found[1] or found[3]):
            return None
        self.at = found.end()
        least = int(found[1] or 0)
        if not found[2]:
            return least, least
        return least, int(found[3]) if found[3] else None

    def atom(self) -> _Node:
        start = self.at
        char = self.take()
        if char == "(":
            return self.group(start)
        if char == "[":
            return _Atom(Op.CHAR, self.char_class(start))
        if char == "\\":
            return self.escape(start)
        if char == ".":
            return _Atom(Op.CHAR, ANY)
        if char == "^":
            return _Atom(Op.START)
        if char == "$":
            return _Atom(Op.END)
        return _Atom(Op.CHAR, self.single(char))

    def single(self, char: str) -> Charset:
        return Charset(ranges=((char, char),), ignore_case=self.ignore_case)

    def group(self, start: int) -> _Node:
        if self.accept("?") and not self.accept(":"):
            raise self.fail(
                "only (…) and (?:…) are known, and (?i) at the start",
                start,
                "look-around and named groups are not supported",
            )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"more than {MAX_DEPTH} groups inside each other", start)
        tree = self.alternatives()
        if not self.accept(")"):
            raise self.fail("this ( is never closed", start)
        self.depth -= 1
        return tree

    def escape(self, start: int) -> _Node:
        char = self.peek()
        borders = {
            "b": Op.WORD_BORDER,
            "B": Op.NO_WORD_BORDER,
            "A": Op.START,
            "Z": Op.END,
        }
        if char in borders:
            self.at += 1
            return _Atom(borders[char])
        if char in CLASSES:
            self.at += 1
            return _Atom(Op.CHAR, Charset(classes=char))
        return _Atom(Op.CHAR, self.single(self.escaped_char(start)))

    def escaped_char(self, start: int) -> str:
        """The one character that an escape stands for; the backslash is already taken."""
        char = self.take()
        if not char:
            raise self.fail("ends with a lone backslash", start)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_LENGTHS:
            digits = self.pattern[self.at : self.at + _HEX_LENGTHS[char]]
            self.at += len(digits)
            full = len(digits) == _HEX_LENGTHS[char]
            if not full or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise self.fail(f"\\{char} needs {_HEX_LENGTHS[char]} hexadecimal digits", start)
            if int(digits, 16) > 0x10FFFF:
                raise self.fail("no such character", start)
            return chr(int(digits, 16))
        if char.isdecimal():
            raise self.fail(f"\\{char}: back-references are not supported", start)
        if char.isascii() and char.isalpha():
            raise self.fail(f"\\{char} is not a known escape", start)
        return char

    def char_class(self, start: int) -> Charset:
        negated = self.accept("^")
        ranges: list[tuple[str, str]] = []
        classes = ""
        first = True
        while first or self.peek() != "]":
            first = False
            here = self.at
            char = self.take()
            if not char:
                raise self.fail("this [ is never closed", start)
            if char == "\\" and self.peek() and self.peek() in CLASSES:
                classes += self.take()
                continue
            low = self.escaped_char(here) if char == "\\" else char
            high = low
            # A dash is a range's only between two characters.
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                char = self.take()
                if char == "\\" and self.peek() and self.peek() in CLASSES:
                    raise self.fail("a range cannot end with a class", here)
                high = self.escaped_char(self.at - 1) if char == "\\" else char
                if high < low:
                    raise self.fail("a range that runs backwards", here)
            ranges.append((low, high))
        self.at += 1
        return Charset(tuple(ranges), classes, negated, self.ignore_case)


class _Emitter:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.program: list[Instruction] = []
        self.budget = MAX_PROGRAM

    def emit(self, tree: _Node) -> tuple[Instruction, ...]:
        self.node(tree)
        self.program.append(Instruction(Op.MATCH))
        return tuple(self.program)

    def spend(self) -> None:
        # Also spent on copies that emit nothing: ((){9999}){9999} must not loop for long either.
        self.budget -= 1
        if self.budget < 0:
            raise FilterError(
                self.pattern, 0, "regular expression: too large", "use smaller repetitions"
            )

    def add(self, op: Op, chars: Charset = ANY) -> int:
        self.spend()
        at = len(self.program)
        self.program.append(Instruction(op, (at + 1,), chars))
        return at

    def node(self, tree: _Node) -> None:
        self.spend()
        match tree:
            case _Atom(op, chars):
                self.add(op, chars)
            case _Sequence(items):
                for item in items:
                    self.node(item)
            case _Alternatives(items):
                self.alternatives(items)
            case _Repeat(item, least, most):
                for _ in range(least):
                    self.node(item)
                if most is None:
                    self.loop(item)
                else:
                    self.optional(item, most - least)

    def alternatives(self, items: tuple[_Node, ...]) -> None:
        split = self.add(Op.SPLIT)
        starts: list[int] = []
        ends: list[int] = []
        for item in items:
            starts.append(len(self.program))
            self.node(item)
            ends.append(self.add(Op.SPLIT))
        self.program[split] = Instruction(Op.SPLIT, tuple(starts))
        for end in ends:
            self.program[end] = Instruction(Op.SPLIT, (len(self.program),))

    def loop(self, item: _Node) -> None:
        split = self.add(Op.SPLIT)
        self.node(item)
        back = self.add(Op.SPLIT)
        self.program[back] = Instruction(Op.SPLIT, (split,))
        self.program[split] = Instruction(Op.SPLIT, (split + 1, len(self.program)))

    def optional(self, item: _Node, times: int) -> None:
        splits: list[int] = []
        for _ in range(times):
            splits.append(self.add(Op.SPLIT))
            self.node(item)
        for split in splits:
            self.program[split] = Instruction(Op.SPLIT, (split + 1, len(self.program)))
