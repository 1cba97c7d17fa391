# SPDX-License-Identifier: Apache-2.0
"""Playback of stored requests through an emulated runtime, in order and byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import ConfigureRequest
from nri_scope.errors import UsageError
from nri_scope.nri.events import (
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
    PLUGIN_SERVICE,
)
from nri_scope.nri.runtime_setup import nri_version_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import Answer, Profile, ProfileSetUp
from nri_scope.runtime import recorded_profile as profile_of_recorded
from nri_scope.runtime.plugin_setup import SETUP_METHODS
from tests.runtime_emulation.runtime import Runtime


class Stored(NamedTuple):
    """One request, as bytes."""

    at_ns: int
    """Time of arrival, since any fixed point in time."""
    method: str
    request: bytes
    timeout_ns: int = 0
    """The deadline that was sent with the request; 0 if none."""
    service: str = PLUGIN_SERVICE
    plugin: str = ""
    """``NN-name`` of the plugin to send it to; "" for all subscribers."""


def recorded_profile(configure: ConfigureRequest) -> Profile:
    """Return the profile "recorded", of the runtime that sent this Configure request."""
    version, _ = nri_version_of(configure)
    profile = profile_of_recorded(configure.runtime_name, configure.runtime_version, version)
    return replace(
        profile,
        registration_timeout_ms=(configure.registration_timeout or DEFAULT_REGISTRATION_TIMEOUT_MS),
        request_timeout_ms=configure.request_timeout or DEFAULT_REQUEST_TIMEOUT_MS,
    )


@dataclass(slots=True)
class Played:
    """Result of `play`."""

    events: int = 0
    answers: int = 0
    errors: int = 0
    """Number of answers with an error, including deadlines and lost connections."""


@dataclass(slots=True)
class RecordedSetUp(ProfileSetUp):
    """Recorded set-up, sent byte for byte.

    A plugin gets the requests recorded for its ``NN-name``, or else the first plugin's.
    """

    configures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    states: Mapping[str, Sequence[bytes]] = field(default_factory=dict[str, Sequence[bytes]])

    @classmethod
    def of(
        cls,
        configures: Mapping[str, bytes],
        states: Mapping[str, Sequence[bytes]],
        profile: Profile | None = None,
    ) -> RecordedSetUp:
        """Return the set-up with these requests, by plugin.

        Without ``profile`` it is made from the first Configure. Raises `UsageError` without either.
        """
        if profile is None:
            try:
                first = ConfigureRequest.FromString(next(iter(configures.values())))
            except (StopIteration, DecodeError):
                raise UsageError(
                    "the recording does not identify its runtime",
                    "it must begin with a plugin's Configure",
                ) from None
            profile = recorded_profile(first)
        return cls(profile, configures=configures, states=states)

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the recorded request; a non-empty ``config`` replaces the recorded one."""
        recorded = self.configures.get(plugin) or next(iter(self.configures.values()), b"")
        if recorded and not config:
            return recorded
        request = ConfigureRequest.FromString(recorded) if recorded else None
        if request is None:
            return self.profile.configure_request(config).SerializeToString()
        request.config = config
        return request.SerializeToString()

    def synchronize(self, plugin: str, part_max: int = 0) -> Sequence[bytes]:
        """Return the recorded requests; an empty state if none was recorded."""
        return self.states.get(plugin) or next(iter(self.states.values()), ()) or (b"",)


def split_setup(
    stored: Iterable[Stored], profile: Profile | None = None
) -> tuple[RecordedSetUp, Iterator[Stored]]:
    """Split a stream of stored requests into the leading set-up requests and the rest.

    ``profile`` replaces the one made from the first Configure. Raises `UsageError` without either.
    """
    configures: dict[str, bytes] = {}
    states: dict[str, list[bytes]] = {}
    rest = iter(stored)
    for item in rest:
        if item.method == "Configure":
            configures.setdefault(item.plugin, item.request)
        elif item.method == "Synchronize":
            states.setdefault(item.plugin, []).append(item.request)
        else:
            rest = chain([item], rest)
            break
    return RecordedSetUp.of(configures, states, profile), rest


async def play(
    runtime: Runtime,
    stored: Iterable[Stored],
    *,
    on_event: Callable[[Stored, list[Answer]], None] = lambda item, answers: None,
) -> Played:
    """Send every request to the plugins of ``runtime``, one after the other.

    Configure and Synchronize are skipped, as plugins get them on connecting. ``on_event`` is called
    with each request and its answers.
    """
    played = Played()
    for item in stored:
        if item.method in SETUP_METHODS:
            continue
        answers = await runtime.send_to(
            item.plugin, item.method, item.request, timeout_ns=item.timeout_ns
        )
        played.events += 1
        played.answers += len(answers)
        played.errors += sum(answer.error is not None for answer in answers)
        on_event(item, answers)
    return played


def requests_of_the_first_session(recording: Recording) -> list[Stored]:
    """Return all requests of the first session, the set-up included."""
    first = recording.sessions()[0].id
    return [
        Stored(event.at_ns, event.method, request, event.timeout_ns)
        for event, request, _ in recording.exchanges()
        if event.session == first
    ]
