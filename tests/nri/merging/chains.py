# SPDX-License-Identifier: Apache-2.0
"""Helpers that build and merge replies."""

from __future__ import annotations

from collections.abc import Callable

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import CreationMerging, UpdateMerging
from nri_scope.nri.versions import NriVersion

A, B, C = "10-a", "20-b", "30-c"

Adjust = Callable[[api.ContainerAdjustment], object]
Resources = Callable[[api.LinuxResources], object]


def nri(text: str) -> NriVersion:
    version = NriVersion.parse(text)
    assert version is not None
    return version


def adjusting(*modify: Adjust) -> api.CreateContainerResponse:
    """Return a reply whose adjustment these functions have modified."""
    reply = api.CreateContainerResponse()
    reply.adjust.SetInParent()
    for one in modify:
        one(reply.adjust)
    return reply


def creating(
    container: api.Container | None = None,
    version: str = "",
    **replies: api.CreateContainerResponse,
) -> CreationMerging:
    """Merge the replies of plugins ``a``, ``b`` … as keyword arguments."""
    request = api.CreateContainerRequest(container=container or api.Container(id="new"))
    creation = CreationMerging(request, version=nri(version) if version else None)
    for position, (name, reply) in enumerate(replies.items()):
        creation.apply(reply, f"{position + 1}0-{name}")
    return creation


def update(container_id: str, *modify: Resources, ignore: bool = False) -> api.ContainerUpdate:
    """Return an update whose resources these functions have modified."""
    message = api.ContainerUpdate(container_id=container_id, ignore_failure=ignore)
    for one in modify:
        one(message.linux.resources)
    return message


def updating(
    *replies: list[api.ContainerUpdate], version: str = "", asked: api.LinuxResources | None = None
) -> UpdateMerging:
    """Merge the replies of plugins ``10-a``, ``20-b`` … to an update of container ``own``."""
    request = api.UpdateContainerRequest(
        container=api.Container(id="own"), linux_resources=asked or api.LinuxResources()
    )
    merging = UpdateMerging(request, version=nri(version) if version else None)
    for plugin, reply in zip((A, B, C), replies, strict=False):
        merging.apply(api.UpdateContainerResponse(update=reply), plugin)
    return merging


def shares(value: int) -> Resources:
    return lambda resources: setattr(resources.cpu.shares, "value", value)


def quota(value: int) -> Resources:
    return lambda resources: setattr(resources.cpu.quota, "value", value)
