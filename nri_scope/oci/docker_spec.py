# SPDX-License-Identifier: Apache-2.0
"""Apply a merged adjustment as Docker Engine does, which supports variables and some mounts.

From moby's source (``daemon/internal/nri/nri.go`` of v2.0.0-beta.18 to beta.24, and the validation
of mounts in ``daemon/volume/mounts/linux_parser.go``), held against a built Engine.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import SYNCHRONIZE
from nri_scope.specs.json_spec import Json, Spec, is_within, split

from .adjustment import adjust as adjust_as_upstream
from .adjustment import removed_key

UPDATES = "container update is not supported"
"""Docker's error about an update in a reply to CreateContainer."""

_UNSUPPORTED = {
    "/annotations": "annotations",
    "/hooks": "hooks",
    "/linux/devices": "linux",
    "/linux/cgroupsPath": "linux",
    "/process/oomScoreAdj": "linux",
    "/process/ioPriority": "linux",
    "/linux/seccomp": "linux",
    "/linux/namespaces": "linux",
    "/linux/resources/memory": "linux.resources.memory",
    "/linux/resources/cpu": "linux.resources.cpu",
    "/process/rlimits": "rlimits",
    "/cdiDevices": "CDI",
    "/process/args": "args",
}
"""Paths of the adjustments that Docker refuses, with its name for each, in its order."""
_PREFIX = "unsupported container adjustments: "
_NO_NAME = "empty environment variable key"
_MOUNTS = "/mounts/"
_ENV = "/process/env/"
_DEVICES = "/linux/devices/"
DROPPED = "Docker Engine ignores it"
_NEEDS_SOURCE = frozenset({"bind", "image"})
_MOUNT_TYPES = _NEEDS_SOURCE | {"volume", "tmpfs"}


def treatment(path: str, value: Json) -> tuple[str, str]:
    """Return why Docker refuses the creation because of an adjustment, and why it drops it.

    Both are "" for an adjustment that it applies, as far as the adjustment alone shows that: the
    source of a mount may be missing, and its target may be that of another mount.
    """
    if path.startswith(_MOUNTS):
        return _refused_mount(split(path)[1], value) if path.count("/") == 2 else "", ""
    if path.startswith(_ENV):
        return "" if path != _ENV else _NO_NAME, ""
    if path.startswith(_DEVICES) and path.count("/") == 3 and not isinstance(value, dict):
        # A removed device is not in the merged adjustment.
        return "", ""
    for unsupported, word in _UNSUPPORTED.items():
        if is_within(path, (unsupported,)):
            return f"{_PREFIX}{word}", ""
    return "", DROPPED


def error_outside_chain(event: str) -> str:
    """Return Docker's error about updates in a reply to Synchronize, or in an own call."""
    if event == SYNCHRONIZE:
        # It then disconnects the plugin.
        return "container updates during sync are not implemented"
    return "not implemented"


def error_of(refusals: Iterable[str]) -> str:
    """Return Docker's error about all refusals of one creation; "" without any."""
    reasons = list(refusals)
    if UPDATES in reasons:
        return UPDATES
    words = {reason.removeprefix(_PREFIX) for reason in reasons if reason.startswith(_PREFIX)}
    if words:
        ordered = dict.fromkeys(word for word in _UNSUPPORTED.values() if word in words)
        return _PREFIX + ",".join(ordered)
    return _NO_NAME if _NO_NAME in reasons else next(iter(reasons), "")


def _refused_mount(target: str, value: Json) -> str:
    if removed_key(target) is not None or not isinstance(value, dict):
        return "Docker Engine refuses the removal of a mount"
    options, source, kind = value.get("options"), value.get("source"), value.get("type")
    for option in options if isinstance(options, list) else ():
        if option not in ("ro", "readonly"):
            return f'mount option "{option}" is not supported'
    if posixpath.normpath(target) == "/" or not target.startswith("/"):
        return "the target of a mount must be an absolute path other than /"
    if kind not in _MOUNT_TYPES:
        return "mount type unknown"
    if kind == "tmpfs" and source:
        return "a tmpfs must have no source"
    if kind in _NEEDS_SOURCE and not source:
        return f"a mount of type {kind} must have a source"
    if kind == "bind" and not str(source).startswith("/"):
        return "the source of a bind mount must be an absolute path"
    return ""


def adjust(spec: Spec, adjustment: api.ContainerAdjustment) -> Spec:
    """Return `spec` with the variables and mounts of an adjustment, as requested."""
    return adjust_as_upstream(
        spec, api.ContainerAdjustment(env=adjustment.env, mounts=_supported(adjustment.mounts))
    )


def _supported(mounts: Sequence[api.Mount]) -> list[api.Mount]:
    return [mount for mount in mounts if removed_key(mount.destination) is None]
