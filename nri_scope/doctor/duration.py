# SPDX-License-Identifier: Apache-2.0
"""Durations as Go's ``time.ParseDuration`` reads them."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = re.compile(r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_go_duration(text: str) -> float | None:
    """Return seconds, or None where Go would refuse ``text``; a number without unit is refused."""
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if rest == "0":
        return 0.0
    seconds, position = 0.0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None:
            return None
        seconds += float(term[1]) * _SECONDS[term[2]]
        position = term.end()
    return sign * seconds if position else None
