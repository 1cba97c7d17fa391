# SPDX-License-Identifier: Apache-2.0
"""Move the bytes of `nri_scope.wire` over unix sockets, with asyncio.

In: paths, inherited descriptors or pairs of sockets. Out: a `Link`, which passes requests to a
callback and answers calls; a server; a relay that passes bytes on unread. This room never knows
NRI.
"""

from .link import Link, Notice, RequestHandler
from .sockets import Server, adopt_descriptor, connect_unix, listen_unix

__all__ = [
    "Link",
    "Notice",
    "RequestHandler",
    "Server",
    "adopt_descriptor",
    "connect_unix",
    "listen_unix",
]
