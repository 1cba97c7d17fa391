# SPDX-License-Identifier: Apache-2.0
"""The outcome of one event on an emulated runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.merging import Creation, Dropped, Stopping, Updating

from .answer import Answer
from .dispatch_rules import DispatchRules

Merged = Creation | Updating | Stopping
"""The merged replies to one request that lets plugins ask for changes."""


@dataclass(slots=True)
class Outcome:
    """The outcome of one operation."""

    event: Event
    answers: list[Answer] = field(default_factory=list)
    """Answers of the plugins that were asked, in order, with the request sent to each."""
    validations: list[Answer] = field(default_factory=list)
    """Answers of the validators that were asked after the chain of CreateContainer, in the order
    of the chain, although they are asked at once."""
    failure: str = ""
    """Why the CRI request fails, in the runtime's words; "" if it does not."""
    error: str = ""
    """An error that the runtime only logs, in its words; "" if none."""
    culprit: str = ""
    """The plugin (``NN-name``) whose answer caused `failure` or `error`."""
    refused: bool = False
    """Whether the culprit's reply was valid as such, but could not be merged."""
    merged: Merged | None = None
    """The merged replies to CreateContainer, UpdateContainer or StopContainer. After a failure:
    the replies before it, of which nothing is applied."""
    skipped: str = ""
    """Why this runtime never sends the event, so no plugin was asked; "" if it does."""
    left_out: list[Dropped] = field(default_factory=list)
    """Requests dropped before merging because this runtime ignores their fields."""

    def fail(self, rules: DispatchRules, words: str) -> None:
        """End the operation with an error, which fails the CRI request or is only logged."""
        prefix = rules.failure_prefixes.get(self.event)
        if prefix is None:
            self.error = words
        else:
            self.failure = prefix + words

    @property
    def lost(self) -> bool:
        """Whether any plugin was dropped for its answer."""
        return any(answer.dropped for answer in (*self.answers, *self.validations))

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """The updates of other containers, in order; none after a failure or an error."""
        if self.merged is None or self.failure or self.error:
            return []
        return list(self.merged.updates)

    @property
    def dropped(self) -> list[Dropped]:
        """Everything that was requested and dropped by this runtime."""
        return [*self.left_out, *(self.merged.dropped if self.merged is not None else ())]

    @property
    def request(self) -> Message | None:
        """The request to the first plugin; None if no plugin was asked."""
        return self.answers[0].request if self.answers else None
