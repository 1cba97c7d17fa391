# SPDX-License-Identifier: Apache-2.0
"""Comparable form of the differ's changes, and a failure that lists the wrong cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from nri_scope.differ.attribution.attributed_changes import ChangeStep
from nri_scope.specs import Json


class ReportedChange(NamedTuple):
    """One change, as reported by the differ."""

    owner: str
    path: str
    before: Json
    after: Json


def reported(steps: Iterable[ChangeStep]) -> list[ReportedChange]:
    """Convert steps to changes without the details that differ between runs."""
    return [
        ReportedChange(str(step.owner), step.change.path, step.change.before, step.change.after)
        for step in steps
    ]


def fail_if_any(wrong: Mapping[str, object]) -> None:
    """Fail with one line for each wrong case, if there is one."""
    if wrong:
        text = "\n".join(f"{name}: {problem}" for name, problem in wrong.items())
        pytest.fail(f"{len(wrong)} cases\n{text}", pytrace=False)
