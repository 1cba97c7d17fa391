# SPDX-License-Identifier: Apache-2.0
"""``nri-scope missing``: pods and containers that were created without a plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .option_rules import Exclude, RuledCommand
from .output import Output, cell, table
from .params import ANY_PATH, NOT_EMPTY, format_option, say
from .time_arguments import since_option, until_option

if TYPE_CHECKING:
    from nri_scope.differ.missing_plugin import Creation, Expectation
    from nri_scope.nri.plain import Plain
    from nri_scope.recording.query.coverage import Coverage
    from nri_scope.recording.reading.reader import Recording


def _expectations(_context: object, _option: object, texts: Sequence[str]) -> list[Expectation]:
    from nri_scope.differ.missing_plugin import parse_expectation

    return [parse_expectation(text) for text in texts]


_UNKNOWN = "unknown: nothing that was observed tells which plugins were connected"


class Missed(NamedTuple):
    """What a recording tells about a plugin."""

    creations: list[Creation]
    coverage: Coverage


@click.command(cls=RuledCommand, rules=(Exclude(("--plugin",), ("--expect",)),))
@click.argument("file", type=ANY_PATH)
@click.option(
    "--plugin",
    type=NOT_EMPTY,
    metavar="NAME",
    help="Name of the plugin, or its index and name. Without it: all plugins that are required.",
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    callback=_expectations,
    metavar="'plugin=NAME where CONDITION'",
    help="Require this plugin for pods and containers, e.g. 'plugin=10-gpu where "
    "annotation:example.com/gpu=yes ns:shop'. Fields of the condition: pod, ns, container, id, and "
    "annotation, of the pod. Can be repeated.",
)
@since_option
@until_option
@format_option(
    "text|json", "json: one object, with all creations, including those it did not miss."
)
def command(
    file: Path,
    plugin: str | None,
    expected: Sequence[Expectation],
    since: str | None,
    until: str | None,
    output_format: str,
) -> int:
    """List pods and containers created without a plugin.

    Without --plugin: without those that the annotation required-plugins.noderesource.dev of the pod
    requires, also for one container (/container.NAME), or that --expect requires.

    Each has its evidence. NRI names plugins only to validators (`record --validate`); a tap shows
    what its own plugin got, and which replies missed their deadline. Without either, the answer is
    "unknown".

    Exit status: 0 the plugin took part in each creation; 1 it missed one, or that is unknown; 2 an
    error occurred.
    """
    import nri_scope
    from nri_scope.recording.query.event_times import times_of

    with Output() as output:
        with nri_scope.open(file) as recording:
            times = times_of(recording.reader, since, until)
            answer = answer_of(recording.reader, times, plugin, expected)
        return print_answers(output, plugin, {"": answer}, {}, output_format)
    # The reader of a pipe has closed it.
    return 0


def answer_of(
    recording: Recording,
    times: tuple[int | None, int | None],
    plugin: str | None,
    expected: Sequence[Expectation],
) -> Missed:
    """Return the creations between two times, in ns; see `creations`. Raises RecordingError."""
    from nri_scope.differ.missing_plugin import creations
    from nri_scope.recording.query.coverage import coverage

    since_ns, until_ns = times
    found = [
        creation
        for creation in creations(recording, plugin, since_ns, expected)
        if not (at_ns := creation.about.at_ns)
        or ((since_ns or 0) <= at_ns and (until_ns is None or at_ns < until_ns))
    ]
    found.sort(key=lambda creation: creation.about.at_ns)
    return Missed(found, coverage(recording, *times))


def print_answers(
    output: Output,
    plugin: str | None,
    answers: Mapping[str, Missed],
    silent: Mapping[str, str],
    output_format: str,
) -> int:
    """Print the answers by node, "" for a file, and return the exit status.

    ``silent``: nodes without an answer, with the reason.
    """
    from nri_scope.recording.reading.records import SCHEMA_VERSION, to_json

    by_node = sorted(answers.items())
    creations = [(node, creation) for node, answer in by_node for creation in answer.creations]
    without = list(_never_seen(plugin, answers))
    seen = sorted(why for *_, why in without if why != _UNKNOWN)
    if plugin is not None and seen and len(without) == len(answers):
        # Its name may be misspelt.
        say(f"{plugin} was never connected in the recorded time; {seen[0]}")
    elif plugin is None and not creations:
        say("nothing that was created requires a plugin; --plugin NAME asks about one")
    if output_format == "json":
        listed: list[Plain] = [{"node": node, **each.record()} for node, each in creations]
        coverage: dict[str, Plain] = {node: answer.coverage.record() for node, answer in by_node}
        keys = "node", "plugin_name", "evidence"
        nodes: list[Plain] = [dict(zip(keys, row, strict=True)) for row in without]
        document: dict[str, Plain] = {
            "schema_version": SCHEMA_VERSION,
            "creations": listed,
            "nodes_without": nodes,
            "coverage": coverage,
            "without_answer": {**silent},
        }
        output.line(to_json(document))
    else:
        for line in _lines(creations):
            output.line(line)
        if "" not in answers:
            rows = [*without, *((node, "?", f"no answer: {why}") for node, why in silent.items())]
            for line in table(("node", "without", "evidence"), rows, output.width) if rows else ():
                output.line(line)
        for node, each in by_node:
            if not each.coverage.is_whole:
                output.line(f"{node}: {each.coverage.words}" if node else each.coverage.words)
    is_sure = not silent and all(each.coverage.is_whole for each in answers.values())
    took_part = all(each.presence == "connected" for _, each in creations)
    return int(not (is_sure and took_part))


def _never_seen(plugin: str | None, answers: Mapping[str, Missed]) -> Iterator[tuple[str, ...]]:
    """Yield each node on which a plugin was never seen, the plugin, and which were seen."""
    for node, answer in sorted(answers.items()):
        required = {creation.plugin for creation in answer.creations} - {""}
        for name in sorted(required) if plugin is None else [plugin]:
            own = [creation for creation in answer.creations if creation.plugin == name]
            seen = sorted({title for creation in own for title in creation.plugins})
            if not any(creation.is_plugin_seen for creation in own):
                yield node, name, f"seen were {', '.join(seen)}" if seen else _UNKNOWN


def _lines(creations: list[tuple[str, Creation]]) -> Iterator[str]:
    """Yield the pods and containers that are not known to be connected, and the counts.

    Evidence follows the last of those in turn that have it in common: a table would cut the names,
    or the answer, on 80 columns.
    """
    from nri_scope.text.quantities import Days, clock, many

    def evidence(row: tuple[str, Creation]) -> str:
        by = row[1].required_by
        return row[1].evidence + (f"; required by {by}" if by else "")

    days = Days()
    others = [(node, each) for node, each in creations if each.presence != "connected"]
    for why, group in groupby(others, key=evidence):
        for node, creation in group:
            if at_ns := creation.about.at_ns:
                yield from days.turn(at_ns)
            time = clock(at_ns)[:8] if at_ns else "earlier "
            plugin = creation.plugin if creation.required_by else ""
            words = time, f"{creation.presence:7}", plugin, node, creation.name
            yield "  ".join(cell(word) for word in words if word)
        yield f"  {cell(why)}"
    if others:
        yield ""
    noun = "requirement" if any(each.required_by for _, each in creations) else "creation"
    counts = Counter(str(creation.presence) for _, creation in creations)
    each_count = (f"{counts[name]} {name}" for name in ("missing", "connected", "unknown"))
    yield f"{many(len(creations), noun)}: {', '.join(each_count)}"
