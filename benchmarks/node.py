# SPDX-License-Identifier: Apache-2.0
"""A recording of a busy node: a captured chain of plugins, over and over, several pods at a time.

The captured replies of the plugins are in it. What the last plugin asks for other containers, it
asks here for all that run at the time, and their later events show that they got it.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from benchmarks.traffic import CAPTURES, Fresh, Sent
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import Event
from nri_scope.nri.negotiation import nri_version_of
from nri_scope.recorder.writer import Recorder, WriterLimits
from tests.interop.messages import parse

CAPTURE = CAPTURES / "containerd-2.1.9.jsonl.gz"
_PASSIVE = frozenset({"00-probe-a", "50-probe-b", "95-probe-c"})
_POLICY = "60-cpu-policy"
_AT_A_TIME = 5
"""Rounds of the capture; each has two to three containers running."""
_PAUSE_NS = 5_000_000
"""Between two events."""
_SETUP = ("Configure", "Synchronize")
_MOVES = {"CreateContainer": "1", "StopContainer": "0-1"}
"""The processors that it gives to the other containers."""
_OWN = "0"
"""Those that a container begins with."""


@dataclass(frozen=True)
class Call:
    """One request to one plugin, and its reply."""

    plugin: str
    method: str
    at_ns: int
    took_ns: int
    timeout_ns: int
    request: Message
    reply: Message | None
    """None for those that say nothing."""

    @property
    def event(self) -> str:
        """What it tells."""
        if self.method != "StateChange":
            return self.method
        told = self.request
        assert isinstance(told, api.StateChangeEvent)
        return Event(told.event).name

    @property
    def container(self) -> Any:
        """The container that it is about; None for none."""
        container = getattr(self.request, "container", None)
        return container if container is not None and container.id else None


def write(path: Path, containers: int) -> int:
    """Write a recording with at least so many containers; returns how many events it has."""
    setup, rounds = _captured()
    created = sum(one[0].event == "CreateContainer" for one in rounds)
    recorder = Recorder.open(path, limits=WriterLimits(queue_bytes=4 << 30))
    sessions = {}
    for call in setup:
        if call.method == "Configure":
            sessions[call.plugin] = recorder.begin_session(_start(call))
        recorder.capture(sessions[call.plugin], _captured_exchange(call, call.at_ns))
    clock = setup[-1].at_ns + 10**9
    policy = _Policy({}, set())
    for one in _interleaved(rounds, -(-containers // created)):
        begin = one[0].at_ns
        for call in one:
            policy.adapt(call)
            recorder.capture(
                sessions[call.plugin], _captured_exchange(call, clock + call.at_ns - begin)
            )
        for call in one:
            policy.follow(call)
        clock += one[-1].at_ns - begin + _PAUSE_NS
    for session in sessions.values():
        recorder.end_session(session, "closed by the runtime", clock)
    counters = recorder.close(timeout=600)
    if counters.lost:
        raise RuntimeError(f"{counters.lost} events of {path} were lost")
    return counters.recorded


def _captured() -> tuple[list[Call], list[list[Call]]]:
    """How the sessions begin, and the events after that, all plugins' parts of one together."""
    setup: list[Call] = []
    rounds: list[list[Call]] = []
    with gzip.open(CAPTURE, "rt") as lines:
        for line in lines:
            call = _call(json.loads(line))
            if call.method in _SETUP:
                setup.append(call)
            elif rounds and rounds[-1][-1].plugin < call.plugin:
                rounds[-1].append(call)
            else:
                rounds.append([call])
    return setup, rounds


def _call(item: dict[str, Any]) -> Call:
    method, told = item["method"], base64.b64decode(item["reply_b64"])
    request = (
        api.ConfigureRequest.FromString(base64.b64decode(item["request_b64"]))
        if method == "Configure"
        else parse(method, base64.b64decode(item["request_b64"]))
    )
    # The policy may ask for something here where it did not there.
    speaks = told or method in _MOVES
    reply = getattr(api, f"{method}Response").FromString(told) if speaks else None
    return Call(
        item["plugin"], method, item["at_ns"], item["took_ns"], item["timeout_ns"], request, reply
    )


