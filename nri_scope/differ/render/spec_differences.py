# SPDX-License-Identifier: Apache-2.0
"""Render the differences between two specs, without owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.recording.records import SCHEMA_VERSION, to_json
from nri_scope.specs import Change
from nri_scope.text.layout import Layout
from nri_scope.text.styled_text import Style

from ..json_records import change_record
from .change_lines import change_lines
from .markdown import changes_table
from .markdown_escape import code
from .renderer import Format


def spec_diff(
    before: str,
    after: str,
    changes: Sequence[Change],
    output_format: Format,
    *,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the differences between the specs called `before` and `after`.

    Text without differences has no lines.
    """
    match output_format:
        case "json":
            yield to_json(
                {
                    "schema_version": SCHEMA_VERSION,
                    "before": before,
                    "after": after,
                    "changes": [change_record(change) for change in changes],
                }
            )
        case "markdown":
            yield f"{code(before)} → {code(after)}"
            yield from changes_table(changes) if changes else ("", "No difference.")
        case "text":
            layout = Layout(width)
            if changes:
                yield from layout.sentence(f"{before} → {after}", 0, Style.STRONG)
            for change in changes:
                yield from change_lines(layout, change)
