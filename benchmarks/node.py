# SPDX-License-Identifier: Apache-2.0
"""Recording of a busy node: a captured chain of plugins, repeated for several pods at a time.

Plugins reply as captured. The CPU policy plugin updates all containers running at the time, and
their later events show the updated CPUs.
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
from nri_scope.nri.events import EventKind
from nri_scope.nri.runtime_setup import nri_version_of
from nri_scope.recorder.writer import Recorder, WriterLimits
from tests.interop.messages import parse

CAPTURE = CAPTURES / "containerd-2.1.9.jsonl.gz"
_PASSIVE = frozenset({"00-probe-a", "50-probe-b", "95-probe-c"})
_POLICY = "60-cpu-policy"
_CONCURRENT_ROUNDS = 5
"""Repetitions of the capture at a time; each has two to three running containers."""
_EVENT_INTERVAL_NS = 5_000_000
_SETUP = ("Configure", "Synchronize")
_OTHERS_CPUS = {"CreateContainer": "1", "StopContainer": "0-1"}
"""CPUs that the policy assigns to the other containers, by event."""
_INITIAL_CPUS = "0"
"""CPUs of a new container."""


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
    """None for plugins that do not adjust containers."""

    @property
    def event(self) -> str:
        """Name of the event."""
        if self.method != "StateChange":
            return self.method
        assert isinstance(self.request, api.StateChangeEvent)
        return EventKind(self.request.event).name

    @property
    def container(self) -> Any:
        """The event's container, None for pod events."""
        container = getattr(self.request, "container", None)
        return container if container is not None and container.id else None


def write(path: Path, containers: int) -> int:
    """Write a recording with at least ``containers`` containers; return the number of events."""
    recorder = Recorder.open(path, limits=WriterLimits(queue_bytes=4 << 30))
    sessions, clock = begin_sessions(recorder)
    for one in rounds(containers):
        begin = one[0].at_ns
        for call in one:
            recorder.capture(sessions[call.plugin], captured_call(call, clock + call.at_ns - begin))
        clock += one[-1].at_ns - begin + _EVENT_INTERVAL_NS
    for session in sessions.values():
        recorder.end_session(session, "closed by the runtime", clock)
    counters = recorder.close(timeout=600)
    if counters.lost:
        raise RuntimeError(f"{counters.lost} events of {path} were lost")
    return counters.recorded


def begin_sessions(recorder: Recorder) -> tuple[dict[str, int], int]:
    """Begin the captured sessions; return their numbers by plugin, and a later time."""
    setup, _ = _captured()
    sessions = {}
    for call in setup:
        if call.method == "Configure":
            sessions[call.plugin] = recorder.begin_session(_start(call))
        recorder.capture(sessions[call.plugin], captured_call(call, call.at_ns))
    return sessions, setup[-1].at_ns + 10**9


def rounds(containers: int) -> Iterator[list[Call]]:
    """Yield the calls of each event in chain order, for at least ``containers`` containers."""
    _, captured = _captured()
    created = sum(one[0].event == "CreateContainer" for one in captured)
    policy = _Policy({}, set())
    for one in _interleaved(captured, -(-containers // created)):
        for call in one:
            policy.adapt(call)
        yield one
        for call in one:
            policy.follow(call)


def _captured() -> tuple[list[Call], list[list[Call]]]:
    """Return the calls that set up the sessions, and the calls of each event in chain order."""
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
    method, captured = item["method"], base64.b64decode(item["reply_b64"])
    request = (
        api.ConfigureRequest.FromString(base64.b64decode(item["request_b64"]))
        if method == "Configure"
        else parse(method, base64.b64decode(item["request_b64"]))
    )
    # The policy may add updates to a reply that is empty in the capture.
    has_reply = captured or method in _OTHERS_CPUS
    reply = getattr(api, f"{method}Response").FromString(captured) if has_reply else None
    return Call(
        item["plugin"], method, item["at_ns"], item["took_ns"], item["timeout_ns"], request, reply
    )


def _interleaved(rounds: list[list[Call]], repetitions: int) -> Iterator[list[Call]]:
    """Repeat the captured rounds with new identities, several repetitions interleaved."""
    chance = random.Random(1)
    waiting = (_fresh(rounds, chance, number) for number in range(repetitions))
    active = list(islice(waiting, _CONCURRENT_ROUNDS))
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
    """CPU assignments by `_POLICY`, extended from the captured containers to all running ones."""

    cpus: dict[str, str]
    """CPUs of each created container, by id."""
    running: set[str]

    def adapt(self, call: Call) -> None:
        """Set the container's CPUs in a request, and the policy's updates in its reply."""
        container = call.container
        if container is None:
            return
        if call.event != "CreateContainer" and container.id in self.cpus:
            container.linux.resources.cpu.cpus = self.cpus[container.id]
        if call.plugin == _POLICY and call.event in _OTHERS_CPUS:
            reply: Any = call.reply
            del reply.update[:]
            for other in self._others(call):
                update = reply.update.add(container_id=other)
                update.linux.resources.cpu.cpus = _OTHERS_CPUS[call.event]

    def follow(self, call: Call) -> None:
        """Apply the policy's reply to the CPU assignments; ignore calls of other plugins."""
        container = call.container
        if call.plugin != _POLICY or container is None:
            return
        if call.event in _OTHERS_CPUS:
            self.cpus |= dict.fromkeys(self._others(call), _OTHERS_CPUS[call.event])
        if call.event == "CreateContainer":
            self.cpus[container.id] = _INITIAL_CPUS
        elif call.event == "PostStartContainer":
            self.running.add(container.id)
        elif call.event == "StopContainer":
            self.running.discard(container.id)

    def _others(self, call: Call) -> list[str]:
        # The policy ignores the end of a container that never ran.
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


def captured_call(call: Call, at_ns: int) -> CapturedCall:
    """Return a call as a recorder captures it."""
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
