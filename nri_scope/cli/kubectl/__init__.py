# SPDX-License-Identifier: Apache-2.0
"""The commands of ``kubectl nri-scope``, one thin module each, and the options that they share.

In: a command line, and the answers of agents through `cluster`. Out: what the commands of
nri-scope print about a copy of a node's recordings. This package never contains more than options
and layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nri_scope.cluster.agent_pods import NAMESPACE

from ..params import ANY_PATH, together

if TYPE_CHECKING:
    from nri_scope.cluster.kubectl import Kubectl


class ClusterOptions(NamedTuple):
    """The values of `cluster_options`."""

    kubeconfig: str | None
    kube_context: str | None
    agent_namespace: str
    token_file: Path | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> ClusterOptions:
        """Remove the values from all parameters of a command."""
        return cls(*map(options.pop, cls._fields))

    @property
    def kubectl(self) -> Kubectl:
        """kubectl with these options."""
        from nri_scope.cluster.kubectl import Kubectl

        options = {"--kubeconfig": self.kubeconfig, "--context": self.kube_context}
        given = tuple(f"{name}={value}" for name, value in options.items() if value)
        return Kubectl(given, self.token_file)


namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", default="", help="Namespace of the pods, as for kubectl."
)


cluster_options = together(
    click.option("--kubeconfig", metavar="FILE", help="As for kubectl."),
    click.option("--context", "kube_context", metavar="NAME", help="As for kubectl."),
    click.option(
        "--agent-namespace",
        metavar="NAME",
        default=NAMESPACE,
        show_default=True,
        help="Namespace of nri-scope's DaemonSet.",
    ),
    click.option(
        "--token-file",
        type=ANY_PATH,
        metavar="FILE",
        help="Token for agents with --authorize.  [default: that of your kubeconfig]",
    ),
)
