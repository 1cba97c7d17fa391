# SPDX-License-Identifier: Apache-2.0
"""Changes applied to messages and texts when they are copied to a new recording.

Names of methods, events and services that a peer chose are changed like texts.
"""

from __future__ import annotations

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.nri import invocation
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS

from ..redaction import NameKind, Redactor


class Unchanged:
    """Learns nothing and returns its arguments unchanged; see `Redactor` for each method."""

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        """Ignore the event."""

    def learn_text(self, text: str) -> None:
        """Ignore the text."""

    def learn_name(self, kind: NameKind, text: str) -> None:
        """Ignore the name."""

    def learn_keyed(self, key: str, value: str) -> None:
        """Ignore the pair."""

    def request(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return ``message``."""
        return message

    def reply(self, method: str, message: bytes, *, service: str = "") -> bytes:
        """Return ``message``."""
        return message

    def text(self, text: str, place: str = "text", *, of_event: bool = False) -> str:
        """Return ``text``."""
        return text

    def keyed(self, key: str, value: str, place: str) -> tuple[str, str]:
        """Return ``key`` and ``value``."""
        return key, value

    def name(self, kind: NameKind, text: str) -> str:
        """Return ``text``."""
        return text

    def id(self, text: str) -> str:
        """Return ``text``."""
        return text

    def path(self, pointer: str) -> str:
        """Return ``pointer``."""
        return pointer


Change = Redactor | Unchanged
"""The change applied to messages and texts when they are copied to a new recording."""


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
