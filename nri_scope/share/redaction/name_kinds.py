# SPDX-License-Identifier: Apache-2.0
"""The kinds of names in a recording's tables."""

from __future__ import annotations

from enum import StrEnum


class NameKind(StrEnum):
    """The kind of object that a name belongs to, for `Redactor.name`."""

    POD = "pod"
    NAMESPACE = "namespace"
    CONTAINER = "container"
    NODE = "node"
    PLUGIN = "plugin"
    """A plugin's name, with or without its index prefix (``10-name``)."""
    RUNTIME = "runtime"


SESSION_NAMES = {
    "plugin_name": NameKind.PLUGIN,
    "runtime_name": NameKind.RUNTIME,
    "runtime_version": NameKind.RUNTIME,
    "nri_version": NameKind.RUNTIME,
}
"""The kinds of the names in a session."""
