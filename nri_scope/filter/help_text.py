# SPDX-License-Identifier: Apache-2.0
"""Descriptions of the filter language for help texts and documentation, made from its fields."""

from __future__ import annotations

from .fields import FIELDS

SYNTAX: tuple[tuple[str, str], ...] = (
    ("field:value", "the field is this value; * in it stands for anything"),
    ("field:~regex", "the field matches this regular expression somewhere"),
    ("field:>5", "also >= < <=, for index, session, took and size"),
    ("word", "some name or id has this in it, upper or lower case"),
    ("-term, NOT term", "not this"),
    ("a b, a AND b", "both; binds closer than OR"),
    ("a OR b", "at least one; operators are in capitals"),
    ("( … )", "together"),
    ('"…"', "exactly this text: nothing in it has a meaning"),
)
"""Each form with its meaning."""

NOTES: tuple[str, ...] = (
    'An empty value finds events that have none: container:"" finds those about no container.',
    "Events that this version does not know need a *, as in event:Future*, or a regular "
    "expression.",
    "A number without > or < is as precise as it is written: took:3ms finds 3 ms up to 4 ms.",
    "Regular expressions are the usual ones, but for back-references and look-around; upper and "
    "lower case differ unless they begin with (?i).",
)
"""Notes on rules that neither table covers."""


def fields() -> list[tuple[str, str]]:
    """Return each field's name, and its description with an example."""
    return [(field.name, f"{field.doc}, e.g. {field.example}") for field in FIELDS]


def epilog() -> str:
    """Return the language as an epilog for click, which keeps paragraphs after ``\b`` unchanged."""
    return "\n\n".join(
        [
            "\b\nFilters:\n" + _aligned(SYNTAX),
            "\b\nFields:\n" + _aligned(tuple((field.name, field.doc) for field in FIELDS)),
            *NOTES,
        ]
    )


def _aligned(rows: tuple[tuple[str, str], ...]) -> str:
    width = max(len(term) for term, _ in rows)
    return "\n".join(f"  {term:<{width}}  {doc}" for term, doc in rows)
