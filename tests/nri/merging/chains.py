# SPDX-License-Identifier: Apache-2.0
"""Short ways to make replies and to merge them."""

from __future__ import annotations

from collections.abc import Callable

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import Creation, Updating
from nri_scope.nri.versions import NriVersion

A, B, C = "10-a", "20-b", "30-c"

Adjust = Callable[[api.ContainerAdjustment], object]
Resources = Callable[[api.LinuxResources], object]


def nri(text: str) -> NriVersion:
    version = NriVersion.parse(text)
    assert version is not None
    return version


def adjusting(*do: Adjust) -> api.CreateContainerResponse:
    """A reply whose adjustment has had these things done to it."""
    reply = api.CreateContainerResponse()
    reply.adjust.SetInParent()
    for one in do:
        one(reply.adjust)
    return reply


def creating(
    container: api.Container | None = None,
    version: str = "",
    **replies: api.CreateContainerResponse,
) -> Creation:
    """Merge the replies of plugins ``a``, ``b`` … as keyword arguments."""
    request = api.CreateContainerRequest(container=container or api.Container(id="new"))
    creation = Creation(request, version=nri(version) if version else None)
    for position, (name, reply) in enumerate(replies.items()):
        creation.apply(reply, f"{position + 1}0-{name}")
    return creation


def update(container_id: str, *do: Resources, ignore: bool = False) -> api.ContainerUpdate:
    """An update in whose resources these things were done."""
    made = api.ContainerUpdate(container_id=container_id, ignore_failure=ignore)
    for one in do:
        one(made.linux.resources)
    return made


def updating(
    *replies: list[api.ContainerUpdate], version: str = "", asked: api.LinuxResources | None = None
) -> Updating:
    """Merge replies to the update of container ``own``, of plugins ``10-a``, ``20-b`` …"""
    request = api.UpdateContainerRequest(
        container=api.Container(id="own"), linux_resources=asked or api.LinuxResources()
    )
    merging = Updating(request, version=nri(version) if version else None)
    for plugin, reply in zip((A, B, C), replies, strict=False):
        merging.apply(api.UpdateContainerResponse(update=reply), plugin)
    return merging


def shares(value: int) -> Resources:
    return lambda resources: setattr(resources.cpu.shares, "value", value)


def quota(value: int) -> Resources:
    return lambda resources: setattr(resources.cpu.quota, "value", value)
