# SPDX-License-Identifier: Apache-2.0
"""Collect changed containers, each with its changes and their owners."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence, NameOf, RoundDiff
from nri_scope.differ.attribution.rounds import CONTAINER_STATUS, CREATE
from nri_scope.differ.render import wording
from nri_scope.differ.render.legend import Legend
from nri_scope.differ.render.values import clipped, clipped_pair, place, sides
from nri_scope.specs import label

from .limits import CONTAINERS_MAX, STEPS_MAX, STEPS_OF_ONE_MAX, TRACKED_MAX, VALUE_MAX, WORDS_MAX
from .report_data import Changed, Row

_Key = tuple[str, int, tuple[Evidence, ...]]


@dataclass(slots=True)
class _Container:
    name: str
    created: int = 0
    failure: str = ""
    rows: dict[_Key, Row] = field(default_factory=dict)
    requests: dict[tuple[str, str], None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    in_all: int = 0


class Changes:
    """Collector of the first changes of rounds, as text of limited length."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self._found: dict[str, _Container] = {}
        self._skipped: set[str] = set()
        self._legend = Legend()
        self._kept = 0
        self.rows = 0
        """Number of changes, including omitted ones."""

    @property
    def containers(self) -> int:
        """Number of changed containers, including omitted ones."""
        return len(self._found) + len(self._skipped)

    @property
    def kept(self) -> tuple[int, int]:
        """Numbers of included containers and changes."""
        return len(self._found), self._kept

    def round(self, diff: RoundDiff) -> None:
        """Process the changes of a round, and the outcome of earlier changes."""
        fresh = set(diff.events)
        for step in diff.steps:
            if step.event in fresh:
                self._add(step)
            else:
                self._judge(step)
        # Skip requests whose reason is the note of a change.
        for asked in wording.unnoted(diff.asked, diff.steps):
            found = self._of(asked.container)
            if found is not None and len(found.requests) < STEPS_OF_ONE_MAX:
                self._legend.add(asked.owner, (asked.evidence,))
                sentence = clipped(wording.request(asked), WORDS_MAX)
                found.requests[wording.FATES[asked.fate], sentence] = None
        if diff.name == CONTAINER_STATUS and diff.failure:
            found = self._of(diff.container)
            if found is not None and len(found.remarks) < STEPS_OF_ONE_MAX:
                found.remarks[clipped(diff.failure, WORDS_MAX)] = None
        if diff.name != CREATE or not diff.container:
            return
        matters = diff.failure or diff.doubt
        found = self._of(diff.container) if matters else self._found.get(diff.container)
        if found is not None:
            if diff.created:
                found.created = found.created or diff.event
            found.failure = clipped(diff.failure, WORDS_MAX)
            if len(found.remarks) < STEPS_OF_ONE_MAX:
                remarks = (*filter(None, [diff.doubt]), *diff.remarks)
                found.remarks.update(dict.fromkeys(clipped(one, WORDS_MAX) for one in remarks))

    def result(self) -> tuple[Changed, ...]:
        """Return the containers in the order of their first changes."""
        return tuple(
            Changed(
                key,
                one.name,
                one.created,
                one.failure,
                tuple(one.rows.values()),
                tuple(one.requests),
                one.in_all,
                tuple(one.remarks),
            )
            for key, one in self._found.items()
        )

    def legend(self) -> tuple[str, ...]:
        """Return the explanations of owners and evidence."""
        return tuple(self._legend.lines())

    def _of(self, container: str) -> _Container | None:
        """Return the container; None beyond the limit."""
        found = self._found.get(container)
        if found is None and container not in self._skipped:
            if len(self._found) >= CONTAINERS_MAX or self._kept >= STEPS_MAX:
                if len(self._skipped) < TRACKED_MAX:
                    self._skipped.add(container)
            else:
                found = self._found[container] = _Container(self._name_of(container))
        return found

    def _add(self, step: ChangeStep) -> None:
        self.rows += 1
        found = self._of(step.container)
        if found is None:
            return
        found.in_all += 1
        if len(found.rows) >= STEPS_OF_ONE_MAX or self._kept >= STEPS_MAX:
            return
        key = step.change.path, step.event, step.evidence
        self._kept += key not in found.rows
        found.rows[key] = _row(step)
        self._legend.add(step.owner, step.evidence)
        for other in step.disputed:
            self._legend.add(other.owner, (other.evidence,))

    def _judge(self, step: ChangeStep) -> None:
        """Update the row of an earlier step with its outcome."""
        key = step.change.path, step.event, step.evidence
        found = self._found.get(step.container)
        if found is not None and key in found.rows:
            found.rows[key] = _row(step)
            self._legend.add(step.owner, step.evidence)


def _row(step: ChangeStep) -> Row:
    change = step.change
    before, after = clipped_pair(*sides(change), VALUE_MAX)
    if change.kind == "added" and change.at is not None:
        after = f"{after} (as the {place(change.at)})"
    trouble = [
        text.removeprefix("! ")
        for weight, text in wording.details(step)
        if weight is not wording.DetailWeight.REMARK
    ]
    return Row(
        step.event,
        change.kind,
        clipped(label(change.path), WORDS_MAX),
        before,
        after,
        _by(step),
        wording.sources(step.evidence),
        clipped("; ".join(trouble), VALUE_MAX),
        clipped(step.note, VALUE_MAX),
    )


def _by(step: ChangeStep) -> str:
    who = clipped(wording.owner(step.owner), WORDS_MAX)
    return f"{who}, {step.applied}" if step.applied else who
