# SPDX-License-Identifier: Apache-2.0
"""Execution of one event: the chain of plugins, merging of replies, and validation.

Follows the NRI library (``pkg/adaptation`` of NRI 0.6.1 to 0.12.5); `DispatchRules` has the
differences in the runtimes' own code.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.nri.api_pb2 import StateChangeEvent
from nri_scope.errors import (
    AdjustmentRefused,
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RpcError,
    RuntimeKilled,
)
from nri_scope.nri import merging
from nri_scope.nri.events import METHODS, STATE_CHANGE_EVENTS, EventKind
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.nri.versions import asks_closed_validators
from nri_scope.oci.isulad_spec import MachineCpus, creation_refusal
from nri_scope.oci.remarks import remarks
from nri_scope.oci.runtime_rules import RuntimeRules, runtime_rules_of
from nri_scope.wire import Code

from .answer import Answer
from .lifecycle import as_state_change
from .plugin import Plugin
from .profile import Profile
from .rules import DispatchRules


class Chain:
    """The plugins that get events, in the order of their indices.

    `send` asks one plugin after the other, even for ValidateContainerAdjustment. `operations` adds
    the rules of real runtimes for events and answers.
    """

    def __init__(self, *, by_name: bool = False) -> None:
        """Create an empty chain; ``by_name`` orders plugins by name."""
        self._by_name = by_name
        self.lock = asyncio.Lock()
        """Held while a request passes through the chain, from the first plugin to the last."""
        self.registered: list[Plugin] = []
        """The plugins in order, also those closed since the last request or registration: only at
        the end of either, runtimes remove them."""

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The connected plugins, in the order in which they are asked."""
        return tuple(plugin for plugin in self.registered if not plugin.link.closed)

    def add(self, plugin: Plugin) -> None:
        """Add a plugin; equal indices keep the order of arrival (undefined in real runtimes)."""
        self.registered.append(plugin)
        self.registered.sort(key=lambda plugin: plugin.name if self._by_name else plugin.index)
        self.remove_closed()

    def remove_closed(self) -> None:
        """Remove closed plugins, at the end of a request or registration."""
        self.registered = list(self.plugins)

    async def send(
        self,
        method: str,
        payload: bytes,
        event: EventKind | None,
        timeout_ns: int,
        *,
        only: str = "",
        ignore_errors: bool = False,
    ) -> list[Answer]:
        """Send a request to every subscriber of ``event``, each with its own deadline.

        ``only`` restricts it to one plugin (``NN-name``). A plugin that disconnects or misses its
        deadline is dropped, and the next one is asked. An error status ends the chain, as the last
        answer, unless ``ignore_errors`` is set.
        """
        answers: list[Answer] = []
        async with self.lock:
            for plugin in self.plugins:
                if not plugin.subscribes(event) or only not in ("", plugin.id):
                    continue
                answer = await plugin.deliver(method, payload, event=event, timeout_ns=timeout_ns)
                answers.append(answer)
                if answer.stops_chain and not ignore_errors:
                    break
            self.remove_closed()
        return answers


def request_for(event: EventKind, request: Message, *, dedicated: bool) -> tuple[str, bytes]:
    """Return method and payload for ``event``, whose own request message is ``request``."""
    expected = METHODS[event.name].request
    if not isinstance(request, expected):
        raise TypeError(f"{event.name} takes {expected.__name__}, not {type(request).__name__}")
    if dedicated or event not in STATE_CHANGE_EVENTS:
        return event.name, request.SerializeToString()
    return "StateChange", as_state_change(event, request)


def event_of(method: str, payload: bytes) -> EventKind | None:
    """Return the event of a request; None for requests without a known event."""
    if method != "StateChange":
        rpc = METHODS.get(method)
        return None if rpc is None else rpc.event
    try:
        return EventKind(StateChangeEvent.FromString(payload).event)
    except (DecodeError, ValueError):
        return None


