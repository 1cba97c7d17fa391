# SPDX-License-Identifier: Apache-2.0
"""Names that whoever called chose: methods, events and services as the wire had them."""

from __future__ import annotations

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS

_KNOWN = frozenset(
    {
        "",
        CONTAINER_STATUS,
        CRI_SERVICE,
        *METHODS,
        *(one.service for one in METHODS.values()),
        *(event.name for event in Event),
    }
)


def is_known(name: str) -> bool:
    """Whether it is a name of NRI's, or of ours: nothing that anybody chose.

    Any other one may say anything, so it is changed as a text is.
    """
    return name in _KNOWN
