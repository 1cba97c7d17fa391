# SPDX-License-Identifier: Apache-2.0
"""Names of methods, events and services as sent on the wire, some of them chosen by a peer."""

from __future__ import annotations

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.nri import invocation
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS

NRI_NAMES = frozenset(
    {
        *METHODS,
        *(one.service for one in METHODS.values()),
        *(event.name for event in Event),
    }
)
"""The names of NRI's methods, services and events."""
_KNOWN = NRI_NAMES | {
    "",
    CONTAINER_STATUS,
    CRI_SERVICE,
    *invocation.METHODS,
    invocation.INVOKE,
    invocation.SERVICE,
}


def is_known(name: str) -> bool:
    """Return whether a name is one of NRI or nri-scope.

    Any other name was chosen by a peer and may contain a secret, so it is redacted like a text.
    """
    return name in _KNOWN
