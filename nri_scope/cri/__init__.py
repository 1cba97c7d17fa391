# SPDX-License-Identifier: Apache-2.0
"""A small client for the Kubernetes CRI: what the real runtime says a container became.

Importing it costs grpclib and betterproto2, so only what calls a runtime does.
"""

from __future__ import annotations

from .client import CriClient, connect
from .spec import ContainerSpec, PodSpec, Resources
from .status import (
    ContainerDetails,
    ContainerState,
    ContainerSummary,
    Json,
    PodSummary,
    RuntimeVersion,
)

__all__ = [
    "ContainerDetails",
    "ContainerSpec",
    "ContainerState",
    "ContainerSummary",
    "CriClient",
    "Json",
    "PodSpec",
    "PodSummary",
    "Resources",
    "RuntimeVersion",
    "connect",
]
