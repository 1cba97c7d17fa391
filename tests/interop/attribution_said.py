# SPDX-License-Identifier: Apache-2.0
"""What the differ tells, in a form to compare; and a failure that tells what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from nri_scope.differ.model import Step
from nri_scope.oci import Json


class Said(NamedTuple):
    """One change as the differ tells it."""

    owner: str
    path: str
    before: Json
    after: Json


def said(steps: Iterable[Step]) -> list[Said]:
    """Without what only differs from run to run."""
    return [
        Said(str(step.owner), step.change.path, step.change.before, step.change.after)
        for step in steps
    ]


def none_of(wrong: Mapping[str, object], known: Mapping[str, str] | None = None) -> None:
    """Fail, and tell what is wrong case by case; also where what is `known` to be wrong is not."""
    known = known or {}
    lines = [f"{name}: {what}" for name, what in wrong.items() if name not in known]
    lines += [
        f"{name}: not wrong any more: {why}" for name, why in known.items() if name not in wrong
    ]
    if lines:
        text = "\n".join(lines)
        pytest.fail(f"{len(lines)} cases\n{text}", pytrace=False)
