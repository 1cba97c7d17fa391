# SPDX-License-Identifier: Apache-2.0
"""Failure policies: what a runtime does when a plugin does not answer a request (NRI 0.12.4).

By ``handleRequestError`` of NRI 0.12.5 (``pkg/adaptation/plugin.go``). Not answering is a missed
deadline, a lost connection or a protocol error. An error status is an answer: it fails the request
under any policy. A validator that does not answer fails the creation under any policy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from nri_scope.errors import UsageError


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The failure policy of a plugin, by default that of all plugins before NRI 0.12.4."""

    fail_request: bool = False
    """Whether the request fails. Otherwise it goes on to the other plugins."""
    keep_connected: bool = False
    """Whether a plugin that misses a deadline stays connected, and so gets the next requests."""

    def __str__(self) -> str:
        """Return the names of the fields that are set, in the form that `parse` accepts."""
        return ",".join(one.name for one in fields(self) if getattr(self, one.name))

    @classmethod
    def parse(cls, text: str) -> FailurePolicy:
        """Parse names of fields, separated by commas; "" for the default.

        Raises `UsageError` for any other name.
        """
        known = [one.name for one in fields(cls)]
        names = [name.strip() for name in text.split(",")] if text else []
        for name in names:
            if name not in known:
                import difflib

                nearest = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {nearest[0]}? " if nearest else ""
                raise UsageError(
                    f"NRI has no failure policy {name!r}", f"{hint}known are {', '.join(known)}"
                )
        return cls(**dict.fromkeys(names, True))


NO_POLICY = FailurePolicy()
"""The policy of a plugin that sends none."""
