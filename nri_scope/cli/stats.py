# SPDX-License-Identifier: Apache-2.0
"""``nri-scope stats``: counts, rates and times of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import Output
from .params import ANY_PATH, format_option

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain


@click.command()
@click.argument("file", type=ANY_PATH)
@format_option("text|json", "json: one object, with all pods and all gaps.")
def command(file: Path, output_format: str) -> None:
    """Count events, with rates, answering times, gaps and sizes.

    Events are counted by name and by pod. The answering time is how long nri-scope itself took to
    answer the runtime: from the last byte of a request to handing over the reply; in a plugin's own
    session, such as `replay -o` writes, it is how long the plugin took.

    If several connections of one chain were recorded, or the plugins' own, the time that events
    spent in plugins is shown, too. Between two connections, that is the time of all plugins
    between them and some tens of µs of the runtime itself.
    """
    from nri_scope.differ.latency import latency
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.records import SCHEMA_VERSION, to_json
    from nri_scope.recording.summary import summarise

    from .stats_lines import summary_lines

    with Output() as output, Recording.open(file) as recording:
        found = summarise(recording)
        times = latency(recording)
        if output_format == "json":
            chain: list[Plain] = [entry.record() for entry in times]
            output.line(
                to_json({"schema_version": SCHEMA_VERSION, **found.record(), "chain": chain})
            )
        else:
            for line in summary_lines(found, times, file, output.width):
                output.line(line)
