# SPDX-License-Identifier: Apache-2.0
"""The answers of the CRI to ContainerStatus, which are replies to events of a ``cri`` session.

An answer is the JSON text from ``info`` of a verbose reply, with the OCI spec that the runtime used
in ``runtimeSpec``, and ``status`` if the container failed to start. A recorder on the container's
node adds ``cgroup``, the limits in its cgroups by OCI path, and ``bundleSpec``, the differences of
its config.json from ``runtimeSpec`` (`specs.patch_of`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from nri_scope import specs
from nri_scope.specs import Json, Spec

CREATION_SECONDS = 10.0
"""Time after a creation's chain from which `NOT_FOUND` shows that the creation failed. Until the
end of a creation, runtimes do not know the container."""
NOT_FOUND = '{"notFound": true}'
"""Answer for a container that the runtime does not know."""


class CriStatus(NamedTuple):
    """What the CRI and the container's files said, at the time of one question."""

    spec: Spec | None
    """The OCI spec that the runtime created; None if the answer has none."""
    failure: str = ""
    """The runtime's error if the container failed to start; "" otherwise."""
    bundle_spec: Spec | None = None
    """The container's config.json, which has the spec of its creation; None if it was not read."""
    cgroup: Mapping[str, Json] = MappingProxyType({})
    """Limits in the container's cgroups, by OCI path; see `specs.agrees` for inexact values."""
    not_found: bool = False
    """Whether the runtime did not know the container."""


_WORDS_MAX = 1_000
_RESOURCES = "/linux/resources/"


def container_status(reply: bytes) -> CriStatus:
    """Parse the CRI's verbose answer; invalid JSON is an empty status."""
    try:
        info = json.loads(reply, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return CriStatus(None)
    if not isinstance(info, dict):
        return CriStatus(None)
    spec, patch, cgroup = map(info.get, ("runtimeSpec", "bundleSpec", "cgroup"))
    spec = spec if isinstance(spec, dict) else None
    limits = cgroup.items() if isinstance(cgroup, dict) else ()
    try:
        bundle_spec = specs.patched(spec, patch) if spec and isinstance(patch, dict) else None
    except RecursionError:
        bundle_spec = None
    return CriStatus(
        spec,
        _failure(info.get("status")),
        bundle_spec,
        {path: value for path, value in limits if path.startswith(_RESOURCES)},
        info.get("notFound") is True,
    )


def _failure(status: object) -> str:
    if not isinstance(status, dict) or status.get("state") != "CONTAINER_EXITED":
        return ""
    reason, code, message = (status.get(key) for key in ("reason", "exitCode", "message"))
    facts = [reason[:_WORDS_MAX]] if isinstance(reason, str) and reason else []
    facts += [f"exit code {code}"] if isinstance(code, int) else []
    words = f": {message[:_WORDS_MAX]}" if isinstance(message, str) and message else ""
    return f"the container failed to start and never ran ({', '.join(facts)}){words}"


def _finite(text: str) -> float:
    """Parse a JSON number. Raises ValueError for NaN, Infinity and numbers outside the range."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"not a finite number: {text}")
    return number
