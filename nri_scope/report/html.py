# SPDX-License-Identifier: Apache-2.0
"""Render the report as one HTML file that loads nothing, runs nothing, and escapes everything.

Text of a recording is escaped by `safe` (characters that hide or reorder text) and by the template
engine (HTML syntax). If both fail, the Content-Security-Policy still forbids scripts and loading;
its one exception is the report's own style sheet, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nri_scope.differ.render.values import clipped
from nri_scope.differ.render.wording import GLYPHS
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.escape import safe
from nri_scope.text.quantities import deadline, duration, many

from . import wording
from .limits import WORDS_MAX
from .report_data import Facts, Lane, LaneMark, Timeline

_PAGE = "report.html.j2"
_HEIGHT = 40
"""Height of the bars of event counts, in units of the viewBox."""
_LEAST_NS = 10_000
"""Start of the scale of times: 10 µs."""
_BAR = 100
"""Length of that scale, in units of the viewBox."""


def html(facts: Facts) -> Iterator[str]:
    """Yield the file, in parts."""
    css = _source("report.css")
    template = _environment().get_template(_PAGE)
    yield from template.generate(
        facts=facts,
        # Trusted text; escapes have no meaning inside a style element.
        css=Markup(css),
        policy=f"default-src 'none'; style-src 'sha256-{_sha256(css)}'; base-uri 'none'; "
        "form-action 'none'",
        levels=wording.counted_levels(facts.findings),
    )


@cache
def fixed_text() -> bytes:
    """Return the text of every page, which the search for leaked values ignores: its colours look
    like digests.
    """
    tokens = Environment().lex(_source(_PAGE))
    # Only text: neither comments nor expressions.
    texts = (text for _, token, text in tokens if token in ("data", "string"))
    return "\n".join((_source("report.css"), *texts)).encode()


def _source(name: str) -> str:
    return files(__package__ or "nri_scope.report").joinpath("templates", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nri_scope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cut": lambda text: clipped(str(text), WORDS_MAX),
        "deadline": deadline,
        "duration": duration,
        "ticked": _ticked,
        "thousands": lambda number: f"{number:,}",
        "time": rfc3339,
        "clock": lambda ns: rfc3339(ns)[11:23],
    }
    environment.globals |= {
        **{function.__name__: function for function in (bars, dots, log_place, spans, ticks)},
        "glyphs": GLYPHS,
        "LaneMark": LaneMark,
        "many": many,
        "wording": wording,
    }
    return environment


def _harmless(value: object) -> object:
    """Escape unsafe characters of every value; only the report's own macros return markup."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ticked(text: str) -> Markup:
    """Escape `text`, and format parts between backticks as code."""
    plain, code = Markup("{}"), Markup("<code>{}</code>")
    pieces = safe(text).split("`")
    if len(pieces) % 2 == 0:
        return plain.format(safe(text))
    return Markup("").join(
        (code if number % 2 else plain).format(piece) for number, piece in enumerate(pieces)
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# -- drawings: SVG paths of numbers, without text from a recording -------------------------------


def bars(counts: Sequence[int], most: int) -> str:
    """Return a path of columns with heights proportional to the counts; `most` has full height."""
    parts: list[str] = []
    for column, count in enumerate(counts):
        if count:
            # The minimum height makes every count visible.
            height = max(2.0, _HEIGHT * count / max(1, most))
            parts.append(f"M{column} {_HEIGHT}v{-height:.1f}h1V{_HEIGHT}z")
    return "".join(parts)


def dots(lane: Lane, kind: LaneMark) -> str:
    """Return a path of zero-length lines, which round caps turn into dots of constant size."""
    return "".join(f"M{column} 10h0" for column, mark, _ in lane.marks if mark is kind)


def spans(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return starts and widths, of at least one column."""
    return [(begin, max(1, end - begin)) for begin, end in ranges]


def log_place(ns: int, deadline_ns: int) -> float:
    """Return a time's position on a logarithmic scale from 10 µs to the deadline, up to `_BAR`."""
    if ns <= _LEAST_NS or deadline_ns <= _LEAST_NS:
        return 0.0
    position = _BAR * math.log(ns / _LEAST_NS) / math.log(deadline_ns / _LEAST_NS)
    return round(min(position, float(_BAR)), 1)


def ticks(timeline: Timeline, count: int = 5) -> list[int]:
    """Return evenly spaced times from the first to the last, in ns."""
    span = timeline.last_ns - timeline.first_ns
    return [timeline.first_ns + span * number // (count - 1) for number in range(count)]
