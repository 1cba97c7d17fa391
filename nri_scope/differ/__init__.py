# SPDX-License-Identifier: Apache-2.0
"""Which plugin changed what of a container: evidence weighed, in OCI terms."""

from .attribution.differ import Differ
from .attribution.history import History
from .attribution.model import Applied, Asked, Claim, Evidence, RoundDiff, Span, Step
from .attribution.owner import Owner, Who
from .attribution.rounds import Round, Rounds, Station

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
