# SPDX-License-Identifier: Apache-2.0
"""The profiles that users can select by name."""

from __future__ import annotations

import difflib
from dataclasses import replace

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event

from . import lifecycle_rules
from .profile import Profile

RECORDED = "recorded"
"""Name of the profile of the recorded runtime."""

_NONE = frozenset[Event]()
_POST_UPDATE_OF_PODS = frozenset({Event.PostUpdatePodSandbox})
_UPDATES_OF_PODS = _POST_UPDATE_OF_PODS | {Event.UpdatePodSandbox}

_CONTAINERD, _CONTAINERD_2_3 = lifecycle_rules.CONTAINERD, lifecycle_rules.CONTAINERD_2_3

PROFILES: dict[str, Profile] = {
    name: replace(
        Profile.of(name, runtime_name, version, nri), lifecycle_rules=rules, never_sent=never_sent
    )
    for name, runtime_name, version, nri, rules, never_sent in (
        # containerd 1.7.16 to 1.7.25, as shipped by distributions, have NRI 0.6.1; 1.7.26 has
        # 0.8.0.
        ("containerd-1.7", "containerd", "1.7.24", "0.6.1", _CONTAINERD, _NONE),
        ("containerd-2.1", "containerd", "2.1.9", "0.8.0", _CONTAINERD, _NONE),
        # Its UpdatePodSandboxResources is not implemented.
        ("containerd-2.2", "containerd", "2.2.1", "0.11.0", _CONTAINERD, _UPDATES_OF_PODS),
        ("containerd-2.3", "containerd", "2.3.0", "0.12.0", _CONTAINERD_2_3, _NONE),
        ("containerd-2.4", "containerd", "2.4.2", "0.12.3", _CONTAINERD_2_3, _NONE),
        # No release of a runtime has this NRI so far.
        ("nri-0.12.5", "containerd", "2.4.2", "0.12.5", _CONTAINERD_2_3, _NONE),
        # server/sandbox_update_resources.go sends only one of the two events.
        ("cri-o", "cri-o", "1.37.0", "0.12.0", lifecycle_rules.CRI_O, _POST_UPDATE_OF_PODS),
        # iSulad sends the name and version of containerd, after which it was modelled (plugin.cc).
        ("isulad", "v2", "2.0.0-beta.2+unknown", "0.6.1", lifecycle_rules.ISULAD, _NONE),
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
    nearest = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    hint += f"profiles are {', '.join(names)}"
    raise UsageError(f"there is no profile {name!r}", hint)
