# SPDX-License-Identifier: Apache-2.0
"""The remarks beside a line: the former value, and the fate of requests."""

from __future__ import annotations

from nri_scope.oci import Json
from nri_scope.text.yaml_text import inline

from ..attribution.attributed_changes import Applied, ChangeStep
from ..attribution.steps_by_path import Newest
from ..render import wording
from ..render.values import place
from .spec_lines import Node

_VALUE_MAX = 1_000
"""Maximum number of characters of a value within a remark; `--history` and JSON have all of it."""


class Remarks:
    """Makes the remarks of lines."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest

    def of(self, node: Node, step: ChangeStep | None, moved: ChangeStep | None) -> tuple[str, ...]:
        """Return short remarks, the most important first. Not escaped."""
        found: list[str] = []
        asked = self._newest.exactly(node.path)
        if asked is not None and asked is not step and is_overruled(asked):
            found.append(_overruled(asked))
        elif asked is not None and asked is step:
            if node.there or asked.change.kind == "removed":
                found += self._past(asked)
            found += _fate(asked, there=node.there)
            found += (wording.claim(claim, asked) for claim in asked.disputed)
            if asked.note:
                found.append(asked.note)
        if moved is not None:
            found.append(
                f"moved from the {place(moved.change.before)} place to the "
                f"{place(moved.change.after)}"
            )
            found += _fate(moved, there=True)
        return tuple(found)

    def _past(self, step: ChangeStep) -> list[str]:
        change = step.change
        before = self._newest.before(step)
        match change.kind:
            case "changed" if before is not None:
                return [f"was {_shown(change.before)} {wording.by(before.owner)}"]
            case "changed":
                return [f"was {_shown(change.before)}"]
            case "added" if before is not None and before.change.kind == "removed":
                was = _shown(before.change.before)
                return [f"was {was}, which was removed {wording.by(before.owner)}"]
            case "removed" if before is not None:
                return [f"set {wording.by(before.owner)}"]
        return []


def is_overruled(asked: ChangeStep | None) -> bool:
    """Return whether a line has another value than the one requested for it, by the CRI."""
    return asked is not None and asked.applied in (Applied.NO, Applied.DIFFERENTLY)


def _fate(step: ChangeStep, *, there: bool) -> list[str]:
    match step.applied:
        case Applied.NO:
            return ["not applied"]
        case Applied.DIFFERENTLY if there and step.change.kind == "removed":
            return ["applied differently: its removal was asked for"]
        case Applied.DIFFERENTLY if there:
            return [f"applied differently: {_shown(step.change.after)} was asked for"]
        case Applied.DIFFERENTLY:
            return ["applied differently"]
    if there or step.change.kind == "removed":
        return []
    if step.change.path.startswith("/cdiDevices/"):
        # The step's note describes it; the spec has the devices' edits.
        return ["resolved by the runtime"]
    return ["the runtime's spec has no such thing"]


def _overruled(step: ChangeStep) -> str:
    who = wording.owner(step.owner)
    match step.change.kind:
        case "removed":
            return f"{who} asked to remove it: {step.applied}"
        case _:
            return f"{who} asked for {_shown(step.change.after)}: {step.applied}"


def _shown(value: Json) -> str:
    text = inline(value)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
