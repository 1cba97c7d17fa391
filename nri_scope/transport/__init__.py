# SPDX-License-Identifier: Apache-2.0
"""The one asyncio shell around `nri_scope.wire`: unix sockets, inherited descriptors, pairs."""

from .link import Link, Notice, RequestHandler
from .sockets import Server, adopt_descriptor, connect_unix, listen_unix, memory_pair

__all__ = [
    "Link",
    "Notice",
    "RequestHandler",
    "Server",
    "adopt_descriptor",
    "connect_unix",
    "listen_unix",
    "memory_pair",
]
