# SPDX-License-Identifier: Apache-2.0
"""Act as an NRI plugin: connect, register, serve the runtime's requests, reconnect.

In: a socket or an inherited descriptor, and an object with handlers. Out: registrations and
replies. This room never knows files, SQLite or how a runtime handles a reply.

To write a plugin, give an object some of the methods in docs/writing-plugins.md, which return NRI's
messages (`api`), and pass it to `run`::

    from nri_scope.plugin import api, run

    class Utc:
        def create_container(self, pod, container):
            return api.ContainerAdjustment(env=[api.KeyValue(key="TZ", value="UTC")])

    run(Utc(), name="utc", index="10")
"""

from nri_scope._gen.nri import api_pb2 as api

from .deregistration import ValidatorSession, deregister
from .main import ABSENT_POLL, Backoff, keep_connected, run
from .serving import RuntimeHandle, serve
from .session import (
    Connect,
    HandledCall,
    Identity,
    Launched,
    PluginCallbacks,
    PluginSession,
    SessionEnd,
    inherited,
    launched,
    unix_socket,
)

__all__ = [
    "ABSENT_POLL",
    "Backoff",
    "Connect",
    "HandledCall",
    "Identity",
    "Launched",
    "PluginCallbacks",
    "PluginSession",
    "RuntimeHandle",
    "SessionEnd",
    "ValidatorSession",
    "api",
    "deregister",
    "inherited",
    "keep_connected",
    "launched",
    "run",
    "serve",
    "unix_socket",
]
