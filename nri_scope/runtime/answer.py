# SPDX-License-Identifier: Apache-2.0
"""One plugin's answer to one request, and what it means for the plugin and the rest
of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError
from nri_scope.nri.methods import METHODS, PLUGIN_SERVICE


@dataclass(frozen=True, slots=True)
class Answer:
    """One plugin's answer to one request."""

    plugin: str
    """``NN-name``."""
    method: str
    """The RPC that was answered: StateChange where the plugin had to be asked again that way."""
    reply: Message | None
    """None where there is an error, and for a method that is not in the table."""
    payload: bytes
    """The reply as it was on the wire; empty where there is an error status."""
    error: NriScopeError | None
    """`RpcError`: the plugin's own error status. `RemoteProtocolError`: a reply that cannot be
    decoded. `LocalProtocolError`: a request too large to send. `ConnectionClosed` and
    `DeadlineExceeded`: the plugin is gone."""
    took_ns: int
    """From sending the request to having its answer, a second attempt as StateChange included."""
    sent: bytes = b""
    """The request as it went to this plugin, of `method`."""
    timeout_ns: int = 0
    """How long the plugin might have taken."""
    service: str = PLUGIN_SERVICE
    closed: bool = False
    """The runtime closed the connection for this, though the error is one that others take."""

    @property
    def request(self) -> Message | None:
        """The request that this plugin got; None where its method is unknown or it is malformed."""
        known = METHODS.get(self.method)
        if known is None or known.service != self.service:
            return None
        try:
            return known.request.FromString(self.sent)
        except DecodeError:
            return None

    @property
    def dropped(self) -> bool:
        """The plugin is dropped for this. The operation and the rest of the chain go on: that a
        closed connection or a missed deadline is harmless to a container is a real runtime's way.
        """
        return self.closed or isinstance(self.error, (ConnectionClosed, DeadlineExceeded))

    @property
    def stops_chain(self) -> bool:
        """An error that the operation fails with; plugins with a higher index never hear of it."""
        return self.error is not None and not self.dropped
