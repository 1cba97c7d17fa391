# SPDX-License-Identifier: Apache-2.0
"""The known history of a container, from the first event to the last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.oci import Spec

from .attributed_changes import ChangeStep, Evidence, PluginRequest
from .owner import RUNTIME, UNKNOWN, Owner


@dataclass(slots=True)
class History:
    """The known history of a container, from the first event to the last."""

    id: str
    name: str
    """``ns/pod/container``, without unknown parts."""
    base: Spec = field(default_factory=dict)
    """The spec before the first step."""
    base_owner: Owner = UNKNOWN
    """Owner of `base`: RUNTIME if the creation was seen from the beginning of the chain."""
    spec: Spec = field(default_factory=dict)
    """The current spec, as far as it is known."""
    steps: list[ChangeStep] = field(default_factory=list)
    """The changes, in order."""
    asked: list[PluginRequest] = field(default_factory=list)
    """Requests of plugins that were not simply carried out."""
    created_event: int = 0
    """The first event of the creation; 0 if that was before all events, or not seen."""
    created_until: int = 0
    """The last event of the creation."""
    created: bool = True
    """Whether the container is known to have been created, not merely requested."""
    shown: bool = False
    """Whether an event showed the container as the whole chain had made it."""
    failure: str = ""
    """Why the creation failed; "" if it is not known to have failed."""
    tail: Owner = RUNTIME
    """Plugins that may have changed the container after the last connection that saw the creation;
    RUNTIME if none."""
    real: Spec | None = None
    """The whole spec that was actually used, if the CRI reported it."""
    real_event: int = 0
    """The event with which the CRI reported it."""
    doubt: str = ""
    """Why it is not known whether the container was created; "" if known, or not asked for."""
    remarks: list[str] = field(default_factory=list)
    """Limits of the evidence, in words."""

    @property
    def beginning(self) -> str:
        """The event that the history begins with, in words; "" if that was not seen."""
        if not self.created_event:
            return ""
        known = self.created and not self.failure and not self.doubt
        return f"{'created by' if known else 'CreateContainer:'} event {self.created_event}"

    def add(self, steps: list[ChangeStep], spec: Spec) -> None:
        """Add steps that led to `spec`."""
        self.steps += steps
        self.spec = spec

    def ask(self, requests: Iterable[PluginRequest]) -> None:
        """Add requests that were not simply carried out, each once."""
        known = {_key(one) for one in self.asked}
        self.asked += (one for one in requests if _key(one) not in known)

    def add_remark(self, text: str) -> None:
        """Add a remark, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def owner_of(self, path: str) -> tuple[Owner, tuple[Evidence, ...], ChangeStep | None]:
        """Return the owner of one line of the current spec, the evidence for that, and the step.

        The step is the newest one at `path` or a parent; without one the line is part of the
        container's first state. Moves do not change lines.
        """
        for step in reversed(self.steps):
            change = step.change
            if change.kind == "moved":
                continue
            if path == change.path or path.startswith(f"{change.path}/"):
                return step.owner, step.evidence, step
        return self.base_owner, (), None

    def of(self, path: str) -> list[ChangeStep]:
        """Return all steps at `path`, its parents and its parts, in order."""
        below = f"{path}/"
        return [
            step
            for step in self.steps
            if step.change.path == path
            or step.change.path.startswith(below)
            or path.startswith(f"{step.change.path}/")
        ]


def _key(one: PluginRequest) -> tuple[str, int, str, str]:
    # Values may be lists, which cannot be members of a set.
    return one.path, one.event, one.reason, str(one.value)
