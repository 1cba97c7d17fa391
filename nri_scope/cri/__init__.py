# SPDX-License-Identifier: Apache-2.0
"""Ask a container runtime about its containers over the Kubernetes CRI.

In: the path of a unix socket, and ids of containers. Out: versions, and the OCI spec that was
really used, as plain values, or a typed error. It never knows NRI or recordings. Importing
it costs grpclib and betterproto2, so only callers of a runtime do.
"""

from __future__ import annotations

from .client import CriClient as CriClient
from .status import RuntimeVersion as RuntimeVersion
