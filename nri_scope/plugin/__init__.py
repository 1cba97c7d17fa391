# SPDX-License-Identifier: Apache-2.0
"""The plugin's role: connect, register, serve the runtime's requests, reconnect."""

from .endpoint import Connect, Identity, Launched, inherited, launched, unix_socket
from .reconnect import Backoff, keep_connected
from .session import Exchange, Plugin, PluginSession, SessionEnd

__all__ = [
    "Backoff",
    "Connect",
    "Exchange",
    "Identity",
    "Launched",
    "Plugin",
    "PluginSession",
    "SessionEnd",
    "inherited",
    "keep_connected",
    "launched",
    "unix_socket",
]
