# SPDX-License-Identifier: Apache-2.0
"""Requests that set up a plugin before its first event: Configure and Synchronize.

Synchronize is split into parts if it exceeds one ttRPC message, which has at most 4 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import Container, PodSandbox, SynchronizeRequest
from nri_scope.errors import UsageError
from nri_scope.wire.limits import MESSAGE_DATA_MAX

from .profile import Profile

SETUP_METHODS = frozenset({"Configure", "Synchronize"})
"""Methods of the set-up, which are never played as events."""

ENVELOPE_MAX = 1024
"""Bytes reserved for a ttRPC request without its payload; the rest needs less than 100."""

FIELD_OVERHEAD_MAX = 6
"""Maximum bytes of the tag and the length before an element of a repeated message field."""

MORE_LENGTH = 2
"""Bytes of the field ``more``: a tag and a bool."""


class SetUp(Protocol):
    """Source of the requests that set up plugins. ``plugin`` is an ``NN-name``."""

    @property
    def profile(self) -> Profile:
        """Behaviour of the runtime."""
        ...

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the Configure request, with the configuration of a launched plugin."""
        ...

    def synchronize(self, plugin: str) -> Sequence[bytes]:
        """Return the Synchronize requests; `SynchronizeRequest.more` is set in all but the last."""
        ...


@dataclass(slots=True)
class ProfileSetUp:
    """Set-up made from a profile and the existing pods and containers.

    Both lists may be changed at any time: a plugin gets their content at the time of its set-up.
    """

    profile: Profile
    pods: list[PodSandbox] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the same request for every plugin, except for the configuration."""
        return self.profile.configure_request(config).SerializeToString()

    def synchronize(self, plugin: str) -> Sequence[bytes]:
        """Return the state, in parts if this runtime splits it."""
        pods, containers = self.state()
        if self.profile.split_sync:
            return synchronize_parts(pods, containers)
        return [SynchronizeRequest(pods=pods, containers=containers).SerializeToString()]

    def state(self) -> tuple[list[PodSandbox], list[Container]]:
        """Return the pods and containers that a plugin gets."""
        return self.pods, self.containers


def synchronize_parts(
    pods: Iterable[PodSandbox],
    containers: Iterable[Container],
    *,
    limit: int = MESSAGE_DATA_MAX - ENVELOPE_MAX,
) -> list[bytes]:
    """Return Synchronize requests of at most ``limit`` bytes each with all objects, pods first.

    Each is filled as far as possible. (Upstream shrinks the numbers of pods and containers by one
    factor until a message fits, which loops forever once the number of pods is 0.) An object that
    alone exceeds the limit gets a request of its own, which cannot be sent.
    """
    requests = [SynchronizeRequest()]
    whole = room = limit - MORE_LENGTH
    items: list[PodSandbox | Container] = [*pods, *containers]
    for item in items:
        size = item.ByteSize() + FIELD_OVERHEAD_MAX
        if size > room and room < whole:
            requests[-1].more = True
            requests.append(SynchronizeRequest())
            room = whole
        if isinstance(item, PodSandbox):
            requests[-1].pods.append(item)
        else:
            requests[-1].containers.append(item)
        room -= size
    return [request.SerializeToString() for request in requests]


def split_again(parts: Iterable[bytes], limit: int) -> list[bytes]:
    """Return the same state in parts of at most ``limit`` bytes.

    Raises `UsageError` if the parts are not Synchronize requests.
    """
    pods: list[PodSandbox] = []
    containers: list[Container] = []
    for part in parts:
        try:
            request = SynchronizeRequest.FromString(part)
        except DecodeError as error:
            raise UsageError(
                f"Synchronize cannot be decoded, so it cannot be split: {error}"
            ) from error
        pods.extend(request.pods)
        containers.extend(request.containers)
    return synchronize_parts(pods, containers, limit=limit)
