# SPDX-License-Identifier: Apache-2.0
"""Wording of errors for a test, which has arguments instead of the command's options."""

from __future__ import annotations

from nri_scope.errors import NriScopeError
from nri_scope.text.escape import safe

_INSTEAD = {
    "--update-golden": "--nri-golden=update",
    "--no-effects": "effects=False",
    "--profile ": "profile=",
    "--profile": "profile=…",
    "--session": "session=…",
    "--fault ": "fault ",
}


def problem(error: NriScopeError) -> str:
    """Return one line that names the problem and the way out, safe for a terminal."""
    text = str(error)
    for option, argument in _INSTEAD.items():
        text = text.replace(option, argument)
    return safe(text)
