# SPDX-License-Identifier: Apache-2.0
"""The history of a container: its first state, its steps and its current spec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.specs import Spec

from .attributed_changes import ChangeStep, Evidence, PluginRequest
from .owner import RUNTIME, UNKNOWN, Owner


@dataclass(slots=True)
class History:
    """The history of a container, as far as it is known."""

    id: str
    name: str
    """``ns/pod/container``, without unknown parts."""
    base: Spec = field(default_factory=dict)
    """The spec before the first step."""
    base_owner: Owner = UNKNOWN
    """Owner of `base`; SPEC if the creation was observed from the beginning of the chain."""
    spec: Spec = field(default_factory=dict)
    """The current spec, as far as it is known."""
    steps: list[ChangeStep] = field(default_factory=list)
    """Changes in order."""
    asked: list[PluginRequest] = field(default_factory=list)
    """Requests of plugins that were not applied as requested."""
    created_event: int = 0
    """Id of the first event of the creation; 0 if the creation was not observed."""
    created_until: int = 0
    """Id of the last event of the creation."""
    created: bool = True
    """Whether evidence shows that the container was created, not only requested."""
    shown: bool = False
    """Whether an event showed the container after the whole chain."""
    failure: str = ""
    """Reason of the creation's failure; "" if no evidence shows a failure."""
    tail: Owner = RUNTIME
    """Plugins that may have changed the container after the last connection that saw the creation;
    RUNTIME if none."""
    real: Spec | None = None
    """The whole spec that was actually used, if the CRI reported it."""
    real_event: int = 0
    """Id of the event with the CRI's report."""
    doubt: str = ""
    """Reason why the outcome of the creation is unknown; "" otherwise."""
    remarks: list[str] = field(default_factory=list)
    """Limits of the evidence, in words."""

    @property
    def beginning(self) -> str:
        """Description of the creation's event; "" if the creation was not observed."""
        if not self.created_event:
            return ""
        known = self.created and not self.failure and not self.doubt
        return f"{'created by' if known else 'CreateContainer:'} event {self.created_event}"

    def add(self, steps: list[ChangeStep], spec: Spec) -> None:
        """Add steps that led to `spec`."""
        self.steps += steps
        self.spec = spec

    def ask(self, requests: Iterable[PluginRequest]) -> None:
        """Add requests that were not applied as requested, without duplicates."""
        known = {_key(one) for one in self.asked}
        self.asked += (one for one in requests if _key(one) not in known)

    def add_remark(self, text: str) -> None:
        """Add a remark, unless it is already present."""
        if text not in self.remarks:
            self.remarks.append(text)

    def owner_of(self, path: str) -> tuple[Owner, tuple[Evidence, ...], ChangeStep | None]:
        """Return the owner of the current value at `path`, the evidence, and the step.

        The step is the newest one at `path` or a parent; None if the value is part of the
        container's first state. Moves do not change values.
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
    # Values may be lists, which are not hashable.
    return one.path, one.event, one.reason, str(one.value)
