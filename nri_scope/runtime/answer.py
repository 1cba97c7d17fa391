# SPDX-License-Identifier: Apache-2.0
"""One plugin's answer to one request, and its consequences for the plugin and the rest
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
    """The RPC that was answered: StateChange if the plugin had to be asked again with that RPC."""
    reply: Message | None
    """None after an error, and for a method that is not in the table."""
    payload: bytes
    """The reply as it was on the wire; empty after an error status."""
    error: NriScopeError | None
    """`RpcError`: the plugin's own error status. `RemoteProtocolError`: a reply that cannot be
    decoded. `LocalProtocolError`: a request too large to send. `ConnectionClosed` and
    `DeadlineExceeded`: the plugin is gone."""
    took_ns: int
    """Time from sending the request to the answer, including a second attempt as StateChange."""
    sent: bytes = b""
    """The request as it was sent to this plugin, for `method`."""
    timeout_ns: int = 0
    """The deadline of the request."""
    service: str = PLUGIN_SERVICE
    closed: bool = False
    """Whether the runtime closed the connection for this error, which other runtimes tolerate."""

    @property
    def request(self) -> Message | None:
        """The request that this plugin got; None if its method is unknown or it is malformed."""
        known = METHODS.get(self.method)
        if known is None or known.service != self.service:
            return None
        try:
            return known.request.FromString(self.sent)
        except DecodeError:
            return None

    @property
    def dropped(self) -> bool:
        """Whether the plugin is dropped for this answer. The operation and the rest of the chain
        continue: in real runtimes, too, a closed connection or missed deadline harms no container.
        """
        return self.closed or isinstance(self.error, (ConnectionClosed, DeadlineExceeded))

    @property
    def stops_chain(self) -> bool:
        """Whether the error fails the operation; plugins with a higher index are not asked then."""
        return self.error is not None and not self.dropped
