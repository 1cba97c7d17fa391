# SPDX-License-Identifier: Apache-2.0
"""Explain a failed comparison of two containers in a test."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.specs import changes, label
from nri_scope.text.escape import safe

from ..report import Report
from ..result import ContainerResult


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Return lines that explain why ``left == right`` fails; None if they are not containers."""
    if operator != "==":
        return None
    if not isinstance(left, ContainerResult) or not isinstance(right, ContainerResult):
        return None
    return [safe(f"{left!r} == {right!r}"), *_differences(left, right)]


def _differences(left: ContainerResult, right: ContainerResult) -> Iterator[str]:
    report = Report()
    if left.created != right.created:
        yield f"only the {'left' if left.created else 'right'} container was created"
    for title, one, other in (
        ("spec without plugins", left.before, right.before),
        ("resulting spec", left.spec, right.spec),
    ):
        if found := changes(one, other):
            yield f"{title}, from left to right:"
            yield from (report.change(change) for change in found)
    ours, theirs = left.owners, right.owners
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            name = label(path)
            yield safe(f"owner of {name}: {ours.get(path, 'none')} != {theirs.get(path, 'none')}")
