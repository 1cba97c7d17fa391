# SPDX-License-Identifier: Apache-2.0
"""The captures, as requests to play and as their recorded replies."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .stored_requests import Stored

FOLDER = Path(__file__).parent.parent / "data" / "captures"
NAMES = ("containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37")


class Exchange(NamedTuple):
    stored: Stored
    reply: bytes


@cache
def exchanges(name: str) -> tuple[Exchange, ...]:
    """A whole capture: five plugins, in order of arrival."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(
            Exchange(
                Stored(
                    line["at_ns"],
                    line["method"],
                    base64.b64decode(line["request_b64"]),
                    line["timeout_ns"],
                    plugin=line["plugin"],
                ),
                base64.b64decode(line["reply_b64"]),
            )
            for line in map(json.loads, lines)
        )
