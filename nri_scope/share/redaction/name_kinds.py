# SPDX-License-Identifier: Apache-2.0
"""What a name in a recording's tables is a name of."""

from __future__ import annotations

from enum import StrEnum


class NameKind(StrEnum):
    """For `Redactor.name`."""

    POD = "pod"
    NAMESPACE = "namespace"
    CONTAINER = "container"
    NODE = "node"
    PLUGIN = "plugin"
    """A plugin's name, with or without its index before it (``10-name``)."""
    RUNTIME = "runtime"
