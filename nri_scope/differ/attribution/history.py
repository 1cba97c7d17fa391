# SPDX-License-Identifier: Apache-2.0
"""A container from the first thing known of it to the last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.oci import Spec

from .model import Asked, ChangeStep, Evidence
from .owner import RUNTIME, UNKNOWN, Owner


@dataclass(slots=True)
class History:
    """A container from the first thing known of it to the last."""

    id: str
    name: str
    """``ns/pod/container``, without what is not known."""
    base: Spec = field(default_factory=dict)
    """As it was before the first step."""
    base_owner: Owner = UNKNOWN
    """RUNTIME where its creation was seen from the beginning of the chain."""
    spec: Spec = field(default_factory=dict)
    """As it is now, with what is known."""
    steps: list[ChangeStep] = field(default_factory=list)
    """In order."""
    asked: list[Asked] = field(default_factory=list)
    """What plugins asked for and was not simply carried out."""
    created_event: int = 0
    """The first event of its creation; 0: it was there before, or its creation was not seen."""
    created_until: int = 0
    """The last event of its creation."""
    created: bool = True
    """Whether it is known to have been created, rather than that this was asked for."""
    failure: str = ""
    """Why its creation failed; "" where it is not known to have failed."""
    tail: Owner = RUNTIME
    """Who may have changed it after the last connection that saw its creation; RUNTIME if no
    plugin."""
    real: Spec | None = None
    """The whole spec that was really used, where the CRI sent it."""
    real_event: int = 0
    """The event by which the CRI told."""
    doubt: str = ""
    """Why it is not known whether it was created; "" where that is known, or not asked."""
    remarks: list[str] = field(default_factory=list)
    """What limits the evidence, in words."""

    @property
    def beginning(self) -> str:
        """Which event it begins with, in words; "" where that was not seen."""
        if not self.created_event:
            return ""
        known = self.created and not self.failure and not self.doubt
        return f"{'created by' if known else 'CreateContainer:'} event {self.created_event}"

    def add(self, steps: list[ChangeStep], spec: Spec) -> None:
        """Add steps that led to `spec`."""
        self.steps += steps
        self.spec = spec

    def ask(self, requests: Iterable[Asked]) -> None:
        """Add requests that were not simply carried out, each of them once."""
        known = {_key(one) for one in self.asked}
        self.asked += (one for one in requests if _key(one) not in known)

    def remark(self, text: str) -> None:
        """Add a remark, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def owner_of(self, path: str) -> tuple[Owner, tuple[Evidence, ...], ChangeStep | None]:
        """Return who made one line of the present spec, how that is known, and the step.

        That is the newest step at `path` or at what it is a part of; without one the line is what
        the container began with. Moves change no line.
        """
        for step in reversed(self.steps):
            change = step.change
            if change.kind == "moved":
                continue
            if path == change.path or path.startswith(f"{change.path}/"):
                return step.owner, step.evidence, step
        return self.base_owner, (), None

    def of(self, path: str) -> list[ChangeStep]:
        """Return all steps at `path`, at its parents, and at its parts; in order."""
        below = f"{path}/"
        return [
            step
            for step in self.steps
            if step.change.path == path
            or step.change.path.startswith(below)
            or path.startswith(f"{step.change.path}/")
        ]


def _key(one: Asked) -> tuple[str, int, str, str]:
    # Values may be lists, which no set can have.
    return one.path, one.event, one.reason, str(one.value)
