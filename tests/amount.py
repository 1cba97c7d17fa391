# SPDX-License-Identifier: Apache-2.0
"""How much a test does of one thing: in CI less, in `make test` least."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

EXAMPLES = os.environ.get("NRI_SCOPE_EXAMPLES", "")
"""Of hypothesis. "fixed": the same ones in every run, so that a change is judged by those of the
one before it; "few": fewer of them, for `make test` and for one more Python. Without a word they
are new each time.
"""


def amount(whole: int, in_ci: int) -> int:
    """Return how many examples, lifecycles, … there are; for "few" a third of CI's."""
    if EXAMPLES == "few":
        return max(1, in_ci // 3)
    return in_ci if EXAMPLES else whole


def sampled(values: Iterable[Any], number: int = 1) -> list[Any]:
    """Return the values of a parameter, of which `make test` runs the first ``number`` only.

    A tuple is the values of several parameters.
    """
    return [
        pytest.param(
            *(each if isinstance(each, tuple) else (each,)),
            marks=[pytest.mark.exhaustive] if at >= number else [],
        )
        for at, each in enumerate(values)
    ]
