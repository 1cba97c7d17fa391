# SPDX-License-Identifier: Apache-2.0
"""``nri-scope doctor``: find out why NRI does or does not work here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

from .option_rules import Exclude, RuledCommand
from .output import Output
from .params import ANY_PATH, format_option

_WIDTH_MAX = 100
"""Maximum number of terminal columns to use."""


@click.command(cls=RuledCommand, rules=(Exclude(("--install", "--metrics")),))
@click.option(
    "--socket",
    type=ANY_PATH,
    help="The runtime's NRI socket.  [default: as configured, else /var/run/nri/nri.sock]",
)
@format_option(
    "text|json",
    "json: one object with `checks`; or, with --install, with `facts`, `first`, `recommended`, "
    "`why` and `ways`.",
)
@click.option(
    "--install",
    is_flag=True,
    help="Print how to install the recorder on this machine, and why: as a DaemonSet, a systemd "
    "unit or a plugin that the runtime launches. Nothing is installed.",
)
@click.option(
    "--metrics",
    metavar="URL",
    help="Also show containerd's own metrics about each plugin, as `record --metrics` records.",
)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/"),
    hidden=True,
    help="Examine the machine whose root file system is mounted here.",
)
def command(
    socket: Path | None, output_format: str, install: bool, metrics: str | None, root: Path
) -> int:
    """Find out why NRI does or does not work here.

    Checks the socket and its process, registers briefly as a passive plugin (00-nri-scope-doctor)
    to get the runtime's version and the size of Synchronize, and reads the configuration of
    containerd, CRI-O, Docker Engine and iSulad and the folders of plugins. It changes nothing. Run
    it as root. If NRI is off, it prints the lines to add to the runtime's configuration.

    Exit status: 0 all checks passed, 1 a check failed or --metrics could not be read; with
    --install, 0 a way works now or the recorder is installed, else 1.
    """
    from nri_scope.doctor.check import as_json, as_text, exit_status, fail
    from nri_scope.doctor.examine import examination
    from nri_scope.doctor.host import Host
    from nri_scope.doctor.install import Program, plan
    from nri_scope.doctor.install import as_json as plan_as_json
    from nri_scope.doctor.install import as_text as plan_as_text
    from nri_scope.doctor.plugins import check_metrics
    from nri_scope.nri.plugin_metrics import parse_metrics
    from nri_scope.transport.http_get import check_url, http_get

    path = None if socket is None else str(socket.absolute())
    if metrics is not None:
        check_url(metrics)
    host = Host(root.resolve())
    checks, installations = examination(host, path)
    if install:
        found = plan(host, installations, checks, Program.running())
        with Output() as output:
            if output_format == "json":
                output.line(plan_as_json(found))
            else:
                terminal = output.width if output.is_terminal else None
                for line in plan_as_text(found, min(terminal or _WIDTH_MAX, _WIDTH_MAX)):
                    output.line(line)
        return found.exit_status
    if metrics is not None:
        try:
            checks += check_metrics(parse_metrics(http_get(metrics)))
        except UsageError as error:
            checks.append(fail("plugin-metrics", error.problem, error.hint))
    with Output() as output:
        if output_format == "json":
            output.line(as_json(checks))
        else:
            # File names and data reported by a runtime are untrusted.
            shown = [replace(c, detail=safe(c.detail), fix=safe(c.fix)) for c in checks]
            width = output.width
            if width is not None and output.is_terminal:
                width = min(width, _WIDTH_MAX)
            plain = not (sys.stdout.encoding or "").lower().startswith("utf")
            for line in as_text(shown, width=width, plain=plain):
                output.line(line)
    return exit_status(checks)
