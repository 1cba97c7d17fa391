# SPDX-License-Identifier: Apache-2.0
"""What the lines of a tree look like."""

from __future__ import annotations

from nri_scope.recorder.display import clock, duration, moment
from nri_scope.recorder.model import Event, Status
from nri_scope.tui.containers.census import Census
from nri_scope.tui.containers.lives import Life, Stage, life_words
from nri_scope.tui.containers.outline import NO_POD, Level, Node
from nri_scope.tui.containers.subjects import Subject
from nri_scope.tui.store.rows import changed_in_short
from nri_scope.tui.text.styled_line import Span, Style, StyledLine
from nri_scope.tui.text.table_grid import Field, Grid

FIELDS = (
    Field("Pod / container / event", 34, grows=True, most=70),
    Field("State", 7),
    Field("Age", 6, right=True),
    Field("Events", 7, right=True),
    Field("Not ok", 6, right=True, rank=2),
    Field("Changed by", 12, grows=True, rank=1),
)
_OPEN = {True: "▾ ", False: "▸ ", None: "  "}
_STATE_STYLES = {
    Stage.STARTED: Style.GOOD,
    Stage.STOPPED: Style.WARN,
    Stage.REMOVED: Style.DIM,
}


def life_of(census: Census, node: Node) -> Life:
    """Return what became of a pod or container; nothing is known of `NO_POD`."""
    return census.containers[node.container] if node.container else census.pods[node.pod]


def node_line(
    node: Node,
    subject: Subject,
    life: Life,
    opened: bool | None,
    grid: Grid,
    now_ns: int,
) -> StyledLine:
    """Return a line of the tree. ``opened``: whether it is unfolded; None for what cannot be."""
    if node.level is Level.EVENT:
        return _event_line(subject.event, grid)
    if node.pod == NO_POD and node.level is Level.POD:
        # Nothing is known of it but that containers name none.
        return grid.line([Span(f"{_OPEN[opened]}{subject.name}"), *[Span("")] * 5])
    indent = "  " * node.level
    style = Style.STRONG if node.level is Level.POD else Style.PLAIN
    return grid.line(
        (
            Span(f"{indent}{_OPEN[opened]}{subject.name}", style),
            Span(subject.state(life), _STATE_STYLES.get(life.stage, Style.PLAIN)),
            Span(_age(life, now_ns)),
            Span(f"{life.events:,}"),
            Span(f"{life.problems:,}", Style.BAD if life.problems else Style.PLAIN),
            Span(_changed(life, subject), Style.NOTE),
        )
    )


def node_words(node: Node, subject: Subject, life: Life, now_ns: int) -> StyledLine:
    """Return what the line has no room for."""
    event = subject.event
    if event is not None:
        return (Span(f"event {event.id} at {moment(event.at_ns)}, answered by {event.plugin}"),)
    parts = [Span(subject.full_name, Style.STRONG)]
    told = life_words(life, now_ns)
    if told:
        parts.append(Span(f"  {told}"))
    if life.changed:
        parts.append(Span(f"  changed in {life.changed:,} of its events", Style.NOTE))
    return tuple(parts)


def _event_line(event: Event | None, grid: Grid) -> StyledLine:
    if event is None:
        return grid.line([Span("  (removed meanwhile)", Style.DIM), *[Span("")] * 5])
    ok = event.status == Status.OK
    return grid.line(
        (
            Span(f"  {clock(event.at_ns)} {event.event}"),
            Span(event.status, Style.PLAIN if ok else Style.BAD),
            Span(duration(event.took_ns)),
            Span(""),
            Span(""),
            Span(changed_in_short(event), Style.NOTE),
        )
    )


def _age(life: Life, now_ns: int) -> str:
    """How long it exists, or existed; ``>`` where it was there before recording began."""
    if not life.first_ns:
        return ""
    began = life.creating_ns or life.created_ns or life.started_ns
    ended = life.removed_ns or now_ns
    age = duration(max(0, ended - (began or life.first_ns)))
    return age if began else f">{age}"


def _changed(life: Life, subject: Subject) -> str:
    if subject.owners:
        return f"Δ {', '.join(subject.owners)}"
    return f"Δ {life.changed:,}" if life.changed else ""
