# SPDX-License-Identifier: Apache-2.0
"""How a given runtime version behaves towards its plugins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nri_scope._gen.nri.api_pb2 import ConfigureRequest
from nri_scope.nri.methods import (
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
)
from nri_scope.nri.negotiation import nri_version_of
from nri_scope.nri.versions import (
    V0_12,
    NriVersion,
    has_dedicated_rpcs,
    has_split_sync,
    has_timeouts,
    sends_nri_version,
    valid_mask,
)


@dataclass(frozen=True, slots=True)
class Profile:
    """A runtime's manners. Make one with `of`, and vary it with `dataclasses.replace`."""

    name: str
    """What users call the profile."""
    runtime_name: str
    """As Configure tells it, and so the next one."""
    runtime_version: str
    nri_version: str
    """Without the leading ``v``; "" where it is unknown."""
    mask: int
    """Every event bit the runtime knows; a plugin that asks for another one is dropped."""
    dedicated_rpcs: bool
    """Each event has an RPC of its own; else nine of them travel as StateChange."""
    split_sync: bool
    """A Synchronize over 4 MiB is sent in parts; else it fails and the plugin is dropped."""
    sends_timeouts: bool
    """Configure tells both timeouts."""
    sends_nri_version: bool
    """Configure tells the NRI version."""
    checks_names: bool
    """A plugin's name may hold only letters, digits and ``_.+-``; else it must not be empty."""
    registration_timeout_ms: int = DEFAULT_REGISTRATION_TIMEOUT_MS
    """How long one connection may take to register; the others wait meanwhile."""
    request_timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS
    """How long a plugin may take to answer a request."""

    @classmethod
    def of(
        cls, name: str, runtime_name: str, runtime_version: str, nri: str | NriVersion | None
    ) -> Profile:
        """The profile of a runtime that speaks NRI version ``nri``; None or "" for unknown."""
        version = NriVersion.parse(nri) if isinstance(nri, str) else nri
        return cls(
            name,
            runtime_name,
            runtime_version,
            nri_version="" if version is None else str(version),
            mask=valid_mask(version),
            dedicated_rpcs=has_dedicated_rpcs(version),
            split_sync=has_split_sync(version),
            sends_timeouts=has_timeouts(version),
            sends_nri_version=sends_nri_version(version),
            checks_names=version is not None and version >= V0_12,
        )

    def configure_request(self, config: str = "") -> ConfigureRequest:
        """The Configure request of this runtime; external plugins always get an empty config."""
        return ConfigureRequest(
            config=config,
            runtime_name=self.runtime_name,
            runtime_version=self.runtime_version,
            registration_timeout=self.registration_timeout_ms if self.sends_timeouts else 0,
            request_timeout=self.request_timeout_ms if self.sends_timeouts else 0,
            NRI_version=f"v{self.nri_version}" if self.sends_nri_version else "",
        )


def recorded_profile(configure: ConfigureRequest) -> Profile:
    """The profile named "recorded": of the runtime that once sent this Configure request."""
    version, _ = nri_version_of(configure)
    profile = Profile.of("recorded", configure.runtime_name, configure.runtime_version, version)
    return replace(
        profile,
        registration_timeout_ms=(configure.registration_timeout or DEFAULT_REGISTRATION_TIMEOUT_MS),
        request_timeout_ms=configure.request_timeout or DEFAULT_REQUEST_TIMEOUT_MS,
    )


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile.of("containerd-1.7", "containerd", "1.7.24", "0.6.1"),
        Profile.of("containerd-2.1", "containerd", "2.1.9", "0.8.0"),
        Profile.of("containerd-2.2", "containerd", "2.2.1", "0.11.0"),
        Profile.of("containerd-2.3", "containerd", "2.3.0", "0.12.0"),
        Profile.of("cri-o-1.33", "cri-o", "1.33.0", "0.9.1-0.20250219030224-e597e7849f24"),
        Profile.of("cri-o-1.37", "cri-o", "1.37.0", "0.12.0"),
        Profile.of("isulad", "v2", "2.0.0-beta.2+unknown", "0.6.1"),
    )
}
"""Runtimes by the name of their profile; iSulad calls itself ``v2``."""
