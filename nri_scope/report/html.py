# SPDX-License-Identifier: Apache-2.0
"""Render the report as one HTML file that loads nothing, runs nothing, and escapes everything.

Text of a recording is escaped by `safe` (characters that hide or reorder text) and by the template
engine (HTML syntax). If both fail, the Content-Security-Policy still forbids scripts and loading;
its one exception is the report's own style sheet, by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nri_scope.differ.render.values import clipped
from nri_scope.differ.render.wording import GLYPHS
from nri_scope.recording.display import deadline, duration, many
from nri_scope.recording.records import rfc3339
from nri_scope.text.escape import safe

from . import svg_paths, wording
from .limits import WORDS_MAX
from .report_data import Facts, Mark


def html(facts: Facts) -> Iterator[str]:
    """Yield the file, in parts."""
    css = files(__package__ or "nri_scope.report").joinpath("templates/report.css").read_text()
    template = _environment().get_template("report.html.j2")
    yield from template.generate(
        facts=facts,
        # Trusted text; escapes have no meaning inside a style element.
        css=Markup(css),
        policy=f"default-src 'none'; style-src 'sha256-{_sha256(css)}'; base-uri 'none'; "
        "form-action 'none'",
        levels=wording.counted_levels(facts.findings),
    )


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
        "drawing": svg_paths,
        "glyphs": GLYPHS,
        "Mark": Mark,
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
