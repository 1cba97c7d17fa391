# SPDX-License-Identifier: Apache-2.0
"""Outcome of one event on an emulated runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.merging import Creation, Dropped, IsuladCreation, Stopping, Updating

from .answer import Answer
from .dispatch_rules import DispatchRules

Merged = Creation | IsuladCreation | Updating | Stopping
"""The merged replies to one event whose replies may request changes."""


@dataclass(slots=True)
class Outcome:
    """Outcome of one operation."""

    event: Event
    answers: list[Answer] = field(default_factory=list)
    """Answers of the plugins that were asked, in order, with the request sent to each."""
    validations: list[Answer] = field(default_factory=list)
    """Answers of the validators that were asked, concurrently, after the chain of CreateContainer;
    in chain order."""
    failure: str = ""
    """Why the CRI request fails, as the runtime words it; "" if it does not."""
    error: str = ""
    """An error that the runtime only logs, as it words it; "" if none."""
    culprit: str = ""
    """The plugin (``NN-name``) whose answer caused `failure` or `error`."""
    refused: bool = False
    """Whether the culprit's reply was valid as such, but could not be merged."""
    merged: Merged | None = None
    """The merged replies to CreateContainer, UpdateContainer or StopContainer. After a failure it
    has the replies before the failure, which are not applied."""
    skipped: str = ""
    """Why this runtime did not send the event; "" if it did."""

    def fail(self, rules: DispatchRules, words: str) -> None:
        """End the operation with an error, which fails the CRI request or is only logged."""
        prefix = rules.failure_prefixes.get(self.event)
        if prefix is None:
            self.error = words
        else:
            self.failure = prefix + words

    @property
    def lost(self) -> bool:
        """Whether a plugin was disconnected because of its answer."""
        return any(answer.dropped for answer in (*self.answers, *self.validations))

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """The updates of other containers, in order; none after a failure or an error."""
        if self.merged is None or self.failure or self.error:
            return []
        return list(self.merged.updates)

    @property
    def dropped(self) -> list[Dropped]:
        """All changes that were requested, and that this runtime dropped."""
        return list(self.merged.dropped) if self.merged is not None else []

    @property
    def request(self) -> Message | None:
        """The request to the first plugin; None if no plugin was asked."""
        return self.answers[0].request if self.answers else None
