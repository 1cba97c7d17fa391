# SPDX-License-Identifier: Apache-2.0
"""Parse the filter language by recursive descent.

::

    filter  = [or]
    or      = and ("OR" and)*
    and     = not (["AND"] not)*
    not     = ("NOT" | "-") not | "(" or ")" | term
    term    = field ":" ["~" | ">" | ">=" | "<" | "<="] value | value
    value   = quoted | characters other than white space and parentheses
    quoted  = '"' … '"' | "'" … "'"        with \\" and \\\\ for the two characters

Operators are in capitals. The value of the field ``time`` may be a range,
``[moment] ".." [moment]``. Every error is a FilterError with a position.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from nri_scope.errors import FilterError, UsageError, nearest_word

from . import fields as known_fields
from .fields import BY_NAME, NUMERIC, PARENTS, FieldKind, FilterField, nearest_field
from .moments import (
    LARGEST,
    RANGE,
    TimeSpan,
    duration_unit,
    end_ns,
    interval,
    moment,
    size_unit,
    split_quantity,
    utc,
)
from .text_comparison import fold, regex
from .tree import OPERATORS, And, Between, Is, Matches, Node, Not, Or, Word, quote

MAX_LENGTH = 4096
"""Maximum number of characters of a filter, which also bounds its tree and SQL."""
MAX_DEPTH = 40
"""Maximum nesting of parentheses and negations, as the parser recurses for each."""

_SPACE = re.compile(r"\s*")
_OPERATOR = re.compile(r"([A-Za-z]+)(?=[\s()]|$)")
_FIELD = re.compile(r"""([^\s()"':]*):""")
_COMPARISON = re.compile(r"~|>=|>|<=|<")
_VALUE = re.compile(r"[^\s()]+")
_MARKS = ('"', "'", "~", ">", "<")
"""Beginnings of values that are not plain texts."""
_STATE_CHANGE = re.compile(r"StateChange\(-?[0-9]+\)", re.IGNORECASE)


class _Value(NamedTuple):
    text: str
    quoted: bool
    position: int


def parse_tree(text: str, span: TimeSpan | None = None, now_ns: int | None = None) -> Node:
    """Return the tree of ``text``; the empty text matches every event. Raises FilterError.

    ``span`` and ``now_ns``: see `moment`.
    """
    return _Parser(text, span, now_ns).parse()


class _Parser:
    fields = BY_NAME

    def __init__(self, text: str, span: TimeSpan | None, now_ns: int | None) -> None:
        self.text = text
        self.span = span
        self.now_ns = now_ns
        self.position = 0
        self.depth = 0

    def fail(self, position: int, problem: str, hint: str = "") -> FilterError:
        return FilterError(self.text, position, problem, hint)

    def parse(self) -> Node:
        if len(self.text) > MAX_LENGTH:
            raise self.fail(MAX_LENGTH, f"longer than {MAX_LENGTH} characters")
        for position, char in enumerate(self.text):
            # Recordings contain neither; SQLite ends text at NUL and rejects surrogates.
            if char == "\0" or "\ud800" <= char <= "\udfff":
                raise self.fail(position, "this character is not valid text")
        if self.at_end():
            return And(())
        tree = self.either()
        if not self.at_end():
            raise self.fail(self.position, "this ) closes nothing", 'write ")" for the character')
        return tree

    def at_end(self) -> bool:
        space = _SPACE.match(self.text, self.position)
        if space:
            self.position = space.end()
        return self.position >= len(self.text)

    def operator(self) -> str:
        """Return the operator at this position, or ""."""
        match = None if self.at_end() else _OPERATOR.match(self.text, self.position)
        if match is None or match[1].upper() not in OPERATORS:
            return ""
        if match[1] not in OPERATORS:
            # A misspelt operator is more likely than a word to search for.
            raise self.fail(
                self.position,
                f'"{match[1]}" is neither an operator nor quoted',
                f'write {match[1].upper()}, or "{match[1]}" in quotes to search for the word',
            )
        return match[1]

    def either(self) -> Node:
        items = [self.all_of()]
        while self.operator() == "OR":
            self.position += len("OR")
            items.append(self.all_of())
        return items[0] if len(items) == 1 else Or(tuple(items))

    def all_of(self) -> Node:
        items = [self.negatable()]
        while not self.at_end() and self.text[self.position] != ")":
            operator = self.operator()
            if operator == "OR":
                break
            if operator == "AND":
                self.position += len("AND")
            items.append(self.negatable())
        return items[0] if len(items) == 1 else And(tuple(items))

    def negatable(self) -> Node:
        if self.at_end() or self.text[self.position] == ")":
            raise self.fail(self.position, "a term is missing here")
        start = self.position
        operator = self.operator()
        if operator in ("AND", "OR"):
            raise self.fail(start, f"a term is missing before {operator}")
        if operator == "NOT":
            self.position += len(operator)
            return self.negated(start)
        if self.text[start] == "-":
            self.position += 1
            if self.position >= len(self.text) or self.text[self.position].isspace():
                raise self.fail(
                    start,
                    "a - without its term",
                    'write it directly before the term, or quote it: "-"',
                )
            return self.negated(start)
        if self.text[start] == "(":
            self.position += 1
            return self.grouped(start)
        return self.term()

    def negated(self, start: int) -> Node:
        self.descend(start)
        item = self.negatable()
        self.depth -= 1
        return Not(item)

    def grouped(self, start: int) -> Node:
        self.descend(start)
        tree = self.either()
        if self.at_end():
            raise self.fail(start, "this ( is never closed", 'write "(" for the character')
        # either() stops only at the end or at a closing parenthesis.
        self.position += 1
        self.depth -= 1
        return tree

    def descend(self, position: int) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(position, f"nested more than {MAX_DEPTH} levels deep")

    def term(self) -> Node:
        start = self.position
        match = _FIELD.match(self.text, start)
        if match is None:
            value = self.value("a value")
            if not value.text.strip("*"):
                raise self.fail(start, "matches every event", "leave it out")
            return Word(value.text, wild="*" in value.text and not value.quoted)
        self.position = match.end()
        field = self.field(match[1], start)
        comparison = _COMPARISON.match(self.text, self.position)
        if comparison is None:
            return self.is_value(field)
        self.position = comparison.end()
        if comparison[0] == "~":
            return self.matches(field, comparison.start())
        if field.kind not in NUMERIC:
            raise self.fail(
                comparison.start(),
                f"{field.name} is not a number, so {comparison[0]} cannot compare it",
                f"quote the value if it begins with {comparison[0]}",
            )
        return self.between(field, comparison[0])

    def field(self, name: str, position: int) -> FilterField:
        if name.lower() in self.fields:
            return self.fields[name.lower()]
        if not name:
            raise self.fail(position, "a field's name is missing before this colon")
        near = nearest_field(name)
        raise self.fail(
            position,
            f'unknown field "{name[:40]}"'
            + _nearest_is(near.name if near and near.name in self.fields else ""),
            "fields are " + " ".join(self.fields),
        )

    def value(self, what: str) -> _Value:
        start = self.position
        if self.text.startswith(('"', "'"), start):
            return _Value(self.quoted(), True, start)
        match = _VALUE.match(self.text, start)
        if match is None:
            raise self.fail(min(start, len(self.text)), f"{what} is missing here")
        self.position = match.end()
        return _Value(match[0], False, start)

    def quoted(self) -> str:
        start = self.position
        mark = self.text[start]
        parts: list[str] = []
        index = start + 1
        while index < len(self.text) and self.text[index] != mark:
            # Any other backslash is literal, so regular expressions need not double it.
            if self.text[index] == "\\" and self.text[index + 1 : index + 2] in ("\\", mark):
                index += 1
            parts.append(self.text[index : index + 1])
            index += 1
        if index >= len(self.text):
            raise self.fail(start, "this quote is never closed")
        self.position = index + 1
        if _VALUE.match(self.text, self.position):
            raise self.fail(self.position, "a space is missing after the closing quote")
        return "".join(parts)

    def is_value(self, field: FilterField) -> Node:
        if field.kind in NUMERIC:
            return self.between(field, "")
        value = self.state_change(field) or self.value(f"a value for {field.name}")
        text = value.text
        if field.kind is FieldKind.CHOICE:
            choices = field.known
            if text.lower() not in choices:
                raise self.fail(
                    value.position,
                    f'no {field.name} "{text[:40]}"{_nearest_is(nearest_word(text, choices))}',
                    "use one of " + " ".join(map(quote, choices)),
                )
            return Is(field, text.lower(), wild=False)
        if not text and field.kind in (FieldKind.ID, FieldKind.PATH):
            problem = f"an empty {field.name} matches every event"
            raise self.fail(value.position, problem, "leave it out")
        if field.name in PARENTS and "/" in text and not value.quoted:
            return self.with_parents(field, value)
        wild = "*" in text and not value.quoted
        if not wild:
            self.check_known(field, value)
        return Is(field, text, wild=wild)

    def with_parents(self, field: FilterField, value: _Value) -> Node:
        """Return the condition for a name after those of its namespace and pod."""
        fields = [*(BY_NAME[parent] for parent in PARENTS[field.name]), field]
        names = value.text.split("/")
        # Alone, a name with such a beginning would have to be quoted.
        if len(names) != len(fields) or any(name.startswith(_MARKS) for name in names):
            form = "/".join(level.name.upper() for level in fields)
            raise self.fail(
                value.position,
                f'no {field.name} has the name "{value.text[:40]}"',
                f"write {field.name}:{field.name.upper()} or {field.name}:{form}",
            )
        return And(
            tuple(Is(*pair, wild="*" in pair[1]) for pair in zip(fields, names, strict=True))
        )

    def state_change(self, field: FilterField) -> _Value | None:
        """Return an event name such as ``StateChange(99)``, with parentheses; None for others."""
        match = _STATE_CHANGE.match(self.text, self.position) if field.known else None
        if match is None:
            return None
        start, self.position = self.position, match.end()
        return _Value(match[0], True, start)

    def check_known(self, field: FilterField, value: _Value) -> None:
        text = value.text
        names = {fold(name) for name in field.known}
        # StateChange(N) is the name of an event number that is unknown to this version.
        if not names or not text or fold(text) in names or _STATE_CHANGE.fullmatch(text):
            return
        raise self.fail(
            value.position,
            f'unknown {field.name} "{text[:40]}"{_nearest_is(nearest_word(text, field.known))}',
            "add a * to match values that this version does not know",
        )

    def matches(self, field: FilterField, position: int) -> Node:
        if field.kind in NUMERIC:
            raise self.fail(
                position,
                f"{field.name} is a number, which a regular expression cannot match",
                f"compare it: {field.example}",
            )
        start = self.position
        if self.text.startswith(('"', "'"), start):
            # Positions after a removed escape are too small.
            start += 1
            pattern = self.quoted()
        else:
            pattern = self.bare_pattern()
        if not pattern:
            raise self.fail(position + 1, "a regular expression is missing here")
        try:
            regex(pattern)
        except FilterError as error:
            raise self.fail(start + error.position, error.problem, error.hint) from None
        return Matches(field, pattern)

    def bare_pattern(self) -> str:
        """Return an unquoted regular expression, including its own parentheses."""
        start = self.position
        index = start
        depth = 0
        while index < len(self.text) and not self.text[index].isspace():
            char = self.text[index]
            if char == ")" and not depth:
                break
            depth += {"(": 1, ")": -1}.get(char, 0)
            index += 2 if char == "\\" and not self.text[index + 1 : index + 2].isspace() else 1
        self.position = min(index, len(self.text))
        return self.text[start : self.position]

    def between(self, field: FilterField, operator: str) -> Node:
        if field.kind is FieldKind.TIME:
            return self.time(field, operator)
        value = self.value(f"a number for {field.name}")
        parts = None if value.quoted else split_quantity(value.text)
        unit = None if parts is None else _unit(field.kind, parts[2])
        if parts is None or unit is None:
            raise self.fail(
                value.position,
                f'"{value.text[:40]}" is not a valid {field.kind.value} for {field.name}',
                f"write it like {field.example}",
            )
        number, precision = parts[0] * unit, parts[1] * unit
        if number + precision > LARGEST:
            raise self.fail(value.position, "this number is too large")
        low: int | None = None
        high: int | None = None
        match operator:
            case ">":
                low = math.floor(number) + 1
            case ">=":
                low = math.ceil(number)
            case "<":
                high = math.ceil(number) - 1
            case "<=":
                high = math.floor(number)
            case _:
                # took:3ms matches values from 3 ms up to 4 ms.
                low = math.ceil(number)
                high = max(low, math.ceil(number + precision) - 1)
        return Between(field, operator + value.text, low, high)

    def time(self, field: FilterField, operator: str) -> Node:
        value = self.value("a time")
        since, dots, until = map(str.strip, value.text.partition(RANGE))
        if dots and (operator or not (since or until)):
            problem = f"{RANGE} cannot follow {operator}" if operator else "a time is missing"
            raise self.fail(value.position, problem, f"write a range like {field.example}")
        low: int | None = None
        high: int | None = None
        try:
            if dots:
                low, end = interval(since, until, self.span, now_ns=self.now_ns)
                high = None if end is None else end - 1
            else:
                bound = moment(since, self.span, now_ns=self.now_ns)
                match operator:
                    case ">":
                        low = bound.at_ns + 1
                    case ">=":
                        low = bound.at_ns
                    case "<":
                        high = bound.at_ns - 1
                    case "<=":
                        high = max(bound.at_ns, end_ns(since, bound) - 1)
                    case _:
                        # time:14:05 matches the whole minute.
                        low, high = bound.at_ns, bound.end_ns - 1
        except UsageError as error:
            raise self.fail(value.position, error.problem, error.hint) from None
        # Without a recording, the order of relative times is unknown.
        if self.span and low is not None and high is not None and low > high:
            problem = f"{since} is not before {until} in this recording"
            raise self.fail(value.position, problem, "write the earlier time first")
        return Between(field, _time_text(low, high), low, high)


class WorkloadParser(_Parser):
    """Parser of a condition on pods and containers."""

    fields = known_fields.WORKLOAD_FIELDS


def _time_text(low: int | None, high: int | None) -> str:
    """Return the canonical form of a range, which means the same in every recording."""
    if low is None or high is None:
        return f">={utc(low)}" if low is not None else f"<{utc((high or 0) + 1)}"
    return f"{utc(low)}{RANGE}{utc(high + 1, is_end=True)}"


def _nearest_is(name: str) -> str:
    return f', the nearest is "{name}"' if name else ""


def _unit(kind: FieldKind, unit: str) -> int | None:
    if kind is FieldKind.DURATION:
        return duration_unit(unit or "us")
    if kind is FieldKind.SIZE:
        return size_unit(unit or "b")
    return None if unit else 1
