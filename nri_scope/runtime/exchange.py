# SPDX-License-Identifier: Apache-2.0
"""One request to a plugin and what came back, exactly as they were on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from nri_scope.errors import NriScopeError


@dataclass(frozen=True, slots=True)
class Exchange:
    """Any request, those of the set-up included."""

    method: str
    service: str
    request: bytes
    reply: bytes
    """Empty where there is an error."""
    error: NriScopeError | None
    started_ns: int
    """Monotonic clock."""
    took_ns: int
    timeout_ns: int
    """The deadline that was sent along."""