Merged = (
    merging.CreationMerging | merging.IsuladCreation | merging.UpdateMerging | merging.StopMerging
)
"""The merged replies to one event whose replies may request changes."""


@dataclass(slots=True)
class OperationResult:
    """Outcome of one operation."""

    event: EventKind
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
    killed: bool = False
    """Whether the runtime would not survive the event or the culprit's answer."""
    merged: Merged | None = None
    """The merged replies to CreateContainer, UpdateContainer or StopContainer. After a failure it
    has the replies before the failure, which are not applied."""
    skipped: str = ""
    """Why this runtime did not send the event; "" if it did."""

    def fail(self, rules: DispatchRules, problem: str) -> None:
        """End the operation with an error, which fails the CRI request or is only logged."""
        prefix = rules.failure_prefixes.get(self.event)
        if prefix is None:
            self.error = problem
        else:
            self.failure = prefix + problem

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
    def dropped(self) -> list[merging.Dropped]:
        """All changes that were requested, and that this runtime dropped."""
        return list(self.merged.dropped) if self.merged is not None else []


_GO_NAMES: dict[int, str] = {code: code.name.title().replace("_", "") for code in Code}
_GO_NAMES |= {Code.OK: "OK", Code.CANCELLED: "Canceled"}


def go_wording(error: NriScopeError) -> str:
    """Return the text that Go's ttRPC client has for ``error``, raised by a call to a plugin."""
    match error:
        case RpcError(code=code, message=message):
            return f"rpc error: code = {_GO_NAMES.get(code, f'Code({code})')} desc = {message}"
        case DeadlineExceeded():
            return "context deadline exceeded"
        case ConnectionClosed():
            return "ttrpc: closed"
        case _:
            return str(error)


Reply = api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse
"""A reply that may request changes."""


def merging_of(profile: Profile, event: EventKind) -> Callable[..., Merged] | None:
    """Return the merging of an event's replies; None if they cannot request changes.

    (The reply to UpdatePodSandbox is ignored.)
    """
    rules = runtime_rules_of(profile.runtime_name)
    kinds: dict[EventKind, Callable[..., Merged]] = {
        EventKind.CreateContainer: rules.creation,
        EventKind.UpdateContainer: merging.UpdateMerging,
        EventKind.StopContainer: rules.stopping,
    }
    return kinds.get(event)


def _refusal(adjustment: api.ContainerAdjustment, rules: RuntimeRules) -> str:
    """Return the runtime's error about an adjustment; "" for none that the adjustment shows."""
    refused = (each for each in remarks(adjustment, rules=rules) if each.kind == "refused")
    return (
        "" if rules.refusals is None else rules.refusals.error_of(each.reason for each in refused)
    )


@cache
def _this_machine() -> MachineCpus | None:
    """Return the CPUs and memory nodes of this machine; None if the kernel does not list CPUs."""
    lists = ["", "0"]
    for number, kind in enumerate(("cpu", "node")):
        # A kernel without NUMA lists no nodes.
        with contextlib.suppress(OSError, ValueError):
            path = Path(f"/sys/devices/system/{kind}/online")
            lists[number] = path.read_text(encoding="ascii").strip()
    return MachineCpus(*lists) if lists[0] else None


