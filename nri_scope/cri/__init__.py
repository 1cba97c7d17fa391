# SPDX-License-Identifier: Apache-2.0
"""Query a container runtime about its containers over the Kubernetes CRI.

In: the path of a unix socket, and ids of containers. Out: the runtime's version and the final OCI
specs of containers as JSON, with what their config.json and cgroups on this node say, or a typed
error. This room never depends on NRI or recordings, and never writes to a container's files. It
imports grpclib and betterproto2, so it is only imported when a runtime is queried.
"""

from __future__ import annotations

from .client import CriClient as CriClient
from .status import RuntimeVersion as RuntimeVersion