def _interleaved(rounds: list[list[Call]], repetitions: int) -> Iterator[list[Call]]:
    """Repeat the rounds, each time with other identities, some of them side by side."""
    chance = random.Random(1)
    waiting = (_fresh(rounds, chance, number) for number in range(repetitions))
    active = list(islice(waiting, _AT_A_TIME))
    while active:
        place = chance.randrange(len(active))
        one = next(active[place], None)
        if one is not None:
            yield one
        else:
            active[place : place + 1] = islice(waiting, 1)


def _fresh(rounds: list[list[Call]], chance: random.Random, number: int) -> Iterator[list[Call]]:
    fresh = Fresh(chance, [Sent(call.method, call.request) for [call, *_] in rounds], number)
    for one in rounds:
        yield [
            replace(
                call,
                request=_rewritten(call.request, fresh),
                reply=None if call.reply is None else _rewritten(call.reply, fresh),
            )
            for call in one
        ]


def _rewritten(message: Message, fresh: Fresh) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    fresh.rewrite(copy)
    return copy


@dataclass
class _Policy:
    """What `_POLICY` does to all containers that run, as it did to those of the capture."""

    cpus: dict[str, str]
    """Of each container that was created, by id."""
    running: set[str]

    def adapt(self, call: Call) -> None:
        """Let a call show and ask for what it would here."""
        container = call.container
        if container is None:
            return
        if call.event != "CreateContainer" and container.id in self.cpus:
            container.linux.resources.cpu.cpus = self.cpus[container.id]
        if call.plugin == _POLICY and call.event in _MOVES:
            reply: Any = call.reply
            del reply.update[:]
            for other in self._others(call):
                update = reply.update.add(container_id=other)
                update.linux.resources.cpu.cpus = _MOVES[call.event]

    def follow(self, call: Call) -> None:
        """Remember what came of it; of the policy's calls only."""
        container = call.container
        if call.plugin != _POLICY or container is None:
            return
        if call.event in _MOVES:
            self.cpus |= dict.fromkeys(self._others(call), _MOVES[call.event])
        if call.event == "CreateContainer":
            self.cpus[container.id] = _OWN
        elif call.event == "PostStartContainer":
            self.running.add(container.id)
        elif call.event == "StopContainer":
            self.running.discard(container.id)

    def _others(self, call: Call) -> list[str]:
        # It takes no notice of the end of a container that never ran.
        if call.event == "StopContainer" and call.container.id not in self.running:
            return []
        return sorted(self.running - {call.container.id})


def _start(call: Call) -> SessionStart:
    configure = call.request
    assert isinstance(configure, api.ConfigureRequest)
    version, inferred = nri_version_of(configure)
    index, name = call.plugin.split("-", 1)
    return SessionStart(
        role=Role.PROBE if call.plugin in _PASSIVE else Role.TAP,
        plugin_name=name,
        plugin_index=index,
        runtime_name=configure.runtime_name,
        runtime_version=configure.runtime_version,
        nri_version=str(version or ""),
        nri_version_inferred=inferred,
        mask=call.reply.events if isinstance(call.reply, api.ConfigureResponse) else 0,
        registration_timeout_ms=configure.registration_timeout,
        request_timeout_ms=configure.request_timeout,
        started_ns=call.at_ns,
    )


def _captured_exchange(call: Call, at_ns: int) -> CapturedCall:
    return CapturedCall(
        at_ns,
        at_ns,
        call.method,
        call.request.SerializeToString(),
        b"" if call.reply is None else call.reply.SerializeToString(),
        0,
        "",
        call.took_ns,
        call.timeout_ns,
    )
