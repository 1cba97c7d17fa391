# SPDX-License-Identifier: Apache-2.0
"""``nri-scope agent``: serve the recordings of one node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.recording.node_files import AGENT_PORT

from .option_rules import Need, RuledCommand
from .params import ANY_PATH, RULES_FILE, Checked, say

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules

HTTP_PORT = 9644


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(f"{text!r} is not an address", "write for example 127.0.0.1:9643")
    return host, int(port)


ADDRESS = Checked("address", _address)
"""Address and port to listen on, from ``HOST:PORT`` or ``[HOST]:PORT``."""
_TLS = ("--tls-cert", "--tls-key", "--tls-client-ca")


@click.command(
    cls=RuledCommand, rules=[Need(_TLS, (each,), f"give all of {', '.join(_TLS)}") for each in _TLS]
)
@click.argument("folder", metavar="DIR", type=ANY_PATH)
@click.option(
    "--grpc",
    type=ADDRESS,
    metavar="ADDRESS",
    default=f"127.0.0.1:{AGENT_PORT}",
    show_default=True,
    help="Address of the gRPC service; others than loopback ones need the three options of TLS.",
)
@click.option(
    "--http",
    metavar="ADDRESS",
    default=f"127.0.0.1:{HTTP_PORT}",
    show_default=True,
    help="Address of /metrics, /healthz and /readyz; '' for none.",
)
@click.option("--node", metavar="NAME", default="", help="Name of the node, for clients.")
@click.option(
    "--recorder",
    metavar="NAME",
    default="",
    help="/readyz: the recorder that must be synchronised with the runtime, by the name of its "
    "recording without .nriscope.db.  [default: any]",
)
@click.option(
    "--redact",
    type=RULES_FILE,
    default="",
    metavar="RULES",
    help="Rules for redaction of what is sent.  [default: the default rules]",
)
@click.option("--unredacted", is_flag=True, help="Send events as they are recorded.")
@click.option(
    "--metrics-namespaces",
    is_flag=True,
    help="Add the namespace of pods to the metrics of events, up to 1,000 namespaces.",
)
@click.option(
    "--authorize",
    is_flag=True,
    help="In Kubernetes: ask the API server who calls. Callers need the permission to get pods/log "
    "in the namespaces of the events that they ask for, and in all for a whole node; with "
    "--unredacted, to create pods/exec.",
)
@click.option("--tls-cert", type=ANY_PATH, metavar="FILE", help="Certificate of the service.")
@click.option("--tls-key", type=ANY_PATH, metavar="FILE", help="Its private key.")
@click.option(
    "--tls-client-ca",
    type=ANY_PATH,
    metavar="FILE",
    help="Certificates that issue those of clients. Each client needs one.",
)
def command(
    folder: Path,
    grpc: tuple[str, int],
    http: str,
    node: str,
    recorder: str,
    redact: Rules,
    unredacted: bool,
    metrics_namespaces: bool,
    authorize: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
) -> None:
    """Serve recordings of a node by gRPC, and metrics.

    DIR has the recordings of a node, to which recorders may write at the same time. Clients get
    redacted events unless --unredacted is given. `kubectl nri-scope` is a client.

    Clients are limited in connections, calls, sizes and time, as docs/agent.md lists.
    """
    from nri_scope.agent.run import AgentOptions, TlsFiles, serve

    tls = None
    if tls_cert is not None and tls_key is not None and tls_client_ca is not None:
        tls = TlsFiles(tls_cert, tls_key, tls_client_ca)
    if tls is None and not _is_loopback(grpc[0]):
        raise UsageError(
            f"--grpc {grpc[0]}: without TLS, anyone who reaches this address could read the events",
            "use 127.0.0.1, or give --tls-cert, --tls-key and --tls-client-ca",
        )
    serve(
        AgentOptions(
            folder=folder,
            grpc=grpc,
            http=ADDRESS(http) if http else None,
            node=node,
            redact=None if unredacted else redact,
            recorder=recorder,
            by_namespace=metrics_namespaces,
            tls=tls,
            authorize=authorize,
        ),
        say,
    )


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
