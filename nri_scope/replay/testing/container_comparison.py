# SPDX-License-Identifier: Apache-2.0
"""Explanation of the differences between two containers, for a failed comparison in a test."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.oci import changes
from nri_scope.text.escape import safe

from ..report import Report
from ..result import ContainerResult


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Explain ``left == right`` of two containers in lines; None for anything else."""
    if operator != "==":
        return None
    if not isinstance(left, ContainerResult) or not isinstance(right, ContainerResult):
        return None
    return [safe(f"{left!r} == {right!r}"), *_differences(left, right)]


def _differences(left: ContainerResult, right: ContainerResult) -> Iterator[str]:
    report = Report()
    if left.created != right.created:
        yield f"{'left' if left.created else 'right'} is created, the other is not"
    for what, one, other in (
        ("as created without plugins", left.before, right.before),
        ("as it ended up", left.spec, right.spec),
    ):
        if found := changes(one, other):
            yield f"{what}, from left to right:"
            yield from (report.change(change) for change in found)
    ours, theirs = left.owners, right.owners
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            yield safe(f"owner of {path}: {ours.get(path, 'none')} != {theirs.get(path, 'none')}")
