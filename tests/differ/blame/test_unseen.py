# SPDX-License-Identifier: Apache-2.0
"""What only the CRI shows of a container, where not all of its creation was seen."""

from __future__ import annotations

import pytest

from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import RUNTIME, UNKNOWN, Owner, Who
from nri_scope.differ.blame import lines
from nri_scope.oci import Spec

REAL: Spec = {"ociVersion": "1.2.1", "process": {"rlimits": [{"type": "RLIMIT_CORE", "hard": 1}]}}


@pytest.mark.parametrize(
    ("created", "tail", "owner"),
    [
        (0, RUNTIME, "unknown"),
        (1, RUNTIME, "runtime"),
        (
            1,
            Owner(Who.ONE_OF, first="51", last="99", ties=("50",), or_runtime=True),
            "one of 51–99, or the runtime",
        ),
        (1, Owner(Who.ONE_OF, first="99", last="99", or_runtime=True), "runtime"),
    ],
)
def test_it_is_not_the_runtimes_for_want_of_others(created: int, tail: Owner, owner: str) -> None:
    history = History("app-id", "shop/web/app", base_owner=UNKNOWN, created_event=created)
    history.tail, history.real = tail, REAL
    owners = {line.path: str(line.owner) for line in lines(history) if not line.heading}
    assert owners["/process/rlimits/RLIMIT_CORE/hard"] == owner
    # No plugin can have changed that.
    assert owners["/ociVersion"] == "runtime"
