# SPDX-License-Identifier: Apache-2.0
"""Plugins that connected, or were launched, and failed before they got events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest
from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.merging.owners import quoted


class Stage(StrEnum):
    """The stage that a plugin has reached in its set-up."""

    LAUNCH = "launch"
    REGISTRATION = "registration"
    CONFIGURATION = "configuration"
    SYNCHRONIZATION = "synchronization"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One of them: who, where it ended and why."""

    plugin: str
    """``NN-name`` as it registered, right or wrong; "" if it never did."""
    stage: Stage
    reason: str
    told: str = ""
    """The error that the plugin got; "" where it learns nothing, or sees only a disconnect."""


def problem_of(request: RegisterPluginRequest, *, checks_names: bool) -> tuple[str, str] | None:
    """Return why a registration is refused, in our words and in the runtime's; None if it is not.

    The runtime's are those of ``RegisterPlugin`` in NRI's ``pkg/adaptation/plugin.go``: from 0.12
    on with ``checks_names``.
    """
    name, index = request.plugin_name, request.plugin_idx
    try:
        if checks_names or not name:
            check_name(name)
    except UsageError as error:
        return error.problem, _bad_name(name) if checks_names else "invalid (empty) plugin name"
    try:
        check_index(index)
    except UsageError as error:
        # Go counts bytes.
        rule = ", must be 2 digits" if len(index.encode()) != 2 else " (not [0-9][0-9])"
        words = f"invalid plugin index {quoted(index)}{rule}"
        return error.problem, f"invalid plugin index: {words}"
    return None


def _bad_name(name: str) -> str:
    if not name:
        return "invalid plugin name: invalid plugin name: name is empty"
    bad = next(one for one in name if not (one.isascii() and (one.isalnum() or one in "_.+-")))
    # A single character in Go's words has single quotes, which then are what is escaped.
    character = quoted(bad)[1:-1].replace(r"\"", '"') if bad != "'" else r"\'"
    return (
        f"invalid plugin name: invalid plugin name {quoted(name)}: "
        f"contains invalid character '{character}'"
    )
