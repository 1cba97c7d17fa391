# SPDX-License-Identifier: Apache-2.0
"""Callbacks of the owner of an emulated runtime."""

from __future__ import annotations

from collections.abc import Callable

from nri_scope._gen.nri.api_pb2 import (
    SynchronizeResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)

from .plugin import Plugin

Update = Callable[[Plugin, UpdateContainersRequest], UpdateContainersResponse]
"""Answers a plugin's UpdateContainers; `RpcError` answers with its status."""

Synchronized = Callable[[Plugin, SynchronizeResponse], None]
"""Takes a plugin's reply to Synchronize. Real runtimes carry out the updates in it one by one, as
`nri.merging.unsolicited` says: nothing is merged."""


def nothing_follows(plugin: Plugin, reply: SynchronizeResponse) -> None:
    """Ignore what plugins ask for in reply to Synchronize."""


def update_nothing(plugin: Plugin, request: UpdateContainersRequest) -> UpdateContainersResponse:
    """Return that no update failed."""
    return UpdateContainersResponse()
