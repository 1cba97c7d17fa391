# SPDX-License-Identifier: Apache-2.0
"""Drivers of the reference runtime and plugin, which communicate in JSON lines."""

from __future__ import annotations

import asyncio
import base64
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple, Self

from tests.amount import amount
from tests.interop.build import Variant, build

# Timeout in seconds for a report of a program; every command takes seconds at most.
PATIENCE = 120.0

# Request deadline in seconds for tests that do not test lateness: the machine may be busy. Its
# encoding has as many bytes as the 2 s of real runtimes.
UNHURRIED = 20.0

# Critical lengths of ttRPC messages, header included: the smallest, those around the buffer size of
# Go's ttRPC, and large ones below the limit of 4 MiB.
SIZES = (100, 4095, 4096, 4097, 100_000, 3_000_000)
STATE = amount(2000, 1200)
"""Number of pods with one container each, too many for one message."""

Report = Mapping[str, object]


class Request(NamedTuple):
    """A request sent by the reference runtime or received by the reference plugin."""

    method: str
    request: bytes
    reply: bytes
    error: str = ""
    """Error if there is no reply, else ""."""
    status: int = 0
    timeout_ns: int = 0
    message_bytes: int = 0
    """Length of the whole ttRPC message, header included."""


def read_requests(path: Path) -> list[Request]:
    """Read a file of requests written by either program."""
    with path.open() as lines:
        return list(parse_requests(lines))


def parse_requests(lines: Iterable[str]) -> Iterator[Request]:
    """Parse the lines of a file of requests."""
    for line in lines:
        item = json.loads(line)
        yield Request(
            item["method"],
            base64.b64decode(item["request_b64"]),
            base64.b64decode(item["reply_b64"]),
            item.get("error", ""),
            item.get("status", 0),
            item.get("timeout_ns", 0),
            item.get("message_bytes", 0),
        )


@dataclass(frozen=True, kw_only=True)
class Played:
    """Measurements of the reference runtime. Event calls include every plugin's reply."""

    events: int
    requests: int
    """Requests to plugins; fewer than events if a plugin was disconnected or not subscribed."""
    failures: int
    """Requests without a reply, or with an error status."""
    wire_bytes: int
    """Bytes written to plugins' sockets: mux headers, ttRPC headers and requests."""
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: int
    wall_ns: int
    events_per_s: float
    lag_ns: int
    """Longest delay behind schedule, for runs at a fixed rate."""
    errors: tuple[str, ...]
    """First hundred errors of event calls."""

    @classmethod
    def of(cls, report: Report) -> Self:
        """Convert a report of the program."""
        values = {field.name: report[field.name] for field in fields(cls)}
        errors = values.pop("errors")
        assert isinstance(errors, list)
        return cls(errors=tuple(errors), **values)  # type: ignore[arg-type]


class Answer(NamedTuple):
    """Result of one request of the reference runtime."""

    reply: bytes
    """Merged replies of the plugins; empty for events without a reply, and after an error."""
    error: str
    requests: int
    """Number of plugins that received the request."""


