# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope log -l``: events of labelled pods on all nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nri_scope.cluster.gather import in_utc
from nri_scope.cluster.labelled_events import Copy, LabelledEvents, LabelledQuery
from nri_scope.errors import UsageError
from nri_scope.events import Event, Gap
from nri_scope.recording.log_rows import Log
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import event_record, gap_record, to_json
from nri_scope.recording.temporary_files import temporary_folder
from nri_scope.recording.timeline import Began, Ended, Item, time_of
from nri_scope.text.escape import columns

from ..log_lines import Lines
from ..output import Output
from ..params import say
from .options import kubectl_of

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain

_POLL_S = 0.2
_NODE_WIDTH = 30
"""Maximum width of the column of nodes."""


def print_labelled(
    selector: str, namespace: str, cluster: dict[str, Any], options: dict[str, Any]
) -> int:
    """Print the events; return the exit status: 1 if those of a node are missing."""
    for name in ("operations", "printed"):
        if options[name]:
            raise UsageError(f"--{name} is not valid with -l", "name one pod")
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
    kubectl = kubectl_of(cluster["kubeconfig"], cluster["kube_context"])
    pulling: LabelledEvents | None = None
    with temporary_folder() as folder, Output() as output:
        pulling = LabelledEvents(kubectl, cluster["agent_namespace"], query, folder, say)
        with pulling, ExitStack() as stack:
            printer = _Printer(output, stack, jsonl=options["output_format"] == "jsonl")
            with suppress(KeyboardInterrupt):
                while not pulling.is_done:
                    if query.follow:
                        printer.print_new(pulling.copies)
                    if output.wait(_POLL_S):
                        break
                if query.follow:
                    printer.print_new(pulling.copies)
                else:
                    printer.print_all(pulling.copies, query.last)
    assert pulling is not None
    if pulling.error is not None:
        raise pulling.error
    return int(pulling.failed)


_NodeLog = tuple[str, Recording, Log]


class _Row(NamedTuple):
    at_ns: int
    node: str
    item: Item


class _Printer:
    """Printer of the new events of all copies, in the order of their times."""

    def __init__(self, output: Output, stack: ExitStack, *, jsonl: bool) -> None:
        self._output = output
        self._stack = stack
        self._jsonl = jsonl
        self._logs: dict[Path, _NodeLog] = {}
        self._lines = Lines(colour=output.colour, width=None)
        self._width = 0

    def print_all(self, copies: list[Copy], last: int | None) -> None:
        """Print everything, or the newest events of all nodes."""
        self._open(copies)
        for _, recording, _ in self._logs.values():
            self._lines.add_columns(recording.sessions())
        rows = merge(*map(_rows, self._logs.values()), key=_time)
        for row in rows if last is None else _newest(rows, last):
            self._print(row.node, row.item)
        self._output.flush()

    def print_new(self, copies: list[Copy]) -> None:
        """Print what is new; each node's events when they have arrived."""
        self._open(copies)
        found: list[_Row] = []
        for one in self._logs.values():
            _, recording, log = one
            if log.has_new_rows():
                self._lines.add_columns(recording.sessions())
                found += _rows(one)
        for row in sorted(found, key=_time):
            self._print(row.node, row.item)
        self._output.flush()

    def _open(self, copies: list[Copy]) -> None:
        for node, path, last in copies[len(self._logs) :]:
            recording = self._stack.enter_context(Recording.open(path))
            self._logs[path] = node, recording, Log(recording, last=last)
            self._width = max(self._width, min(columns(node), _NODE_WIDTH))

    def _print(self, node: str, item: Item) -> None:
        if self._jsonl:
            record: dict[str, Plain]
            if isinstance(item, Event):
                record = event_record(item)
            elif isinstance(item, Gap):
                record = gap_record(item)
            else:
                return
            self._output.line(to_json({"node": node, **record}))
        elif isinstance(item, Event | Gap):
            for line in self._lines.of(item):
                self._output.line(f"{node:{self._width}} {line}")


def _rows(log: _NodeLog) -> Iterator[_Row]:
    node, _, items = log
    return (_Row(_at_ns(item), node, item) for item in items.read())


def _time(row: _Row) -> int:
    return row.at_ns


def _newest(rows: Iterable[_Row], last: int) -> Iterable[_Row]:
    """Return the last events, and the other items after the first of them."""
    kept = deque[_Row]()
    events = 0
    for row in rows:
        kept.append(row)
        events += isinstance(row.item, Event)
        while kept and (events > last or not isinstance(kept[0].item, Event)):
            events -= isinstance(kept.popleft().item, Event)
    return kept


def _at_ns(item: Item) -> int:
    match item:
        case Began(session) | Ended(session):
            return session.started_ns
        case _:
            return time_of(item)
