# SPDX-License-Identifier: Apache-2.0
"""What differs between two specs, where nobody is known to have changed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.oci import Change
from nri_scope.recording.records import SCHEMA_VERSION, to_json

from ..records import change_record
from .change_lines import change_lines
from .layout import BOLD, Layout
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
    colour: bool = False,
) -> Iterator[str]:
    """Lines about the two specs called `before` and `after`. Nothing in text where none differs."""
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
            layout = Layout(width=width, colour=colour)
            if changes:
                yield from layout.sentence(f"{before} → {after}", 0, BOLD)
            for change in changes:
                yield from change_lines(layout, change)
