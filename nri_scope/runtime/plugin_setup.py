# SPDX-License-Identifier: Apache-2.0
"""Set-up of a plugin before its first event: Configure, and the runtime's state in Synchronize.

The state is sent in parts if it does not fit into one ttRPC message, which has at most 4 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import ConfigureRequest, Container, PodSandbox, SynchronizeRequest
from nri_scope.errors import UsageError
from nri_scope.wire.limits import MESSAGE_DATA_MAX

from .profile import Profile, recorded_profile

ENVELOPE_MAX = 1024
"""Maximum bytes of a ttRPC request without its payload: service, method and timeout need < 100."""

FIELD_OVERHEAD_MAX = 6
"""Maximum bytes of a repeated message field without the message: a tag and a varint length."""

MORE_LENGTH = 2
"""Bytes of ``more``: a tag and a bool."""


class SetUp(Protocol):
    """The requests that set up plugins, as bytes. ``plugin`` is an ``NN-name``."""

    @property
    def profile(self) -> Profile:
        """How the runtime behaves."""
        ...

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the Configure request, with the configuration of a launched plugin."""
        ...

    def synchronize(self, plugin: str) -> Sequence[bytes]:
        """Return the Synchronize requests, in order; all but the last announce that more follow."""
        ...


@dataclass(slots=True)
class ProfileSetUp:
    """Existing pods and containers, sent as the profile's runtime sends them.

    Both lists may be changed at any time: a plugin gets their content at the time of its set-up.
    """

    profile: Profile
    pods: list[PodSandbox] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the same request for every plugin, except for the configuration."""
        return self.profile.configure_request(config).SerializeToString()

    def synchronize(self, plugin: str) -> Sequence[bytes]:
        """Return the state, split if this runtime can split it."""
        pods, containers = self.state()
        if self.profile.split_sync:
            return synchronize_parts(pods, containers)
        return [SynchronizeRequest(pods=pods, containers=containers).SerializeToString()]

    def state(self) -> tuple[list[PodSandbox], list[Container]]:
        """Return the pods and containers that a plugin gets."""
        return self.pods, self.containers


@dataclass(frozen=True, slots=True)
class RecordedSetUp:
    """The requests that a runtime once sent, byte for byte.

    A plugin gets the requests recorded for its ``NN-name``, or those of the first plugin.
    """

    profile: Profile
    configures: Mapping[str, bytes]
    states: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(
        cls,
        configures: Mapping[str, bytes],
        states: Mapping[str, Sequence[bytes]],
        profile: Profile | None = None,
    ) -> RecordedSetUp:
        """Create a set-up from requests by plugin. ``profile`` is needed only if there is no
        Configure.
        """
        if profile is None:
            try:
                first = ConfigureRequest.FromString(next(iter(configures.values())))
            except (StopIteration, DecodeError):
                raise UsageError(
                    "the recording does not tell which runtime it is of",
                    "it has to begin with a plugin's Configure",
                ) from None
            profile = recorded_profile(first)
        return cls(profile, configures, states)

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the recorded request; a configuration given now replaces the recorded one."""
        recorded = self.configures.get(plugin) or next(iter(self.configures.values()), b"")
        if recorded and not config:
            return recorded
        request = ConfigureRequest.FromString(recorded) if recorded else None
        if request is None:
            return self.profile.configure_request(config).SerializeToString()
        request.config = config
        return request.SerializeToString()

    def synchronize(self, plugin: str) -> Sequence[bytes]:
        """Return the recorded requests; an empty state if none was recorded."""
        return self.states.get(plugin) or next(iter(self.states.values()), ()) or (b"",)


def synchronize_parts(
    pods: Iterable[PodSandbox],
    containers: Iterable[Container],
    *,
    limit: int = MESSAGE_DATA_MAX - ENVELOPE_MAX,
) -> list[bytes]:
    """Return Synchronize requests of at most ``limit`` bytes each with all objects, pods first.

    Each is filled as far as possible. (Upstream shrinks the shares of pods and containers by one
    factor until a message fits, which never ends once the share of pods is 0.) An object that
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
                f"Synchronize cannot be split: it cannot be decoded: {error}"
            ) from error
        pods.extend(request.pods)
        containers.extend(request.containers)
    return synchronize_parts(pods, containers, limit=limit)
