# SPDX-License-Identifier: Apache-2.0
"""The remarks on a line: the previous value, and the fate of requests."""

from __future__ import annotations

from nri_scope.text.yaml_text import inline

from ..attribution.attributed_changes import Applied, ChangeStep
from ..attribution.steps_by_path import Newest
from ..render import wording
from ..render.values import move
from .spec_lines import Node


class Remarks:
    """Source of the remarks on lines."""

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
            found.append(move(moved.change))
            found += _fate(moved, there=True)
        return tuple(found)

    def _past(self, step: ChangeStep) -> list[str]:
        change = step.change
        before = self._newest.before(step)
        match change.kind:
            case "changed" if before is not None:
                return [f"was {inline(change.before)} {wording.by(before.owner)}"]
            case "changed":
                return [f"was {inline(change.before)}"]
            case "added" if before is not None and before.change.kind == "removed":
                was = inline(before.change.before)
                return [f"was {was}, which was removed {wording.by(before.owner)}"]
            case "removed" if before is not None:
                return [f"set {wording.by(before.owner)}"]
        return []


def is_overruled(asked: ChangeStep | None) -> bool:
    """Return whether the CRI reported a value other than the requested one."""
    return asked is not None and asked.applied in (Applied.NO, Applied.DIFFERENTLY)


def _fate(step: ChangeStep, *, there: bool) -> list[str]:
    match step.applied:
        case Applied.NO:
            return ["not applied"]
        case Applied.DIFFERENTLY if there and step.change.kind == "removed":
            return ["applied differently: removal was requested"]
        case Applied.DIFFERENTLY if there:
            return [f"applied differently: {inline(step.change.after)} was requested"]
        case Applied.DIFFERENTLY:
            return ["applied differently"]
    if there or step.change.kind == "removed":
        return []
    if step.change.path.startswith("/cdiDevices/"):
        # The spec contains the device's edits; the step's note describes them.
        return ["resolved by the runtime"]
    return ["not in the runtime's spec"]


def _overruled(step: ChangeStep) -> str:
    who = wording.owner(step.owner)
    match step.change.kind:
        case "removed":
            return f"{who} requested removal: {step.applied}"
        case _:
            return f"{who} requested {inline(step.change.after)}: {step.applied}"
