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
    """A plugin that failed before it got events: its name, the stage and the reason."""

    plugin: str
    """``NN-name`` as registered, right or wrong; "" if it never registered."""
    stage: Stage
    reason: str
    told: str = ""
    """The error that the plugin got; "" if it got none, or only sees a disconnect."""


def problem_of(request: RegisterPluginRequest, *, checks_names: bool) -> tuple[str, str] | None:
    """Return why a registration is refused, in our words and in the runtime's; None if it is not.

    The runtime's words are those of ``RegisterPlugin`` in NRI's ``pkg/adaptation/plugin.go``, with
    ``checks_names`` those from 0.12 on.
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
    # Go puts a single character between single quotes, so these are escaped instead.
    character = quoted(bad)[1:-1].replace(r"\"", '"') if bad != "'" else r"\'"
    return (
        f"invalid plugin name: invalid plugin name {quoted(name)}: "
        f"contains invalid character '{character}'"
    )
