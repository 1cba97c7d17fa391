# SPDX-License-Identifier: Apache-2.0
"""One plugin's answer to a request, and rejections of plugins that failed before any event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.merging.owners import quoted
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply or error of one plugin, with the request that it got."""

    plugin: str
    """``NN-name``."""
    method: str
    """The RPC that was answered: StateChange if the plugin did not implement the event's own."""
    reply: Message | None
    """None after an error, and for a method that is not in `METHODS`."""
    payload: bytes
    """The reply's bytes; empty after an error status."""
    error: NriScopeError | None
    """`RpcError`: the plugin's own error status. `RemoteProtocolError`: a reply that cannot be
    decoded. `LocalProtocolError`: a request too large to send. `ConnectionClosed` and
    `DeadlineExceeded`: no answer, so that the plugin's failure policy applies."""
    took_ns: int
    """Time from sending the request to the answer, including a second attempt as StateChange."""
    sent: bytes = b""
    """The request's bytes, as sent with `method`."""
    timeout_ns: int = 0
    """The deadline of the request."""
    closed: bool = False
    """Whether the runtime closed the connection because of this error. Other runtimes do not."""
    policy: FailurePolicy = NO_POLICY
    """The plugin's failure policy, as far as the runtime applies it."""

    @property
    def dropped(self) -> bool:
        """Whether the runtime disconnects the plugin because of this answer. As in real runtimes,
        the operation and the rest of the chain continue, unless the plugin's failure policy fails
        the request.
        """
        if isinstance(self.error, DeadlineExceeded):
            return not self.policy.keep_connected
        return self.closed or isinstance(self.error, ConnectionClosed)

    @property
    def is_missing(self) -> bool:
        """Whether the plugin did not answer, so that its failure policy applies."""
        return isinstance(self.error, (ConnectionClosed, DeadlineExceeded))

    @property
    def stops_chain(self) -> bool:
        """Whether the error fails the operation, so that the rest of the chain is not asked."""
        if self.is_missing:
            return self.policy.fail_request
        return self.error is not None and not self.closed


class SetupStage(StrEnum):
    """Stage of a plugin's set-up."""

    LAUNCH = "launch"
    REGISTRATION = "registration"
    CONFIGURATION = "configuration"
    SYNCHRONIZATION = "synchronization"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Failure of a plugin before it got events."""

    plugin: str
    """``NN-name`` as registered, valid or not; "" if it never registered."""
    stage: SetupStage
    reason: str
    error_sent: str = ""
    """Error text sent to the plugin; "" if none was sent, or it was only disconnected."""


def registration_problem(
    request: RegisterPluginRequest, *, checks_names: bool
) -> tuple[str, str] | None:
    """Return why a registration is invalid, in our and in the runtime's wording; None if valid.

    The runtime's wording is that of RegisterPlugin in NRI's ``pkg/adaptation/plugin.go``; with
    ``checks_names``, that of NRI 0.12 and later.
    """
    name, index = request.plugin_name, request.plugin_idx
    try:
        if checks_names or not name:
            check_name(name)
    except UsageError as error:
        return error.problem, _bad_name(name) if checks_names else "invalid (empty) plugin name"
    try:
        check_index(index)
    except UsageError as error:
        # Go counts bytes.
        rule = ", must be 2 digits" if len(index.encode()) != 2 else " (not [0-9][0-9])"
        problem = f"invalid plugin index {quoted(index)}{rule}"
        return error.problem, f"invalid plugin index: {problem}"
    return None


def _bad_name(name: str) -> str:
    if not name:
        return "invalid plugin name: invalid plugin name: name is empty"
    bad = next(c for c in name if not (c.isascii() and (c.isalnum() or c in "_.+-")))
    # Go quotes a single character with ', so it escapes ' instead of ".
    character = quoted(bad)[1:-1].replace(r"\"", '"') if bad != "'" else r"\'"
    return (
        f"invalid plugin name: invalid plugin name {quoted(name)}: "
        f"contains invalid character '{character}'"
    )
