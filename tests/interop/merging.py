# SPDX-License-Identifier: Apache-2.0
"""Merge cases with the Go reference and with nri-scope, with comparable outcomes."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import CreationMerging, StopMerging, UpdateMerging
from nri_scope.nri.versions import V0_10, NriVersion
from tests.interop.merge_cases import PLUGINS, Case, Reply
from tests.nri.merging.merged_replies import response_of

PATIENCE = 120.0

_CHAIN = tuple(
    api.PluginInstance(name=name[3:], index=name[:2]) for name in (*PLUGINS, "90-validator")
)


@dataclass(frozen=True)
class Outcome:
    """Result of a case, with messages as canonical text."""

    seen: tuple[str, ...]
    """Request to each plugin."""
    response: str
    """Merged reply for the runtime."""
    validation: str
    """Request to validators, with owners; "" in versions without validators."""
    error: str


def canonical(message: Message | None) -> str:
    """Format a message as text that does not depend on the random order of Go's maps.

    That order affects maps, which the text format sorts; namespaces, which upstream collects in a
    map and which are sorted by type here; and removals of mounts by one plugin, which upstream adds
    in the order of a map: adjacent removals are sorted.
    """
    if message is None:
        return ""
    if isinstance(message, api.CreateContainerRequest):
        copy = api.CreateContainerRequest()
        copy.CopyFrom(message)
        ordered = sorted(copy.container.linux.namespaces, key=lambda namespace: namespace.type)
        if ordered:
            del copy.container.linux.namespaces[:]
            copy.container.linux.namespaces.extend(ordered)
        message = copy
    if isinstance(message, api.CreateContainerResponse | api.ValidateContainerAdjustmentRequest):
        mounts = message.adjust.mounts
        ordered_mounts = list(_removals_in_order(mounts))
        del mounts[:]
        mounts.extend(ordered_mounts)
    return str(message)


def _removals_in_order(mounts: Sequence[api.Mount]) -> Iterator[api.Mount]:
    removals: list[api.Mount] = []
    for mount in mounts:
        if mount.destination.startswith("-"):
            removals.append(mount)
        else:
            yield from sorted(removals, key=lambda removal: removal.destination)
            removals.clear()
            yield mount
    yield from sorted(removals, key=lambda removal: removal.destination)


def merge_with_reference(program: Path, cases: Sequence[Case]) -> list[Outcome]:
    """Merge cases with the Go program."""
    lines = "".join(
        json.dumps(
            {
                "event": case.event,
                "request_b64": _encode(case.request),
                "replies_b64": [_encode(reply) for reply in case.replies],
            }
        )
        + "\n"
        for case in cases
    )
    run = subprocess.run(
        [program], input=lines, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 0, run.stderr
    outcomes = [
        _outcome(case, json.loads(line))
        for case, line in zip(cases, run.stdout.splitlines(), strict=True)
    ]
    assert not run.stderr
    return outcomes


def _encode(message: Message) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def _outcome(case: Case, line: dict[str, str | list[str] | None]) -> Outcome:
    validation, error, seen, response = (
        line[key] for key in ("validation_b64", "error", "seen_b64", "response_b64")
    )
    assert isinstance(error, str)
    return Outcome(
        tuple(canonical(_decode(type(case.request), one)) for one in seen or ()),
        canonical(_decode(type(case.replies[0]), response)) if not error else "",
        canonical(_decode(api.ValidateContainerAdjustmentRequest, validation)),
        error,
    )


def _decode(kind: type[Message], payload: object) -> Message | None:
    if payload is None:
        return None
    assert isinstance(payload, str)
    message = kind()
    message.ParseFromString(base64.b64decode(payload))
    return message


def merge_with_ours(case: Case, version: NriVersion) -> Outcome:
    """Merge a case with nri-scope, like a runtime with this NRI version."""
    merging: CreationMerging | UpdateMerging | StopMerging
    if isinstance(case.request, api.CreateContainerRequest):
        merging = CreationMerging(case.request, version=version)
    elif isinstance(case.request, api.UpdateContainerRequest):
        merging = UpdateMerging(case.request, version=version)
    else:
        merging = StopMerging(case.request, version=version)
    seen = []
    error = ""
    try:
        for position, plugin in enumerate(PLUGINS):
            seen.append(canonical(merging.request))
            if position < len(case.replies):
                apply(merging, case.replies[position], plugin)
    except AdjustmentRefused as refused:
        error = str(refused)
    validation = None
    if isinstance(merging, CreationMerging) and not error and version >= V0_10:
        validation = merging.validation(_CHAIN)
    return Outcome(
        tuple(seen),
        "" if error else canonical(response_of(merging)),
        canonical(validation),
        error,
    )


def apply(
    merging: CreationMerging | UpdateMerging | StopMerging, reply: Reply, plugin: str
) -> None:
    """Apply a reply to the merging object of its event."""
    if isinstance(merging, CreationMerging):
        assert isinstance(reply, api.CreateContainerResponse)
        merging.apply(reply, plugin)
    elif isinstance(merging, UpdateMerging):
        assert isinstance(reply, api.UpdateContainerResponse)
        merging.apply(reply, plugin)
    else:
        assert isinstance(reply, api.StopContainerResponse)
        merging.apply(reply, plugin)


def agree(case: Case, ours: Outcome, theirs: Outcome, version: NriVersion) -> bool:
    """Whether the outcomes are equivalent.

    After ``canonical``, only one difference is random: if several keys of a map are in conflict,
    upstream reports any of them. Its outcome must then equal nri-scope's for that key alone.
    """
    if ours == theirs:
        return True
    same_field = ours.error and _field(ours.error) == _field(theirs.error)
    return bool(same_field) and any(
        merge_with_ours(one, version) == theirs for one in _one_key_each(case, len(ours.seen) - 1)
    )


def _field(error: str) -> str:
    """The first word of the field's name."""
    return error.partition(" both tried to set ")[2].partition(" ")[0]


def _one_key_each(case: Case, position: int) -> Iterator[Case]:
    """Yield variants of a case with only one key in a map of the reply at `position`."""
    for number, entries in enumerate(_maps(case.replies[position])):
        for key in entries:
            reply = deepcopy(case.replies[position])
            smaller = list(_maps(reply))[number]
            for other in {*entries} - {key, f"-{key}"}:
                del smaller[other]
            yield replace(case, replies=(*case.replies[:position], reply))


def _maps(reply: Reply) -> Iterator[MutableMapping[str, str]]:
    for update in reply.update:
        yield update.linux.resources.unified
    if isinstance(reply, api.CreateContainerResponse):
        yield reply.adjust.annotations
        yield reply.adjust.linux.sysctl
        yield cast("MutableMapping[str, str]", reply.adjust.linux.net_devices)
        yield reply.adjust.linux.resources.unified
