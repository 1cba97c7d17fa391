# SPDX-License-Identifier: Apache-2.0
"""Move the bytes of `nri_scope.wire` over unix sockets, with asyncio.

In: paths, inherited descriptors or pairs of sockets; URLs. Out: a `Link`, which makes calls and
passes requests to a callback; a server; a relay that forwards bytes without decoding them;
documents got by HTTP. This room never decodes a message of NRI.
"""

from .link import Link as Link
from .link import Notice as Notice
from .link import RequestHandler as RequestHandler
from .sockets import Server as Server
from .sockets import adopt_descriptor as adopt_descriptor
from .sockets import connect_unix as connect_unix
from .sockets import listen_unix as listen_unix
