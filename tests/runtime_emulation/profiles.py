# SPDX-License-Identifier: Apache-2.0
"""Profiles of runtimes with deadlines that tests always meet, or set themselves."""

from __future__ import annotations

from dataclasses import replace

from nri_scope.runtime import PROFILES, Profile


def patient(name: str, **changes: int) -> Profile:
    """Return a profile with deadlines that even slow machines meet."""
    return replace(
        PROFILES[name],
        **{"registration_timeout_ms": 60_000, "request_timeout_ms": 60_000, **changes},  # type: ignore[arg-type]
    )


OLD = patient("containerd-1.7")
"""NRI 0.6: StateChange, no split Synchronize, any name."""
SPLITTING = patient("containerd-2.1")
"""NRI 0.8: StateChange, split Synchronize."""
NEW = patient("cri-o")
"""NRI 0.12: an RPC for each event, names checked."""
