# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope``: run a command on the recordings of a cluster's nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from nri_scope import __version__
from nri_scope.process.signals import interrupted_by_signals

from ..main import GROUP_SETTINGS, CommandGroup, prepare_streams, run

VIEW_NAMES = ("blame", "diff", "show", "log", "tui", "report")
"""Commands of nri-scope that work on the recordings of a node as on a file, as in `views.VIEWS`."""
GROUPS = {
    "Look at pods": VIEW_NAMES,
    "Copy": ("pull", "collect"),
    "All nodes": ("status", "missing"),
}
"""Commands by their group in the help."""


class ClusterGroup(CommandGroup):
    """Command group that imports a command's module on use."""

    groups = GROUPS
    package = "nri_scope.cli.kubectl"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in VIEW_NAMES:
            from .views import view

            return view(cmd_name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, whose advice names commands of this group.

        SIGTERM and SIGHUP, too, end kubectl and remove temporary files.
        """
        from nri_scope.report.finding import CommandStyle

        ctx.obj = CommandStyle.CLUSTER
        with interrupted_by_signals():
            return super().invoke(ctx)


@click.command(
    name="kubectl nri-scope",
    cls=ClusterGroup,
    **GROUP_SETTINGS,
    epilog="`kubectl nri-scope help` lists topics, e.g. filters.",
)
@click.version_option(__version__, message="nri-scope %(version)s")
def cli() -> None:
    """Show what NRI did to the pods of a cluster.

    It asks the agents of nri-scope's DaemonSet, with your kubectl, which needs the permission
    pods/portforward there. WHAT is NAMESPACE/POD[/CONTAINER] or, with -n or in the namespace of
    your context, POD, pod/POD[/CONTAINER], deploy/NAME[/CONTAINER], ds/, sts/, rs/ or job/. Of a
    workload, `log` shows all pods, and others the one that `kubectl logs` chooses.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status."""
    prepare_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments, cli))
