# SPDX-License-Identifier: Apache-2.0
"""What the differ tells, in a form to compare; and a failure that tells what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from nri_scope.differ.attribution.attributed_changes import ChangeStep
from nri_scope.oci import Json


class Said(NamedTuple):
    """One change as the differ tells it."""

    owner: str
    path: str
    before: Json
    after: Json


def said(steps: Iterable[ChangeStep]) -> list[Said]:
    """Without what only differs from run to run."""
    return [
        Said(str(step.owner), step.change.path, step.change.before, step.change.after)
        for step in steps
    ]


def none_of(wrong: Mapping[str, object]) -> None:
    """Fail if there is any, and tell what is wrong case by case."""
    if wrong:
        text = "\n".join(f"{name}: {what}" for name, what in wrong.items())
        pytest.fail(f"{len(wrong)} cases\n{text}", pytrace=False)