class Dispatch:
    """One event and its chain, for a single use."""

    def __init__(
        self, chain: Chain, profile: Profile, event: EventKind, request: Message, timeout_ns: int
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
        self.outcome = OperationResult(event)

    async def perform(self) -> OperationResult:
        """Ask every plugin that subscribes to the event, in order."""
        outcome, event = self.outcome, self._event
        outcome.skipped = self._profile.skip_reason(event)
        if event is EventKind.ValidateContainerAdjustment:
            outcome.skipped = "it is sent as part of CreateContainer, with the replies merged here"
        if outcome.skipped:
            return outcome
        new_merging = merging_of(self._profile, event)
        if new_merging is not None:
            outcome.merged = new_merging(self._merged_into, version=self._profile.version)
        async with self._chain.lock:
            plugins = self._chain.plugins
            if asks_closed_validators(self._profile.version):
                plugins = tuple(self._chain.registered)
            await self._ask_in_turn(plugins)
            if event is EventKind.CreateContainer and not outcome.failure:
                await self._validate(plugins)
            if not outcome.failure:
                self._check_merged()
            self._chain.remove_closed()
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
                problem = go_wording(answer.error)
                if answer.is_missing:
                    name = self._event.name
                    problem = f"plugin {plugin.id} failed to handle {name} request: {problem}"
                self._fail(plugin.id, problem)
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

    def _fail(self, plugin: str, problem: str, *, refused: bool = False) -> None:
        """End the operation with an error, which may or may not fail the CRI request."""
        self.outcome.culprit, self.outcome.refused = plugin, refused
        self.outcome.fail(self._rules, problem)

    # -- merging ------------------------------------------------------------------------------

    def _merge(self, reply: Reply, plugin: str) -> bool:
        """Merge a plugin's reply; return False if it ends the operation."""
        try:
            # The type of the reply belongs to that of the merging.
            cast("Any", self.outcome.merged).apply(reply, plugin)
        except AdjustmentRefused as refused:
            self._fail(plugin, str(refused), refused=True)
            self.outcome.killed = isinstance(refused, RuntimeKilled)
            return False
        return True

    def _check_merged(self) -> None:
        """Fail a creation whose merged replies iSulad or Docker cannot apply, and any update of
        iSulad.
        """
        merged, rules = self.outcome.merged, runtime_rules_of(self._profile.runtime_name)
        if isinstance(merged, merging.IsuladCreation):
            refusal = creation_refusal(merged, _this_machine())
            if refusal is not None:
                self._fail(refusal.plugin, refusal.reason, refused=True)
        elif isinstance(merged, merging.UpdateMerging) and rules.dies_of_updates:
            self.outcome.fail(self._rules, UPDATE_EVENT_CRASH)
            self.outcome.killed = True
        elif isinstance(merged, merging.CreationMerging) and rules.refusals is not None:
            replies = [
                (answer.plugin, cast("api.CreateContainerResponse", answer.reply))
                for answer in self.outcome.answers
                if answer.reply is not None
            ]
            if merged.updates:
                plugin = next(plugin for plugin, reply in replies if reply.update)
                self._fail(plugin, rules.refusals.updates, refused=True)
            elif error := _refusal(merged.adjustment, rules):
                own = (plugin for plugin, reply in replies if _refusal(reply.adjust, rules))
                self._fail(next(own, ""), error, refused=True)

    # -- validation ---------------------------------------------------------------------------

    async def _validate(self, plugins: Sequence[Plugin]) -> None:
        """Ask all validators concurrently; any error or rejection fails the creation.

        Up to NRI 0.12.4 they include validators that have disconnected, and so fail it. If
        several fail, a real runtime reports the first answer to arrive; here it is the first in
        chain order.
        """
        event, creation = EventKind.ValidateContainerAdjustment, self.outcome.merged
        validators = [
            plugin
            for plugin in plugins
            if plugin.subscribes(event)
            and (asks_closed_validators(self._profile.version) or not plugin.link.closed)
        ]
        if not self._profile.mask & event.bit or not validators:
            return
        assert isinstance(creation, merging.CreationMerging)
        instances = [api.PluginInstance(name=plugin.name, index=plugin.index) for plugin in plugins]
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
                problem = f"validator plugin {answer.plugin} failed: {go_wording(answer.error)}"
                self._fail(answer.plugin, problem)
                return
            if isinstance(reply, api.ValidateContainerAdjustmentResponse) and reply.reject:
                reason = reply.reason or "unknown rejection reason"
                self._fail(
                    answer.plugin,
                    f'validator "{answer.plugin}" rejected container adjustment, reason: {reason}',
                    refused=True,
                )
                return
