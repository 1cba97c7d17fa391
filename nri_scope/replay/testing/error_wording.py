# SPDX-License-Identifier: Apache-2.0
"""Reword errors for a test, which has arguments in place of command-line options."""

from __future__ import annotations

from nri_scope.errors import NriScopeError
from nri_scope.text.escape import safe

_ARGUMENTS = {
    "--update-golden": "--nri-golden=update",
    "--no-effects": "effects=False",
    "--ideal": "ideal=True",
    "--external": "external=True",
    "--profile ": "profile=",
    "--profile": "profile=…",
    "--session": "session=…",
    "--fault ": "fault ",
}


def problem(error: NriScopeError) -> str:
    """Return the error as one line with its hint, safe for a terminal."""
    text = str(error)
    for option, argument in _ARGUMENTS.items():
        text = text.replace(option, argument)
    return safe(text)
