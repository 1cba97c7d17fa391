# SPDX-License-Identifier: Apache-2.0
"""``nri-scope stats``: event counts, rates and times of a recording."""

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
@format_option("text|json", "json: one object, with all pods and gaps.")
def command(file: Path, output_format: str) -> None:
    """Show event counts, rates, response times, gaps and sizes.

    Events are counted by name and by pod. The response time is that of nri-scope itself, from the
    last byte of a request to the write of the reply; in a session of a tapped or replayed plugin,
    it is that of the plugin.

    If several connections of one chain, or plugins' own connections, were recorded, the time that
    events spent in plugins is also shown. Between two connections, it is the time of all plugins
    between them, plus some tens of µs of the runtime itself.

    With `record --metrics`, the calls of each plugin by containerd's own metrics follow, beside
    those of plugins that were recorded at that time.
    """
    from nri_scope.differ.latency import latency
    from nri_scope.recording.plugin_calls import measured_times
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.records import SCHEMA_VERSION, to_json
    from nri_scope.recording.stats import summarise

    from .stats_lines import summary_lines

    with Output() as output, Recording.open(file) as recording:
        found = summarise(recording)
        plugin_times = latency(recording)
        measured = measured_times(recording)
        if output_format == "json":
            chain: list[Plain] = [entry.record() for entry in plugin_times]
            output.line(
                to_json(
                    {
                        "schema_version": SCHEMA_VERSION,
                        **found.record(),
                        "chain": chain,
                        "runtime_metrics": [one.record() for one in measured],
                    }
                )
            )
        else:
            for line in summary_lines(found, plugin_times, measured, file, output.width):
                output.line(line)
