# SPDX-License-Identifier: Apache-2.0
"""``nri-scope v01``: install and remove the recording plugin of NRI 0.1."""

from __future__ import annotations

from pathlib import Path

import click

from nri_scope.nri.v01 import CONF_PATH

from .option_rules import Exclude, RuledCommand
from .params import FilePath, say


@click.command(cls=RuledCommand, rules=(Exclude(("uninstall", "--spool")),))
@click.argument("action", type=click.Choice(["install", "uninstall"]))
@click.option(
    "--conf",
    type=FilePath(),
    default=Path(CONF_PATH),
    show_default=True,
    help="The runtime's configuration of NRI 0.1.",
)
@click.option(
    "--spool",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With `install`: folder for the requests, and for the plugin's program.  "
    "[default: /var/lib/nri-scope/v01]",
)
def command(action: str, conf: Path, spool: Path | None) -> None:
    """Install or remove the recording plugin of NRI 0.1.

    containerd 1.5 and 1.6 call plugins of NRI 0.1 for sandboxes and containers, and containerd 2.0
    and later for sandboxes.

    `install` makes a recording plugin the last one of the list of plugins. It is a shell program
    that writes each request to a file in the spool, and answers with a constant result; if the
    spool is full, it only counts. `record` moves the requests from the spool to a recording, as a
    session of kind v0.1. The runtime reads the list at every call.

    `uninstall` restores the former list, unless another program has changed it since.
    """
    from nri_scope.logger.default_file import V01_SPOOL
    from nri_scope.recording.display import many
    from nri_scope.tap.v01_conf import install, uninstall

    if action == "install":
        spool = spool or V01_SPOOL
        places = install(conf, spool)
        given = f" --spool {spool}" if spool != V01_SPOOL else ""
        say(f"installed in {places.conf}; `record{given}` reads its requests")
        return
    spool, waiting = uninstall(conf)
    say(f"restored {conf}")
    if waiting:
        say(f"{many(waiting, 'request')} in {spool}; `record --spool {spool}` reads them")
