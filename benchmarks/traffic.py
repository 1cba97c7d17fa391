# SPDX-License-Identifier: Apache-2.0
"""Real traffic of any length: a captured stream repeated with fresh ids, names and times."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.interop.messages import parse

CAPTURES = Path(__file__).parents[1] / "tests" / "data" / "captures"
CHAINS = sorted(CAPTURES.glob("c*.jsonl.gz"))
"""Captures of containerd and CRI-O, whose events the reference runtime can repeat. iSulad creates
containers without an id, and its capture ends with its crash."""

# Images keep their digests: the same images run again and again on a node.
_ID = re.compile(
    r"(?<!sha256:)(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"(?![0-9a-f])"
)
_PROCESS = re.compile(r"(?<=/proc/)\d+(?=/)")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z")
_TIMES = frozenset({"created_at", "started_at", "finished_at"})
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_HEX = "0123456789abcdef"


class Sent(NamedTuple):
    """A captured request."""

    method: str
    message: Message


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field is repeated, with every supported protobuf version."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    # protobuf before 6.31; later versions deprecate `label`, and the type stubs omit it.
    label: int = getattr(field, "label", 0)
    return label == FieldDescriptor.LABEL_REPEATED


def captured(file: Path, plugin: str) -> list[Sent]:
    """Return the events that one plugin received, without ValidateContainerAdjustment."""
    stream = []
    with gzip.open(file, "rt") as lines:
        for line in lines:
            item = json.loads(line)
            method = item["method"]
            if item["plugin"] == plugin and method not in {
                "Configure",
                "Synchronize",
                "ValidateContainerAdjustment",
            }:
                stream.append(Sent(method, parse(method, base64.b64decode(item["request_b64"]))))
    return stream


def repeated(stream: list[Sent], events: int, seed: int = 1) -> Iterator[Sent]:
    """Yield ``events`` requests by repeating a stream with new identities in each round."""
    chance = random.Random(seed)
    count = round_number = 0
    while count < events:
        fresh = Fresh(chance, stream, round_number)
        for method, original in stream:
            if count == events:
                return
            message = type(original)()
            message.CopyFrom(original)
            fresh.rewrite(message)
            yield Sent(method, message)
            count += 1
        round_number += 1


def write(stream: Iterator[Sent], file: Path) -> None:
    """Write requests in the input format of the reference runtime."""
    with file.open("w") as lines:
        for method, message in stream:
            request = base64.b64encode(message.SerializeToString()).decode()
            lines.write(json.dumps({"method": method, "request_b64": request}) + "\n")


class Fresh:
    """Consistent replacement of the identities in one round of a stream."""

    def __init__(self, chance: random.Random, stream: Iterable[Sent], round_number: int) -> None:
        self._chance = chance
        self._ids: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        # Rounds follow each other in time, each with a different fraction of a second.
        self._shift_ns = round_number * 30 * 10**9 + chance.randrange(10**9)
        self._process_shift = chance.randrange(1, 30_000)
        suffix = "-" + "".join(chance.choices(_NAME_LETTERS, k=5))
        names = {name for _, message in stream for name in _names(message)}
        self._names = {name: name + suffix for name in names}
        # A name within a text: as part of a path, of CRI-O's longer names, or of JSON.
        alternatives = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        self._name = re.compile(rf'(?<=[_"/])(?:{alternatives})(?=[_"/.]|$)')

    def rewrite(self, message: Message) -> None:
        """Change every identity in a message, in place."""
        for field, value in message.ListFields():
            # Map keys are kept. `Any`: protobuf's type stubs do not type the values.
            item: Any = value
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is None:
                    for key in list(item):
                        # These labels belong to the workload and are equal for all its pods.
                        if key not in {"app", "k8s-app", "tier"}:
                            item[key] = self._text(item[key])
            elif field.message_type is not None:
                for one in item if is_repeated(field) else [item]:
                    self.rewrite(one)
            elif field.name in _TIMES:
                setattr(message, field.name, item + self._shift_ns)
            elif field.name == "pid":
                setattr(message, field.name, item + self._process_shift)
            elif field.type == field.TYPE_STRING and is_repeated(field):
                item[:] = [self._text(one) for one in item]
            elif field.type == field.TYPE_STRING:
                setattr(message, field.name, self._text(item))

    def _text(self, text: str) -> str:
        # Most texts are repeated in each message about the same container.
        if text not in self._texts:
            self._texts[text] = self._names.get(text) or self._within(text)
        return self._texts[text]

    def _within(self, text: str) -> str:
        text = _ID.sub(lambda match: self._id(match[0]), text)
        text = _PROCESS.sub(lambda match: str(int(match[0]) + self._process_shift), text)
        text = _TIME.sub(self._time, text)
        return self._name.sub(lambda match: self._names[match[0]], text)

    def _id(self, old: str) -> str:
        if old not in self._ids:
            self._ids[old] = "".join(
                letter if letter == "-" else self._chance.choice(_HEX) for letter in old
            )
        return self._ids[old]

    def _time(self, match: re.Match[str]) -> str:
        nanoseconds = int(match[2]) + self._shift_ns
        moment = datetime.fromisoformat(match[1]) + timedelta(seconds=nanoseconds // 10**9)
        return f"{moment.isoformat()}.{nanoseconds % 10**9:09d}Z"


def _names(message: Message) -> Iterator[str]:
    """Yield the names of a request's pod and container."""
    for part in ("pod", "container"):
        subject: Any = getattr(message, part, None)
        if subject is not None and subject.name:
            yield subject.name
