# SPDX-License-Identifier: Apache-2.0
"""Description of the filter language for help texts and documentation."""

from __future__ import annotations

from .fields import FIELDS
from .moments import FORMS

SYNTAX: tuple[tuple[str, str], ...] = (
    ("field:value", "the field has this value; * matches any text"),
    ("field:~regex", "this regular expression matches a part of the field"),
    ("field:>5", "or >= < <=; for index, session, took, time and size"),
    ("time:a..b", "from a until before b, as --since a --until b; a or b may be absent"),
    ("word", "a name or id contains this word, in any case"),
    ("-term, NOT term", "events that do not match the term"),
    ("a b, a AND b", "both; binds more tightly than OR"),
    ("a OR b", "at least one; operators must be in capitals"),
    ("( … )", "grouping"),
    ('"…"', "exactly this text, without special characters"),
)
"""Each form of a term, with its meaning."""

NOTES: tuple[str, ...] = (
    'An empty value matches events without one: container:"" matches those about no container.',
    "pod:shop/web is short for ns:shop pod:web, and container:shop/web/app adds container:app.",
    "To match events unknown to this version, use * or a regular expression: event:Future*.",
    "A number or time without > or < matches with the precision written: took:3ms matches 3 ms up "
    "to 4 ms, time:14:05 the whole minute.",
    "The end of a range is not included, but with one to three digits after the second, as times "
    "are shown, it includes all that is shown like it: ..14:05:07.250 ends before 14:05:07.251.",
    "While events are being recorded, + and - count from the start of the command, and a time "
    "without a date is today.",
    "Regular expressions have the syntax of RE2, without back-references and look-around. They are "
    "case-sensitive unless they begin with (?i).",
)
"""Rules that neither table contains."""


def fields() -> list[tuple[str, str]]:
    """Return the name of each field, and its description with an example."""
    return [(field.name, f"{field.doc}, e.g. {field.example}") for field in FIELDS]


def epilog() -> str:
    """Return an epilog for click, which does not wrap paragraphs that begin with ``\b``."""
    return "\n\n".join(
        [
            "\b\nFilters:\n" + _aligned(SYNTAX),
            "\b\nFields:\n" + _aligned(tuple((field.name, field.doc) for field in FIELDS)),
            "\b\nTimes:\n" + _aligned(FORMS),
            *NOTES,
        ]
    )


def _aligned(rows: tuple[tuple[str, str], ...]) -> str:
    width = max(len(term) for term, _ in rows)
    return "\n".join(f"  {term:<{width}}  {doc}" for term, doc in rows)
