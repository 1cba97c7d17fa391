# SPDX-License-Identifier: Apache-2.0
"""Drives the reference runtime and plugin: JSON lines in, JSON lines out."""

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

# A program that says nothing for so long hangs; everything it is asked for takes seconds.
PATIENCE = 120.0

# Seconds a plugin has for an answer where lateness is not the subject: the machine may be busy.
# It takes as many bytes in a message as the 2 s of real runtimes.
UNHURRIED = 20.0

# Lengths of ttRPC messages, header included, at which implementations break: the least, those
# around the buffer of Go's ttRPC, and large ones below the limit of 4 MiB.
SIZES = (100, 4095, 4096, 4097, 100_000, 3_000_000)
STATE = amount(2000, 1200)
"""Pods with a container each, too many for one message."""

Report = Mapping[str, object]


class Request(NamedTuple):
    """A request as the reference runtime sent it or the reference plugin received it."""

    method: str
    request: bytes
    reply: bytes
    error: str = ""
    """Why there is no reply."""
    status: int = 0
    timeout_ns: int = 0
    message_bytes: int = 0
    """Length of the whole ttRPC message, header included."""


def read_requests(path: Path) -> list[Request]:
    """The file that either program writes when told to."""
    with path.open() as lines:
        return list(parse_requests(lines))


def parse_requests(lines: Iterable[str]) -> Iterator[Request]:
    """The lines of such a file."""
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
    """What the reference runtime measured. Event calls include every plugin's answer."""

    events: int
    requests: int
    """Requests to plugins; fewer than events where a plugin was gone or not subscribed."""
    failures: int
    """Requests without a reply, or with an error status."""
    wire_bytes: int
    """Written to plugins' sockets: mux headers, ttRPC headers and requests, but no replies."""
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: int
    wall_ns: int
    events_per_s: float
    lag_ns: int
    """How far behind its schedule a run at a set rate was, at worst."""
    errors: tuple[str, ...]
    """Of event calls, the first hundred."""

    @classmethod
    def of(cls, report: Report) -> Self:
        """Take the fields from the program's report."""
        values = {field.name: report[field.name] for field in fields(cls)}
        errors = values.pop("errors")
        assert isinstance(errors, list)
        return cls(errors=tuple(errors), **values)  # type: ignore[arg-type]


class Answer(NamedTuple):
    """What the reference runtime makes of one request."""

    reply: bytes
    """The plugins' replies, merged; empty for an event that has none, and with an error."""
    error: str
    requests: int
    """How many plugins were asked."""


class Program:
    """One running reference program."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.heard: list[Report] = []
        """Everything the program has said so far."""

    @classmethod
    async def start(cls, program: Path, *options: str) -> Self:
        """Run ``program``; its messages on stderr are the test's."""
        process = await asyncio.create_subprocess_exec(
            program, *options, stdin=PIPE, stdout=PIPE, limit=1 << 20
        )
        return cls(process)

    async def say(self, do: str, **command: object) -> None:
        """Send one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self, event: str) -> Report:
        """Wait for the next report of this kind. Raises EOFError when the program ends first."""
        assert self.process.stdout is not None
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
            if not line:
                raise EOFError(f"ended without {event!r}; it said {self.heard}")
            report: Report = json.loads(line)
            self.heard.append(report)
            if report["event"] == event:
                return report

    async def ended(self) -> int:
        """Hear everything until the program ends by itself; returns its exit status."""
        output, _ = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        self.heard += map(json.loads, output.splitlines())
        assert self.process.returncode is not None
        return self.process.returncode

    def said(self, event: str) -> Report:
        """The last report of this kind heard so far."""
        return [report for report in self.heard if report["event"] == event][-1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()


class ReferenceRuntime(Program):
    """The runtime on upstream's ``adaptation``."""

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
        """Start it and wait until it listens (and plugins in ``plugins`` were launched).

        ``state`` pods with a container each exist already. ``sent`` is the file for what it
        sends, see ``read_requests``. ``program`` takes the place of the one of `variant`.
        """
        options = [f"-socket={socket}", f"-name={name}", f"-version={version}", f"-state={state}"]
        options.append(f"-request-timeout={round(request_timeout * 1e9)}ns")
        for flag, path in (("sent", sent), ("plugins", plugins), ("plugin-config", plugin_config)):
            if path is not None:
                options.append(f"-{flag}={path}")
        self = await cls.start(program or build(variant).runtime, *options)
        await self.hear("listening")
        return self

    async def admit(self, plugins: int = 1) -> None:
        """Wait until so many plugins have ever been synchronized."""
        await self.say("wait", plugins=plugins)
        await self.hear("ready")

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
        """Play lifecycles of a pod with a container: so many, or for so long.

        ``rate`` is in events/s, 0 for as fast as plugins answer. With ``sizes`` there is instead
        one lifecycle for each, whose every ttRPC message has that length, header included.
        ``workloads`` is the number of different environments among the containers.
        """
        await self.say(
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
        return Played.of(await self.hear("played"))

    async def send(self, method: str, request: bytes) -> Answer:
        """Send one request."""
        await self.say("send", method=method, request_b64=base64.b64encode(request).decode())
        sent = await self.hear("sent")
        self.heard.pop()  # there may be thousands
        reply, error, requests = (sent[key] for key in ("reply_b64", "error", "requests"))
        assert isinstance(reply, str)
        assert isinstance(error, str)
        assert isinstance(requests, int)
        return Answer(base64.b64decode(reply), error, requests)

    async def feed(self, file: Path) -> Played:
        """Send the requests of a file of JSON lines {method, request_b64}."""
        await self.say("feed", file=str(file))
        return Played.of(await self.hear("fed"))

    async def stop(self) -> None:
        """End it; its connections close."""
        await self.say("stop")
        await self.ended()


class ReferencePlugin(Program):
    """The plugin on upstream's ``stub``."""

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
        """Start it; it connects at once, but may not have been synchronized yet.

        ``adjust`` is the JSON of a ContainerAdjustment for every container, ``update_before`` that
        of LinuxResources that each creation gives to the container that was created before.

        ``replies`` is a JSON file of replies to give, in base64: by method, then by the id of the
        container. ``program`` takes the place of the plugin of `variant`.

        ``delay``: an event, how many of these are answered at once, seconds before later ones
        are. ``events`` is a mask, 0 for all that it knows.
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
        """Ask the runtime, unasked, to update a container."""
        await self.say("update", container=container)
        return await self.hear("updated")

    async def ask(self, request: bytes) -> Report:
        """Send the runtime, unasked, an UpdateContainersRequest."""
        await self.say("update", request_b64=base64.b64encode(request).decode())
        return await self.hear("updated")
