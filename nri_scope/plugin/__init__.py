# SPDX-License-Identifier: Apache-2.0
"""Act as an NRI plugin: connect, register, serve the runtime's requests, reconnect.

In: a socket or an inherited descriptor, and an object with handlers. Out: registrations and
replies, built by `Adjustment` and `Update`, which check every value before it is sent. This room
never knows files, SQLite or how a runtime handles a reply.

To write a plugin, give an object some of the methods of `BasePlugin` and pass it to `run`::

    from nri_scope.plugin import Adjustment, Container, PodSandbox, run

    class Utc:
        def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
            return Adjustment().add_env("TZ", "UTC")

    run(Utc(), name="utc", index="10")
"""

from nri_scope._gen.nri.api_pb2 import (
    Container,
    LinuxResources,
    PodSandbox,
    ValidateContainerAdjustmentRequest,
)
from nri_scope.errors import UsageError

from .adjustment import Adjustment, HookStage, syscall_argument, syscall_rule
from .deregistration import ValidatorSession, deregister
from .handle import RuntimeHandle, Timer, time_left
from .handlers import BasePlugin, CreateReply, Rejection, UpdateReply, UpdatesReply
from .main import ABSENT_POLL, Backoff, keep_connected, run
from .resources import Eviction, Update
from .serving import serve
from .session import (
    AnswerLater,
    Connect,
    Exchange,
    Identity,
    Launched,
    Plugin,
    PluginSession,
    SessionEnd,
    inherited,
    launched,
    unix_socket,
)

__all__ = [
    "ABSENT_POLL",
    "Adjustment",
    "AnswerLater",
    "Backoff",
    "BasePlugin",
    "Connect",
    "Container",
    "CreateReply",
    "Eviction",
    "Exchange",
    "HookStage",
    "Identity",
    "Launched",
    "LinuxResources",
    "Plugin",
    "PluginSession",
    "PodSandbox",
    "Rejection",
    "RuntimeHandle",
    "SessionEnd",
    "Timer",
    "Update",
    "UpdateReply",
    "UpdatesReply",
    "UsageError",
    "ValidateContainerAdjustmentRequest",
    "ValidatorSession",
    "deregister",
    "inherited",
    "keep_connected",
    "launched",
    "run",
    "serve",
    "syscall_argument",
    "syscall_rule",
    "time_left",
    "unix_socket",
]