class Program:
    """A running reference program."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.reports: list[Report] = []
        """All reports received so far."""

    @classmethod
    async def start(cls, program: Path, *options: str) -> Self:
        """Run ``program``; it shares the test's stderr."""
        process = await asyncio.create_subprocess_exec(
            program, *options, stdin=PIPE, stdout=PIPE, limit=1 << 20
        )
        return cls(process)

    async def send_command(self, do: str, **command: object) -> None:
        """Send one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        await self.process.stdin.drain()

    async def receive(self, event: str) -> Report:
        """Wait for the next report of a kind. Raises EOFError if the program ends first."""
        assert self.process.stdout is not None
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
            if not line:
                raise EOFError(f"the program ended without {event!r}, after {self.reports}")
            report: Report = json.loads(line)
            self.reports.append(report)
            if report["event"] == event:
                return report

    async def ended(self) -> int:
        """Wait until the program ends, store its reports, and return its exit status."""
        output, _ = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        self.reports += map(json.loads, output.splitlines())
        assert self.process.returncode is not None
        return self.process.returncode

    def last_report(self, event: str) -> Report:
        """Return the last received report of a kind."""
        return [report for report in self.reports if report["event"] == event][-1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()


class ReferenceRuntime(Program):
    """The runtime that uses upstream's ``adaptation``."""

    @classmethod
    async def listen(
        cls,
        socket: Path,
        variant: Variant = Variant.NRI_0_12,
        *,
        name: str = "refruntime",
        version: str = "v1.0.0",
        state: int = 0,
        request_timeout: float = UNHURRIED,
        sent: Path | None = None,
        plugins: Path | None = None,
        plugin_config: Path | None = None,
        program: Path | None = None,
    ) -> Self:
        """Start the runtime; wait until it listens and has launched the plugins in ``plugins``.

        ``state`` pods with one container each exist from the start. ``sent`` is the file for its
        requests, see ``read_requests``. ``program`` replaces the program of `variant`.
        """
        options = [f"-socket={socket}", f"-name={name}", f"-version={version}", f"-state={state}"]
        options.append(f"-request-timeout={round(request_timeout * 1e9)}ns")
        for flag, path in (("sent", sent), ("plugins", plugins), ("plugin-config", plugin_config)):
            if path is not None:
                options.append(f"-{flag}={path}")
        self = await cls.start(program or build(variant).runtime, *options)
        await self.receive("listening")
        return self

    async def admit(self, plugins: int = 1) -> None:
        """Wait until ``plugins`` plugins have been synchronized since the start."""
        await self.send_command("wait", plugins=plugins)
        await self.receive("ready")

    async def play(
        self,
        lifecycles: int = 0,
        *,
        seconds: float = 0,
        rate: float = 0,
        sizes: tuple[int, ...] = (),
        env: int = 60,
        mounts: int = 12,
        workloads: int = 20,
        pod_updates: bool = False,
    ) -> Played:
        """Play lifecycles of a pod with a container, limited by their number or by time.

        ``rate`` is in events/s, 0 for as fast as plugins reply. With ``sizes`` there is instead one
        lifecycle for each size, in which every ttRPC message has that length, header included.
        ``workloads`` is the number of different container environments.
        """
        await self.send_command(
            "play",
            lifecycles=lifecycles,
            seconds=seconds,
            rate=rate,
            sizes=sizes,
            env=env,
            mounts=mounts,
            workloads=workloads,
            pod_updates=pod_updates,
        )
        return Played.of(await self.receive("played"))

    async def send(self, method: str, request: bytes) -> Answer:
        """Send one request."""
        await self.send_command(
            "send", method=method, request_b64=base64.b64encode(request).decode()
        )
        sent = await self.receive("sent")
        self.reports.pop()  # there may be thousands
        reply, error, requests = (sent[key] for key in ("reply_b64", "error", "requests"))
        assert isinstance(reply, str)
        assert isinstance(error, str)
        assert isinstance(requests, int)
        return Answer(base64.b64decode(reply), error, requests)

    async def feed(self, file: Path) -> Played:
        """Send the requests of a file of JSON lines {method, request_b64}."""
        await self.send_command("feed", file=str(file))
        return Played.of(await self.receive("fed"))

    async def stop(self) -> None:
        """Stop the runtime, which closes its connections."""
        await self.send_command("stop")
        await self.ended()


class ReferencePlugin(Program):
    """The plugin that uses upstream's ``stub``."""

    @classmethod
    async def connect(
        cls,
        socket: Path,
        variant: Variant = Variant.NRI_0_12,
        *,
        index: str = "10",
        name: str = "reference",
        events: int = 0,
        yaml: Path | None = None,
        requests: Path | None = None,
        delay: tuple[str, int, float] | None = None,
        annotation: str = "",
        env: str = "",
        adjust: str = "",
        update_before: str = "",
        replies: Path | None = None,
        program: Path | None = None,
    ) -> Self:
        """Start the plugin, which connects immediately, but is not synchronized yet.

        ``adjust`` is the JSON of a ContainerAdjustment for every container, ``update_before`` the
        JSON of LinuxResources with which each creation updates the previously created container.

        ``replies`` is a JSON file of replies in base64, by method and container id. ``program``
        replaces the plugin of `variant`.

        ``delay`` is an event, the number of immediate replies to it, and the delay of all later
        replies in seconds. ``events`` is a mask, 0 for all known events.
        """
        options = [f"-socket={socket}", f"-index={index}", f"-name={name}", f"-events={events}"]
        options += [f"-annotation={annotation}", f"-env={env}"]
        for flag, path in (("yaml", yaml), ("requests", requests), ("replies", replies)):
            if path is not None:
                options.append(f"-{flag}={path}")
        for flag, text in (("adjust", adjust), ("update-before", update_before)):
            if text:
                options.append(f"-{flag}={text}")
        if delay is not None:
            event, after, duration = delay
            options += [f"-delay-event={event}", f"-delay-after={after}"]
            options.append(f"-delay-ms={round(duration * 1000)}")
        return await cls.start(program or build(variant).plugin, *options)

    async def update(self, container: str) -> Report:
        """Send an unsolicited update of a container."""
        await self.send_command("update", container=container)
        return await self.receive("updated")

    async def ask(self, request: bytes) -> Report:
        """Send an unsolicited UpdateContainersRequest."""
        await self.send_command("update", request_b64=base64.b64encode(request).decode())
        return await self.receive("updated")
