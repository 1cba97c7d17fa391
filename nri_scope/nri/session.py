# SPDX-License-Identifier: Apache-2.0
"""The order of messages between a runtime and a plugin: one state machine for both ends.

::

    CONNECTED ─Register→ REGISTERING ─reply→ REGISTERED
                              └────Configure────┴→ CONFIGURING ─reply→ CONFIGURED
    CONFIGURED ─Synchronize→ SYNCHRONIZING ─reply to the last part→ READY

Both ends see the same messages, so there is one table. The role of an end only decides whether a
message that is not in the table is its own error or the peer's.
"""

from __future__ import annotations

from enum import Enum, auto

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import LocalProtocolError, RemoteProtocolError

from . import events


class ConnectionEnd(Enum):
    """An end of the connection."""

    PLUGIN = "plugin"
    RUNTIME = "runtime"


class SetupState(Enum):
    """The state of the connection."""

    CONNECTED = auto()
    """No message has been sent."""
    REGISTERING = auto()
    """RegisterPlugin was sent and is not answered."""
    REGISTERED = auto()
    CONFIGURING = auto()
    """Configure was sent and is not answered."""
    CONFIGURED = auto()
    """The plugin has subscribed to its events."""
    SYNCHRONIZING = auto()
    """A part of the runtime's state was sent; the last part is not answered."""
    READY = auto()
    SHUTTING_DOWN = auto()
    """Shutdown was sent; only the end of the connection may follow."""
    CLOSED = auto()


class MessageKind(Enum):
    """The kind of a message; the value is its sender and its title."""

    REGISTER = (ConnectionEnd.PLUGIN, events.REGISTER)
    REGISTER_REPLY = (ConnectionEnd.RUNTIME, f"reply to {events.REGISTER}")
    CONFIGURE = (ConnectionEnd.RUNTIME, events.CONFIGURE)
    CONFIGURE_REPLY = (ConnectionEnd.PLUGIN, f"reply to {events.CONFIGURE}")
    SYNCHRONIZE_PART = (ConnectionEnd.RUNTIME, f"{events.SYNCHRONIZE} with more to come")
    SYNCHRONIZE_PART_REPLY = (ConnectionEnd.PLUGIN, f"reply to a part of {events.SYNCHRONIZE}")
    SYNCHRONIZE = (ConnectionEnd.RUNTIME, events.SYNCHRONIZE)
    SYNCHRONIZE_REPLY = (ConnectionEnd.PLUGIN, f"reply to {events.SYNCHRONIZE}")
    EVENT = (ConnectionEnd.RUNTIME, "event")
    """Any other request to the plugin, including unknown methods. Its reply is not tracked."""
    UPDATE_CONTAINERS = (ConnectionEnd.PLUGIN, events.UNSOLICITED)
    SHUTDOWN = (ConnectionEnd.RUNTIME, events.SHUTDOWN)

    @property
    def sender(self) -> ConnectionEnd:
        """The end that sends the message."""
        return self.value[0]

    @property
    def title(self) -> str:
        """The name in error messages."""
        return self.value[1]


S, K = SetupState, MessageKind

TRANSITIONS: dict[tuple[SetupState, MessageKind], SetupState] = {
    (S.CONNECTED, K.REGISTER): S.REGISTERING,
    (S.REGISTERING, K.REGISTER_REPLY): S.REGISTERED,
    # Go runtimes send Configure and the reply to the registration from different goroutines: the
    # reply may arrive after Configure, and in principle after any later message.
    (S.REGISTERING, K.CONFIGURE): S.CONFIGURING,
    (S.CONFIGURING, K.REGISTER_REPLY): S.CONFIGURING,
    (S.REGISTERED, K.CONFIGURE): S.CONFIGURING,
    (S.CONFIGURING, K.CONFIGURE_REPLY): S.CONFIGURED,
    (S.CONFIGURED, K.SYNCHRONIZE_PART): S.SYNCHRONIZING,
    (S.CONFIGURED, K.SYNCHRONIZE): S.SYNCHRONIZING,
    (S.SYNCHRONIZING, K.SYNCHRONIZE_PART): S.SYNCHRONIZING,
    (S.SYNCHRONIZING, K.SYNCHRONIZE_PART_REPLY): S.SYNCHRONIZING,
    (S.SYNCHRONIZING, K.SYNCHRONIZE): S.SYNCHRONIZING,
    (S.SYNCHRONIZING, K.SYNCHRONIZE_REPLY): S.READY,
    # No known runtime synchronizes twice, but the protocol allows it.
    (S.READY, K.SYNCHRONIZE_PART): S.SYNCHRONIZING,
    (S.READY, K.SYNCHRONIZE): S.SYNCHRONIZING,
    # A subscription is valid from the Configure reply on; iSulad sends events right after it.
    **{
        (state, kind): state
        for state in (S.CONFIGURED, S.SYNCHRONIZING, S.READY)
        for kind in (K.REGISTER_REPLY, K.EVENT, K.UPDATE_CONTAINERS)
    },
    **{
        (state, K.SHUTDOWN): S.SHUTTING_DOWN
        for state in (S.REGISTERED, S.CONFIGURED, S.SYNCHRONIZING, S.READY)
    },
}
"""Allowed messages in each state, with the next state. Closing is always possible."""


class ConnectionState:
    """The state of one plugin connection, for the end `role`."""

    def __init__(self, role: ConnectionEnd) -> None:
        self.role = role
        self.state = SetupState.CONNECTED

    def feed(self, kind: MessageKind) -> SetupState:
        """Record that a message was received or is about to be sent; return the new state.

        A message out of order leaves the state unchanged and raises LocalProtocolError if this end
        sends it, RemoteProtocolError if the peer does.
        """
        next_state = TRANSITIONS.get((self.state, kind))
        if next_state is None:
            problem = f"{kind.title} while {self.state.name.lower().replace('_', ' ')}"
            if kind.sender is self.role:
                raise LocalProtocolError(problem)
            raise RemoteProtocolError(f"the {kind.sender.value} sent {problem}")
        self.state = next_state
        return next_state

    def close(self) -> None:
        """Record that the connection has ended."""
        self.state = SetupState.CLOSED

    @property
    def ready(self) -> bool:
        """Whether the plugin is registered, configured and synchronized."""
        return self.state is SetupState.READY


def check_part_reply(reply: api.SynchronizeResponse) -> None:
    """Check a plugin's reply to a part of Synchronize before the last part.

    The reply must echo ``more`` and must not request updates; otherwise runtimes close the
    connection. Raises RemoteProtocolError.
    """
    if not reply.more:
        raise RemoteProtocolError("the plugin does not handle Synchronize in parts (no more=true)")
    if reply.update:
        raise RemoteProtocolError("the plugin sent updates before the last part of Synchronize")
