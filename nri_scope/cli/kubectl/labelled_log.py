# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope log`` of labelled pods, or those of a workload, on all nodes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from heapq import merge
from queue import SimpleQueue
from typing import Any, NamedTuple

from nri_scope.cluster.gather import in_utc
from nri_scope.cluster.labelled_events import Copy, LabelledEvents, LabelledQuery
from nri_scope.cluster.target import NamedTarget
from nri_scope.entries import time_of
from nri_scope.errors import UsageError
from nri_scope.events import Event, Gap
from nri_scope.filter import parse
from nri_scope.filter.tree import quote
from nri_scope.recording.file.temporary_files import temporary_folder
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import event_record, gap_record, to_json
from nri_scope.text.escape import columns

from ..log_lines import LogLines
from ..output import Output
from ..params import say
from . import ClusterOptions

_POLL_S = 0.2
_NODE_WIDTH = 30
"""Maximum width of the column of nodes."""


def print_labelled(
    selector: str, namespace: str, cluster: ClusterOptions, options: dict[str, Any]
) -> int:
    """Print the events; return the exit status: 1 if the events of a node are missing."""
    since, until = in_utc(options["since"] or "", options["until"] or "")
    query = LabelledQuery(
        selector,
        namespace,
        str(options["where"] or ""),
        since,
        until,
        options["last"],
        options["follow"],
    )
    with temporary_folder() as folder:
        pulling = LabelledEvents(cluster.kubectl, cluster.agent_namespace, query, folder, say)
        with Output() as output, pulling:
            printer = _Printer(output, jsonl=options["output_format"] == "jsonl")
            with closing(printer), suppress(KeyboardInterrupt):
                while not pulling.is_done:
                    if query.follow:
                        printer.print_new(pulling.copies)
                    if output.wait(_POLL_S):
                        break
                if query.follow:
                    printer.print_new(pulling.copies)
                else:
                    printer.print_all(pulling.copies, query.last)
    if pulling.error is not None:
        raise pulling.error
    return int(pulling.failed)


def print_workload(
    named: NamedTarget, what: str, node: str, cluster: ClusterOptions, options: dict[str, Any]
) -> int:
    """Print the events of all pods of a workload; return the exit status."""
    for name, value in {**options, "node": node}.items():
        if value and name in ("node", "operations", "printed"):
            raise UsageError(f"--{name} and {what} exclude each other", "name a pod")
    named = asyncio.run(named.in_namespace(cluster.kubectl))
    selector = asyncio.run(named.selector(cluster.kubectl))
    if named.container:
        term = f"container:{quote(named.container, is_name=True)}"
        where = options["where"]
        options["where"] = parse(term if where is None else f"({where.text}) {term}")
    return print_labelled(selector, named.namespace, cluster, options)


class _NodeLog(NamedTuple):
    copy: Copy
    recording: Recording
    log: Log


class _LogRow(NamedTuple):
    at_ns: int
    node: str
    item: Event | Gap


class _Printer:
    """Printer of the new events of all copies, in the order of their times."""

    def __init__(self, output: Output, *, jsonl: bool) -> None:
        self._output = output
        self._jsonl = jsonl
        self._logs: list[_NodeLog] = []
        self._lines = LogLines(colour=output.colour, width=None)
        self._width = 0

    def print_all(self, copies: SimpleQueue[Copy], last: int | None) -> None:
        """Print everything, or the newest events of all nodes."""
        self._open(copies)
        for node_log in self._logs:
            self._lines.add_columns(node_log.recording.sessions())
        rows = merge(*map(_rows, self._logs), key=_time)
        for row in rows if last is None else _newest(rows, last):
            self._print(row.node, row.item)
        self._output.flush()

    def print_new(self, copies: SimpleQueue[Copy]) -> None:
        """Print new events, those of each node as soon as they arrive."""
        self._open(copies)
        rows: list[_LogRow] = []
        for node_log in list(self._logs):
            is_complete = node_log.copy.is_complete
            if node_log.log.has_new_rows():
                self._lines.add_columns(node_log.recording.sessions())
                rows += _rows(node_log)
            if is_complete:
                self._logs.remove(node_log)
                node_log.recording.close()
                node_log.copy.path.unlink()
        for row in sorted(rows, key=_time):
            self._print(row.node, row.item)
        self._output.flush()

    def close(self) -> None:
        """Close the copies."""
        for node_log in self._logs:
            node_log.recording.close()

    def _open(self, copies: SimpleQueue[Copy]) -> None:
        while not copies.empty():
            copy = copies.get()
            recording = Recording.open(copy.path)
            self._logs.append(_NodeLog(copy, recording, Log(recording, last=copy.last)))
            self._width = max(self._width, min(columns(copy.node), _NODE_WIDTH))

    def _print(self, node: str, item: Event | Gap) -> None:
        if self._jsonl:
            record = event_record(item) if isinstance(item, Event) else gap_record(item)
            self._output.line(to_json({"node": node, **record}))
        else:
            for line in self._lines.of(item):
                self._output.line(f"{node:{self._width}} {line}")


def _rows(node_log: _NodeLog) -> Iterator[_LogRow]:
    for item in node_log.log.read():
        if isinstance(item, Event | Gap):
            yield _LogRow(time_of(item), node_log.copy.node, item)


def _time(row: _LogRow) -> int:
    return row.at_ns


def _newest(rows: Iterable[_LogRow], last: int) -> Iterable[_LogRow]:
    """Return the last events, and the other items after the first of them."""
    kept = deque[_LogRow]()
    events = 0
    for row in rows:
        kept.append(row)
        events += isinstance(row.item, Event)
        while kept and (events > last or not isinstance(kept[0].item, Event)):
            events -= isinstance(kept.popleft().item, Event)
    return kept
