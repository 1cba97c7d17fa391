# SPDX-License-Identifier: Apache-2.0
"""``nri-scope sql``: query a recording in SQL."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import Output, table
from .params import ANY_PATH, format_option

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.recording.user_sql import Cell, QueryResult


@click.command(
    epilog="""\b
Examples:
  nri-scope sql FILE "SELECT event, count(*) FROM log GROUP BY event"
  nri-scope sql FILE "SELECT id, pod, took_us FROM log ORDER BY took_us DESC LIMIT 10"
  nri-scope sql FILE "SELECT nri_json(id) FROM log WHERE event = 'CreateContainer'"

The view log has a row for each event, like the output of nri-scope log. The tables are described in
docs/recording-format.md and by SELECT sql FROM sqlite_master. In addition to SQLite's functions,
nri_json(event id) and nri_json(event id, 'reply') return messages as JSON, and x REGEXP y uses the
regular expressions of filters."""
)
@click.argument("file", type=ANY_PATH)
@click.argument("query")
@format_option(
    "table|json|csv",
    "json: one object; bytes are base64. csv: control characters are written as \\x1b, and text "
    "that a spreadsheet would evaluate is prefixed with '.",
)
def command(file: Path, query: str, output_format: str) -> None:
    """Run an SQL query on a recording, read-only."""
    from nri_scope.recording.reading.reader import Recording
    from nri_scope.recording.user_sql import run

    with Output() as output, Recording.open(file) as recording:
        result = run(recording.connection, recording.path, query)
        match output_format:
            case "json":
                lines = _json(result)
            case "csv":
                lines = _csv(result)
            case _:
                lines = table(result.columns, result.rows, output.width)
        for line in lines:
            output.line(line)


def _json(result: QueryResult) -> Iterator[str]:
    from nri_scope.recording.reading.records import SCHEMA_VERSION, to_json

    # Number repeated column names, as an object's keys must be unique.
    keys: list[str] = []
    for name in result.columns:
        number = 2
        key = name
        while key in keys:
            key = f"{name}_{number}"
            number += 1
        keys.append(key)
    columns: list[Plain] = [*keys]
    yield f'{{"schema_version": {SCHEMA_VERSION}, "columns": {to_json(columns)}, "rows": ['
    previous: str | None = None
    for row in result.rows:
        if previous is not None:
            yield f"{previous},"
        previous = to_json(dict(zip(keys, map(_jsonable, row), strict=True)))
    if previous is not None:
        yield previous
    yield "]}"


def _jsonable(value: Cell) -> Plain:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no infinity or NaN.
        return str(value)
    return value


def _csv(result: QueryResult) -> Iterator[str]:
    from nri_scope.text.escape import spreadsheet_cell

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")
    for row in chain([result.columns], result.rows):
        cells = (base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in row)
        writer.writerow(spreadsheet_cell(c) if isinstance(c, str) else c for c in cells)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
