# SPDX-License-Identifier: Apache-2.0
"""One plugin's answer to one request: a reply or an error."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError
from nri_scope.nri.failure_policy import NO_POLICY, FailurePolicy
from nri_scope.nri.methods import METHODS, PLUGIN_SERVICE


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
    service: str = PLUGIN_SERVICE
    closed: bool = False
    """Whether the runtime closed the connection because of this error. Other runtimes do not."""
    policy: FailurePolicy = NO_POLICY
    """The plugin's failure policy, as far as the runtime applies it."""

    @property
    def request(self) -> Message | None:
        """The decoded request; None if its method is unknown or it is malformed."""
        known = METHODS.get(self.method)
        if known is None or known.service != self.service:
            return None
        try:
            return known.request.FromString(self.sent)
        except DecodeError:
            return None

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
