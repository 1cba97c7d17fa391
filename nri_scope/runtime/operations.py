# SPDX-License-Identifier: Apache-2.0
"""Execution of one event: the chain, merging of replies, and validation.

Follows the NRI library (``pkg/adaptation`` of NRI 0.6.1 to 0.12.5); `DispatchRules` has the
differences in the runtimes' own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.events import Event
from nri_scope.nri.merging import Creation, IsuladCreation, Updating
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.oci.runtime_rules import runtime_rules_of

from .answer import Answer
from .error_wording import go_wording
from .outcome import Merged, Outcome
from .plugin import Plugin
from .plugin_chain import Chain, request_for
from .profile import Profile

Reply = api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse
"""A reply that may request changes."""


def merging_of(profile: Profile, event: Event) -> Callable[..., Merged] | None:
    """Return the merging of an event's replies; None if they cannot request changes.

    (The reply to UpdatePodSandbox is ignored.)
    """
    rules = runtime_rules_of(profile.runtime_name)
    kinds: dict[Event, Callable[..., Merged]] = {
        Event.CreateContainer: rules.creation,
        Event.UpdateContainer: Updating,
        Event.StopContainer: rules.stopping,
    }
    return kinds.get(event)


class Operation:
    """One event and its chain, for a single use."""

    def __init__(
        self, chain: Chain, profile: Profile, event: Event, request: Message, timeout_ns: int
    ) -> None:
        """Prepare ``request``, the event's own request message; it is not changed."""
        self._chain = chain
        self._profile = profile
        self._rules = profile.dispatch_rules
        self._event = event
        self._request = profile.lifecycle_rules.adapted(event, request)
        """The request as plugins get it, without the adjustments of other plugins."""
        # If plugins do not see adjustments, they do not see the merged container: it keeps its id.
        self._merged_into = self._request if self._rules.shows_adjustments else request
        self._timeout_ns = timeout_ns
        self.outcome = Outcome(event)

    async def perform(self) -> Outcome:
        """Ask every plugin that subscribes to the event, in order."""
        outcome, event = self.outcome, self._event
        outcome.skipped = self._profile.skip_reason(event)
        if event is Event.ValidateContainerAdjustment:
            outcome.skipped = "it is sent as part of CreateContainer, with the replies merged here"
        if outcome.skipped:
            return outcome
        merging = merging_of(self._profile, event)
        if merging is not None:
            outcome.merged = merging(self._merged_into, version=self._profile.version)
        async with self._chain.lock:
            plugins = self._chain.plugins
            await self._ask_in_turn(plugins)
            if not outcome.failure:
                self._check_merged()
            if event is Event.CreateContainer and not outcome.failure:
                await self._validate(plugins)
        return outcome

    # -- the chain ----------------------------------------------------------------------------

    async def _ask_in_turn(self, plugins: Sequence[Plugin]) -> None:
        sent: tuple[str, bytes] | None = None
        for plugin in plugins:
            if not plugin.subscribes(self._event) or plugin.link.closed:
                continue
            sent = sent or self._to_send()
            answer = await self._ask(plugin, *sent)
            self.outcome.answers.append(answer)
            if answer.stops_chain and answer.error is not None:
                words = go_wording(answer.error)
                if answer.is_missing:
                    name = self._event.name
                    words = f"plugin {plugin.id} failed to handle {name} request: {words}"
                self._fail(plugin.id, words)
                return
            if self.outcome.merged is None or answer.reply is None:
                continue
            if not self._merge(cast("Reply", answer.reply), plugin.id):
                return
            if self._rules.shows_adjustments:
                sent = None

    def _to_send(self) -> tuple[str, bytes]:
        """Return the method and payload for the next plugin."""
        request = self._request
        if self.outcome.merged is not None and self._rules.shows_adjustments:
            request = self.outcome.merged.request
        return request_for(self._event, request, dedicated=self._profile.dedicated_rpcs)

    async def _ask(self, plugin: Plugin, method: str, payload: bytes) -> Answer:
        answer = await plugin.deliver(
            method, payload, event=self._event, timeout_ns=self._timeout_ns
        )
        if self._rules.closes_on_error and answer.stops_chain:
            plugin.drop(f"{self._profile.title} closes the connection on any error: {answer.error}")
            answer = replace(answer, closed=True)
        return answer

    def _fail(self, plugin: str, words: str, *, refused: bool = False) -> None:
        """End the operation with an error, which may or may not fail the CRI request."""
        self.outcome.culprit, self.outcome.refused = plugin, refused
        self.outcome.fail(self._rules, words)

    # -- merging ------------------------------------------------------------------------------

    def _merge(self, reply: Reply, plugin: str) -> bool:
        """Merge a plugin's reply; return False if it ends the operation."""
        try:
            # The type of the reply belongs to that of the merging.
            cast("Any", self.outcome.merged).apply(reply, plugin)
        except AdjustmentRefused as refused:
            self._fail(plugin, str(refused), refused=True)
            return False
        return True

    def _check_merged(self) -> None:
        """Fail a creation whose merged replies iSulad cannot apply, and any of its updates."""
        merged = self.outcome.merged
        if isinstance(merged, IsuladCreation):
            failure, plugin = merged.failure
            if failure:
                self._fail(plugin, failure, refused=True)
        elif (
            isinstance(merged, Updating)
            and self.outcome.answers
            and runtime_rules_of(self._profile.runtime_name).update_crash
        ):
            self.outcome.error = UPDATE_EVENT_CRASH

    # -- validation ---------------------------------------------------------------------------

    async def _validate(self, plugins: Sequence[Plugin]) -> None:
        """Ask all validators concurrently; any error or rejection fails the creation.

        Up to NRI 0.12.4 they include validators that were lost in the chain, and so fail it. If
        several fail, a real runtime reports the first answer to arrive; here it is the first in
        chain order.
        """
        event, creation = Event.ValidateContainerAdjustment, self.outcome.merged
        validators = [
            plugin
            for plugin in plugins
            if plugin.subscribes(event)
            and (self._profile.asks_lost_validators or not plugin.link.closed)
        ]
        if not self._profile.mask & event.bit or not validators:
            return
        assert isinstance(creation, Creation)
        instances = [api.PluginInstance(name=one.name, index=one.index) for one in plugins]
        payload = creation.validation(instances).SerializeToString()
        self.outcome.validations = await asyncio.gather(
            *(
                validator.deliver(event.name, payload, event=event, timeout_ns=self._timeout_ns)
                for validator in validators
            )
        )
        for answer in self.outcome.validations:
            reply = answer.reply
            if answer.error is not None:
                words = f"validator plugin {answer.plugin} failed: {go_wording(answer.error)}"
                self._fail(answer.plugin, words)
                return
            if isinstance(reply, api.ValidateContainerAdjustmentResponse) and reply.reject:
                reason = reply.reason or "unknown rejection reason"
                self._fail(
                    answer.plugin,
                    f'validator "{answer.plugin}" rejected container adjustment, reason: {reason}',
                    refused=True,
                )
                return
