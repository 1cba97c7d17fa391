# SPDX-License-Identifier: Apache-2.0
"""Rejections: plugins that failed before they got events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest
from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.merging.owners import quoted


class Stage(StrEnum):
    """Stage of a plugin's set-up."""

    LAUNCH = "launch"
    REGISTRATION = "registration"
    CONFIGURATION = "configuration"
    SYNCHRONIZATION = "synchronization"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Failure of a plugin before it got events."""

    plugin: str
    """``NN-name`` as registered, valid or not; "" if it never registered."""
    stage: Stage
    reason: str
    error_sent: str = ""
    """Error text sent to the plugin; "" if none was sent, or it was only disconnected."""


def registration_problem(
    request: RegisterPluginRequest, *, checks_names: bool
) -> tuple[str, str] | None:
    """Return why a registration is invalid, in our and in the runtime's wording; None if valid.

    The runtime's wording is that of RegisterPlugin in NRI's ``pkg/adaptation/plugin.go``; with
    ``checks_names``, that of NRI 0.12 and later.
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
    # Go quotes a single character with ', so it escapes ' instead of ".
    character = quoted(bad)[1:-1].replace(r"\"", '"') if bad != "'" else r"\'"
    return (
        f"invalid plugin name: invalid plugin name {quoted(name)}: "
        f"contains invalid character '{character}'"
    )
