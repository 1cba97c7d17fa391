# SPDX-License-Identifier: Apache-2.0
"""The outcome of one event on an emulated runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.merging import Creation, Dropped, Stopping, Updating

from .answer import Answer
from .runtime_behaviour import Conduct

Merged = Creation | Updating | Stopping
"""The replies to one request that asks for something, merged."""


@dataclass(slots=True)
class Outcome:
    """The outcome of one operation."""

    event: Event
    answers: list[Answer] = field(default_factory=list)
    """Of the plugins that were asked, in order; with what each of them was sent."""
    validations: list[Answer] = field(default_factory=list)
    """Of the validators that were asked after the chain of CreateContainer, in the chain's order:
    all of them are asked at once."""
    failure: str = ""
    """Why the CRI request fails, in the runtime's words; "" where it does not."""
    error: str = ""
    """What the runtime only logs, in its words; "" where there is nothing."""
    culprit: str = ""
    """The plugin (``NN-name``) whose answer caused `failure` or `error`."""
    refused: bool = False
    """The culprit's reply was fine by itself, and what it asks for cannot be merged."""
    merged: Merged | None = None
    """For CreateContainer, UpdateContainer and StopContainer: what the replies come to. After a
    failure it holds what came before, and nothing of it is done."""
    skipped: str = ""
    """Why this runtime never sends the event, so no plugin was asked; "" where it does."""
    left_out: list[Dropped] = field(default_factory=list)
    """Asked for, and dropped before merging: what this runtime has no use for."""

    def fail(self, conduct: Conduct, words: str) -> None:
        """End the operation with an error, which fails the CRI request or is only logged."""
        prefix = conduct.failing.get(self.event)
        if prefix is None:
            self.error = words
        else:
            self.failure = prefix + words

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
        """The request to the first plugin; None where none was asked."""
        return self.answers[0].request if self.answers else None
