# SPDX-License-Identifier: Apache-2.0
"""Which plugin changed what of a container: evidence weighed, in OCI terms."""

from .differ import Differ
from .history import History
from .model import Applied, Asked, Claim, Evidence, RoundDiff, Span, Step
from .owner import Owner, Who
from .rounds import Round, Rounds, Station

__all__ = [
    "Applied",
    "Asked",
    "Claim",
    "Differ",
    "Evidence",
    "History",
    "Owner",
    "Round",
    "RoundDiff",
    "Rounds",
    "Span",
    "Station",
    "Step",
    "Who",
]
