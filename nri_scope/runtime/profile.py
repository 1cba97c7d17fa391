# SPDX-License-Identifier: Apache-2.0
"""Profiles: the behaviour of a runtime version towards its plugins, by names to select."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from nri_scope._gen.nri.api_pb2 import ConfigureRequest
from nri_scope.errors import UsageError, did_you_mean
from nri_scope.nri.events import (
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
    EventKind,
)
from nri_scope.nri.versions import (
    V0_7,
    V0_12,
    NriVersion,
    SortKey,
    has_dedicated_rpcs,
    has_split_sync,
    has_timeouts,
    runtime_title,
    runtime_words,
    sends_nri_version,
    sort_key,
    valid_mask,
)

from .rules import (
    CONTAINERD,
    CONTAINERD_1_7,
    CONTAINERD_2_3,
    CRI_O,
    CRI_O_1_33,
    CRI_O_1_35,
    CRI_O_1_36,
    DOCKER,
    ISULAD,
    VERBATIM,
    DispatchRules,
    LifecycleRules,
    dispatch_rules_of,
)


@cache
def _parsed(version: str) -> NriVersion | None:
    return NriVersion.parse(version)


@dataclass(frozen=True, slots=True)
class Profile:
    """Behaviour of one runtime version. Create it with `of`; vary it with `dataclasses.replace`."""

    name: str
    """Name of the profile, as users select it."""
    runtime_name: str
    """Name in Configure. (iSulad calls itself ``v2``.)"""
    runtime_version: str
    nri_version: str
    """Version of NRI without the leading ``v``; "" if unknown."""
    mask: int
    """Bits of all events known to the runtime; a plugin that subscribes to others is dropped."""
    dedicated_rpcs: bool
    """Whether each event has its own RPC; otherwise nine events share StateChange."""
    split_sync: bool
    """Whether a Synchronize over 4 MiB is split; otherwise it fails and the plugin is dropped."""
    sends_timeouts: bool
    """Whether Configure has the registration and request timeouts."""
    sends_nri_version: bool
    """Whether Configure has the NRI version."""
    checks_names: bool
    """Whether plugin names must consist of letters, digits and ``_.+-``; otherwise only "" is
    invalid."""
    dispatch_rules: DispatchRules
    """Rules for dispatching events, and for handling replies and failures."""
    synchronizes_launched: bool
    """Whether launched plugins get Synchronize. They do not up to NRI 0.6 (``startPlugins`` of NRI
    0.6.1), nor in iSulad."""
    closes_unsynchronized: bool
    """Whether a failed Synchronize ends the connection. Up to NRI 0.6 the plugin stays connected
    and gets no requests (``acceptPluginConnections`` of NRI 0.6.1)."""
    lifecycle_rules: LifecycleRules = VERBATIM
    """Rules for the data sent about the lifecycle of pods and containers."""
    since: SortKey | None = None
    """First version of the runtime with this behaviour; None if no release has it."""
    never_sent: frozenset[EventKind] = frozenset()
    """Events that plugins can subscribe to but the runtime never sends."""
    registration_timeout_ms: int = DEFAULT_REGISTRATION_TIMEOUT_MS
    """Deadline for a new connection to register; other new connections wait meanwhile."""
    request_timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS
    """Deadline for a plugin's answer to a request."""

    @classmethod
    def of(
        cls, name: str, runtime_name: str, runtime_version: str, nri: str | NriVersion | None
    ) -> Profile:
        """Return the profile of a runtime with NRI version ``nri``; None or "" for unknown.

        Its lifecycle rules are `VERBATIM`.
        """
        version = NriVersion.parse(nri) if isinstance(nri, str) else nri
        rules = dispatch_rules_of(runtime_name, runtime_version)
        modern = version is not None and version >= V0_7
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
            dispatch_rules=rules,
            synchronizes_launched=modern and rules.synchronizes_launched,
            closes_unsynchronized=modern and not rules.keeps_unsynchronized,
        )

    @property
    def version(self) -> NriVersion | None:
        """The NRI version; None if unknown."""
        return _parsed(self.nri_version)

    @property
    def shows_rlimits(self) -> bool:
        """Whether events after a creation have the container's rlimits."""
        return self.lifecycle_rules.contents.tells_process and not self.lifecycle_rules.is_sparse

    @property
    def title(self) -> str:
        """The runtime for display: ``containerd 2.1.9 (NRI 0.8.0)``."""
        runtime = runtime_words(self.runtime_name, self.runtime_version) or "this runtime"
        return f"{runtime} (NRI {self.nri_version or 'unknown'})"

    def configure_request(self, config: str = "") -> ConfigureRequest:
        """Return the Configure request of this runtime.

        Real runtimes send external plugins an empty ``config``.
        """
        return ConfigureRequest(
            config=config,
            runtime_name=self.runtime_name,
            runtime_version=self.runtime_version,
            registration_timeout=self.registration_timeout_ms if self.sends_timeouts else 0,
            request_timeout=self.request_timeout_ms if self.sends_timeouts else 0,
            NRI_version=f"v{self.nri_version}" if self.sends_nri_version else "",
        )

    def skip_reason(self, event: EventKind) -> str:
        """Return why this runtime never sends ``event``; "" if it does."""
        if not self.mask & event.bit:
            return f"{self.title} has no {event.name}"
        if event in self.never_sent:
            return f"{self.title} never sends {event.name}, though plugins may subscribe to it"
        return ""


RECORDED = "recorded"
"""Name of the profile of the recorded runtime."""

