# SPDX-License-Identifier: Apache-2.0
"""The states of nodes as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.cluster.node_states import NodeState
from nri_scope.recording.display import moment, size

from ..table import table

_HEADINGS = ("node", "runtime", "NRI", "recorder", "since", "plugins", "gaps", "lost", "disk")


def table_lines(states: Sequence[NodeState], width: int | None) -> Iterator[str]:
    """Yield the lines of the table, and a line about what is not known."""
    yield from table(_HEADINGS, [_row(one) for one in states], width, right=(6, 7))
    if any(one.status is not None and one.plugins is None for one in states):
        yield ""
        yield "plugins: NRI names other plugins only to validators; see deploy/kustomize/validate"


def _row(state: NodeState) -> tuple[str, ...]:
    status = state.status
    if status is None:
        return (state.node, "", "", state.problem, *[""] * 5)
    session, current = state.runtime, state.current
    plugins = state.plugins
    since = current.session if current is not None and current.connected else None
    return (
        state.node,
        f"{session.runtime_name} {session.runtime_version}" if session else "unknown",
        session.nri_version if session else "",
        _recorder(state),
        moment(since.started_ns) if since else "",
        "unknown" if plugins is None else ", ".join(plugins),
        str(sum(one.gaps for one in status.recordings)),
        str(sum(one.lost for one in status.recordings)),
        f"{size(status.recorded_bytes)}, {size(status.free_bytes)} free",
    )


def _recorder(state: NodeState) -> str:
    current = state.current
    if current is None:
        return "none is running"
    if current.problem:
        return current.problem
    if not current.connected:
        return "not connected"
    return "synchronised" if current.synchronized else "connected, not synchronised"
