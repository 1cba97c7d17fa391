# SPDX-License-Identifier: Apache-2.0
"""Failure policies: what a runtime does when a plugin does not answer a request (NRI 0.12.4).

By ``handleRequestError`` of NRI 0.12.5 (``pkg/adaptation/plugin.go``). Not answering is a missed
deadline, a lost connection or a protocol error. An error status is an answer: it fails the request
under any policy. A validator that does not answer fails the creation under any policy.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .negotiation import describe_runtime, nri_version_of
from .versions import has_failure_policy


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
                nearest = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {nearest[0]}? " if nearest else ""
                raise UsageError(
                    f"NRI has no failure policy {name!r}", f"{hint}known are {', '.join(known)}"
                )
        return cls(**dict.fromkeys(names, True))

    @classmethod
    def of(cls, reply: bytes) -> FailurePolicy:
        """Return the policy in a Configure reply's payload; the default if it is malformed."""
        try:
            sent = api.ConfigureResponse.FromString(reply).failure_policy
        except DecodeError:
            return cls()
        return cls(sent.fail_request, sent.keep_connected)

    def configure_response(self, mask: int) -> bytes:
        """Return the payload of the Configure reply that subscribes to the events of ``mask``."""
        reply = api.ConfigureResponse(events=mask)
        if self != NO_POLICY:
            reply.failure_policy.fail_request = self.fail_request
            reply.failure_policy.keep_connected = self.keep_connected
        return reply.SerializeToString()

    def check_known_by(self, configure: api.ConfigureRequest) -> None:
        """Raise `UsageError` if this is not the default and the runtime does not apply it."""
        version, inferred = nri_version_of(configure)
        if self != NO_POLICY and not has_failure_policy(version):
            raise UsageError(
                f"{describe_runtime(configure, version, inferred)} does not know the failure "
                f"policy {self}",
                "it needs NRI 0.12.4; leave it out for this runtime",
            )


NO_POLICY = FailurePolicy()
"""The policy of a plugin that sends none."""