_NONE = frozenset[EventKind]()
_POST_UPDATE_OF_PODS = frozenset({EventKind.PostUpdatePodSandbox})
_ALL_BUT_CREATIONS = frozenset(EventKind) - {
    EventKind.CreateContainer,
    EventKind.ValidateContainerAdjustment,
}
_UPDATES_OF_PODS = _POST_UPDATE_OF_PODS | {EventKind.UpdatePodSandbox}


_1_33 = "0.9.1-0.20250219030224-e597e7849f24"

PROFILES: dict[str, Profile] = {
    name: replace(
        Profile.of(name, runtime_name, version, nri),
        lifecycle_rules=rules,
        since=sort_key(since),
        never_sent=never_sent,
    )
    for name, since, runtime_name, version, nri, rules, never_sent in (
        # containerd 1.7.16 to 1.7.25, as shipped by distributions, have NRI 0.6.1.
        ("containerd-1.7", "1.7.0", "containerd", "1.7.24", "0.6.1", CONTAINERD_1_7, _NONE),
        # `runtime_rules_of` has the versions that drop CDI devices.
        ("containerd-1.7.26", "1.7.26", "containerd", "1.7.29", "0.8.0", CONTAINERD_1_7, _NONE),
        ("containerd-1.7.30", "1.7.30", "containerd", "1.7.35", "0.8.0", CONTAINERD_1_7, _NONE),
        ("containerd-2.0", "2.0.0", "containerd", "2.0.14", "0.8.0", CONTAINERD_1_7, _NONE),
        ("containerd-2.1", "2.1.0", "containerd", "2.1.9", "0.8.0", CONTAINERD, _NONE),
        # Its UpdatePodSandboxResources is not implemented.
        ("containerd-2.2", "2.2.0", "containerd", "2.2.1", "0.11.0", CONTAINERD, _UPDATES_OF_PODS),
        ("containerd-2.3", "2.3.0", "containerd", "2.3.0", "0.12.0", CONTAINERD_2_3, _NONE),
        ("containerd-2.4", "2.4.0", "containerd", "2.4.2", "0.12.3", CONTAINERD_2_3, _NONE),
        # No release of a runtime has this NRI so far.
        ("nri-0.12.5", "", "containerd", "2.4.2", "0.12.5", CONTAINERD_2_3, _NONE),
        # server/sandbox_update_resources.go sends only one of the two events. `dispatch_rules_of`
        # has the versions whose StopContainer fails.
        ("cri-o-1.33", "1.33.0", "cri-o", "1.33.9", _1_33, CRI_O_1_33, _POST_UPDATE_OF_PODS),
        ("cri-o-1.33.10", "1.33.10", "cri-o", "1.33.13", _1_33, CRI_O_1_35, _POST_UPDATE_OF_PODS),
        ("cri-o-1.34", "1.34.0", "cri-o", "1.34.4", "0.10.0", CRI_O_1_33, _POST_UPDATE_OF_PODS),
        ("cri-o-1.34.5", "1.34.5", "cri-o", "1.34.11", "0.10.0", CRI_O_1_35, _POST_UPDATE_OF_PODS),
        ("cri-o-1.35", "1.35.0", "cri-o", "1.35.6", "0.11.0", CRI_O_1_35, _POST_UPDATE_OF_PODS),
        ("cri-o-1.36", "1.36.0", "cri-o", "1.36.3", "0.11.0", CRI_O_1_36, _POST_UPDATE_OF_PODS),
        ("cri-o", "1.37.0", "cri-o", "1.37.0", "0.12.0", CRI_O, _POST_UPDATE_OF_PODS),
        # moby v2.0.0-beta.24 calls only these (daemon/internal/nri).
        ("docker", "29.2.0", "docker", "29.2.0", "0.12.3", DOCKER, _ALL_BUT_CREATIONS),
        # iSulad sends the name and version of containerd, after which it was modelled (plugin.cc).
        ("isulad", "0.0", "v2", "2.0.0-beta.2+unknown", "0.6.1", ISULAD, _NONE),
    )
}
"""Profiles by name."""


def profile_named(name: str, recorded: Profile | None = None) -> Profile:
    """Return a profile by its name; ``recorded`` is the profile for the name "recorded".

    Raises `UsageError` for an unknown name, with the nearest name as a hint.
    """
    if name == RECORDED and recorded is not None:
        return recorded
    profile = PROFILES.get(name)
    if profile is not None:
        return profile
    names = ([RECORDED] if recorded is not None else []) + list(PROFILES)
    hint = f"{did_you_mean(name.lower(), names, cutoff=0.5)} profiles are {', '.join(names)}"
    raise UsageError(f"there is no profile {name!r}", hint.lstrip())


def nearest_profile(runtime_name: str, runtime_version: str, nri_version: str) -> Profile:
    """Return the profile for a version of a runtime; containerd's for an unknown runtime.

    A version older than all profiles has the oldest. One that is not a number, as of a build from
    a branch, has the newest profile whose NRI is not newer.
    """
    title, key = runtime_title(runtime_name), sort_key(runtime_version)
    own = [each for each in PROFILES.values() if runtime_title(each.runtime_name) == title]
    nri = NriVersion.parse(nri_version)
    if own and key is not None:
        older = [profile for profile in own if profile.since is not None and profile.since <= key]
    else:
        own = own or [each for each in PROFILES.values() if each.runtime_name == "containerd"]
        older = [each for each in own if nri and each.version and each.version <= nri]
    return older[-1] if older else own[0]


def recorded_profile(name: str, version: str, nri: str | NriVersion | None) -> Profile:
    """Return the profile "recorded" of a runtime: requests as recorded, otherwise the nearest."""
    profile = Profile.of(RECORDED, name, version, nri)
    nearest = nearest_profile(name, version, profile.nri_version)
    return replace(profile, lifecycle_rules=nearest.lifecycle_rules.recorded())
