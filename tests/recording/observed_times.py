# SPDX-License-Identifier: Apache-2.0
"""The complement of what a recording did not observe."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.recording.query.coverage import Coverage


def observed(coverage: Coverage) -> Iterator[tuple[int, int]]:
    """Yield the intervals that were observed, ascending."""
    at_ns = coverage.from_ns
    for interval in coverage.unobserved:
        if interval.from_ns > at_ns:
            yield at_ns, interval.from_ns
        at_ns = max(at_ns, interval.to_ns)
    if at_ns < coverage.to_ns:
        yield at_ns, coverage.to_ns
