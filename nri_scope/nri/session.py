# SPDX-License-Identifier: Apache-2.0
"""The order of messages between a runtime and a plugin: one state machine for both ends.

::

    CONNECTED ─Register→ REGISTERING ─reply→ REGISTERED
                              └────Configure────┴→ CONFIGURING ─reply→ CONFIGURED
    CONFIGURED ─Synchronize→ SYNCHRONIZING ─reply to the last part→ READY

Both ends see the same conversation, so there is one table; an end's role only decides which end is
at fault for a message that is not in it.
"""

from __future__ import annotations

from enum import Enum, auto

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import LocalProtocolError, RemoteProtocolError


class Role(Enum):
    """An end of the connection."""

    PLUGIN = "plugin"
    RUNTIME = "runtime"


class State(Enum):
    """The state of the conversation."""

    CONNECTED = auto()
    """No message was sent yet."""
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
    """The runtime asked the plugin to end; only the close may follow."""
    CLOSED = auto()


class MessageKind(Enum):
    """The kind of a message. The value is its sender, and its name for display."""

    REGISTER = (Role.PLUGIN, "RegisterPlugin")
    REGISTER_REPLY = (Role.RUNTIME, "reply to RegisterPlugin")
    CONFIGURE = (Role.RUNTIME, "Configure")
    CONFIGURE_REPLY = (Role.PLUGIN, "reply to Configure")
    SYNCHRONIZE_PART = (Role.RUNTIME, "Synchronize with more to come")
    SYNCHRONIZE_PART_REPLY = (Role.PLUGIN, "reply to a part of Synchronize")
    SYNCHRONIZE = (Role.RUNTIME, "Synchronize")
    SYNCHRONIZE_REPLY = (Role.PLUGIN, "reply to Synchronize")
    EVENT = (Role.RUNTIME, "event")
    """Any other request to the plugin, including unknown methods. Its reply is not fed."""
    UPDATE_CONTAINERS = (Role.PLUGIN, "UpdateContainers")
    SHUTDOWN = (Role.RUNTIME, "Shutdown")

    @property
    def sender(self) -> Role:
        """The end that sends it."""
        return self.value[0]

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.value[1]


S, K = State, MessageKind

TRANSITIONS: dict[tuple[State, MessageKind], State] = {
    (S.CONNECTED, K.REGISTER): S.REGISTERING,
    (S.REGISTERING, K.REGISTER_REPLY): S.REGISTERED,
    # Go's runtime configures from another goroutine than the one that answers the registration:
    # that answer may come after Configure, and in principle after any later message.
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
    # No known runtime synchronizes twice; nothing forbids it.
    (S.READY, K.SYNCHRONIZE_PART): S.SYNCHRONIZING,
    (S.READY, K.SYNCHRONIZE): S.SYNCHRONIZING,
    # A subscription holds from the Configure reply on, and iSulad does not wait for more.
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


class Session:
    """One plugin connection as `role` sees it."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.state = State.CONNECTED

    def feed(self, kind: MessageKind) -> State:
        """Record that `kind` was sent or received; return the new state.

        Out of order it raises, and the state is unchanged: LocalProtocolError if this end was about
        to send it, RemoteProtocolError if the peer sent it.
        """
        following = TRANSITIONS.get((self.state, kind))
        if following is None:
            problem = f"{kind.title} while {self.state.name.lower().replace('_', ' ')}"
            if kind.sender is self.role:
                raise LocalProtocolError(problem)
            raise RemoteProtocolError(f"the {kind.sender.value} sent {problem}")
        self.state = following
        return following

    def close(self) -> None:
        """Record that the connection has ended."""
        self.state = State.CLOSED

    @property
    def ready(self) -> bool:
        """Whether the plugin is registered, configured and synchronized."""
        return self.state is State.READY


def check_part_reply(reply: api.SynchronizeResponse) -> None:
    """Check a plugin's reply to a part of Synchronize that was not the last one.

    It has to echo ``more`` and must not request updates yet; otherwise runtimes close the
    connection. Raises RemoteProtocolError.
    """
    if not reply.more:
        raise RemoteProtocolError("the plugin does not handle Synchronize in parts (no more=true)")
    if reply.update:
        raise RemoteProtocolError("the plugin sent updates before the last part of Synchronize")
