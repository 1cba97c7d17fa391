# SPDX-License-Identifier: Apache-2.0
"""Move the bytes of `nri_scope.wire` over unix sockets, with asyncio.

In: paths, inherited descriptors or pairs of sockets; URLs. Out: a `Link`, which makes calls and
passes requests to a callback; a server; a relay that forwards bytes without decoding them;
documents got by HTTP. This room never depends on NRI.
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
