# SPDX-License-Identifier: Apache-2.0
"""Recorded exchanges of real runtimes, from tests/data/captures."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "captures"
NAMES = ("containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37")
ISULAD = ("isulad", "isulad-launched")


@dataclass(frozen=True, slots=True)
class Exchange:
    plugin: str
    method: str
    request: bytes
    reply: bytes


@cache
def exchanges(name: str) -> tuple[Exchange, ...]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return tuple(
            Exchange(
                line["plugin"],
                line["method"],
                base64.b64decode(line["request_b64"]),
                base64.b64decode(line["reply_b64"]),
            )
            for line in map(json.loads, lines)
        )
