# SPDX-License-Identifier: Apache-2.0
"""Requests to validators, the only ones that name the other plugins (NRI 0.10 and later)."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api

from .changes import owned_fields


def consulted_plugins(request: bytes) -> list[tuple[str, str]] | None:
    """Return index and name of the plugins of a creation, from its validation's request.

    These are all plugins that were connected, in the order of the chain, whether or not they
    subscribe to CreateContainer ("Adaptation.CreateContainer" in pkg/adaptation/adaptation.go of
    NRI 0.12.5). None for a malformed request.
    """
    message = _decoded(request)
    return None if message is None else [(plugin.index, plugin.name) for plugin in message.plugins]


def owned_paths(request: bytes) -> Iterator[tuple[str, str]]:
    """Yield the OCI paths that plugins changed, each with an owner (``NN-name``)."""
    message = _decoded(request)
    if message is not None:
        yield from owned_fields(message.owners)


def _decoded(request: bytes) -> api.ValidateContainerAdjustmentRequest | None:
    try:
        return api.ValidateContainerAdjustmentRequest.FromString(request)
    except DecodeError:
        return None
