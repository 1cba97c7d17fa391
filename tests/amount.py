# SPDX-License-Identifier: Apache-2.0
"""How much a test does of one thing: in CI less, where all of them have to end soon."""

from __future__ import annotations

import os

EXAMPLES = os.environ.get("NRI_SCOPE_EXAMPLES", "")
"""Of hypothesis. "fixed": the same ones in every run, so that a change is judged by those of the
one before it; "few": fewer of them, for one more Python. Without a word they are new each time.
"""


def amount(whole: int, in_ci: int) -> int:
    """Return how many examples, lifecycles, … there are; for one more Python a third of CI's."""
    if EXAMPLES == "few":
        return max(1, in_ci // 3)
    return in_ci if EXAMPLES else whole
