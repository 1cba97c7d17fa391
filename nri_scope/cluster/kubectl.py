# SPDX-License-Identifier: Apache-2.0
"""Run the user's ``kubectl``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from nri_scope.errors import NriScopeError, UsageError

GET_TIMEOUT_S = 30.0
"""Seconds for a request to the API server."""
FORWARD_TIMEOUT_S = 15.0
"""Seconds until a forwarded port listens."""
OUTPUT_MAX = 256 << 20
"""Maximum number of bytes of a reply."""
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ->")
_LINE_MAX = 2_000


class ForwardError(NriScopeError):
    """A port that cannot be forwarded, or no longer is."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The command, with its options for all calls."""

    options: tuple[str, ...] = ()

    async def get(self, *arguments: str) -> Any:
        """Return the object of ``kubectl get ARGUMENTS -o json``; None if it is not found.

        Raises UsageError if kubectl fails.
        """
        process = await self._start("get", *arguments, "-o", "json")
        try:
            async with asyncio.timeout(GET_TIMEOUT_S):
                output, errors = await process.communicate()
        except TimeoutError:
            raise UsageError(
                f"kubectl get {arguments[0]}: no answer within {GET_TIMEOUT_S:g} s",
                "check the connection to the cluster",
            ) from None
        finally:
            await _end(process)
        if process.returncode:
            words = _last_line(errors)
            if "(NotFound)" in words:
                return None
            raise UsageError(f"kubectl get {arguments[0]}: {words}")
        try:
            return json.loads(output)
        except ValueError:
            raise UsageError(f"kubectl get {arguments[0]}: it printed no JSON") from None

    @asynccontextmanager
    async def forwarded(self, namespace: str, pod: str, port: int) -> AsyncIterator[int]:
        """Forward a port of a pod inside the block; provide the local port. Raises ForwardError."""
        process = await self._start(
            *("port-forward", "--address=127.0.0.1", f"--namespace={namespace}"),
            *(f"pod/{pod}", f":{port}"),
        )
        try:
            try:
                async with asyncio.timeout(FORWARD_TIMEOUT_S):
                    local = await _forwarded_port(process)
            except TimeoutError:
                raise ForwardError(
                    f"kubectl port-forward: no port within {FORWARD_TIMEOUT_S:g} s"
                ) from None
            # The pipe must not fill up.
            reading = asyncio.create_task(_discard(process))
            try:
                yield local
            finally:
                reading.cancel()
        finally:
            await _end(process)

    async def _start(self, *arguments: str) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                "kubectl",
                *self.options,
                *arguments,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                limit=OUTPUT_MAX,
                # ^C is for this process, which ends kubectl.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UsageError("kubectl: not found", "install it, or add it to PATH") from None
        except OSError as error:
            words = os.strerror(error.errno or 0).lower()
            raise UsageError(f"kubectl: cannot be started: {words}") from error


async def _forwarded_port(process: Process) -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    while line := await process.stdout.readline():
        if found := _FORWARDING.search(line):
            return int(found[1])
    raise ForwardError(f"kubectl port-forward: {_last_line(await process.stderr.read(64 << 10))}")


async def _discard(process: Process) -> None:
    async def read(stream: asyncio.StreamReader) -> None:
        while await stream.read(4096):
            pass

    assert process.stdout is not None
    assert process.stderr is not None
    await asyncio.gather(read(process.stdout), read(process.stderr))


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            # Its own method would wait for a process that has just ended, and asyncio would then
            # warn on stderr that it does not know the process.
            os.kill(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(2):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _last_line(errors: bytes) -> str:
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    words = lines[-1].strip() if lines else "it failed without a message"
    return words.removeprefix("error: ").removeprefix("Error from server ")[:_LINE_MAX]


def labelled(selector: str) -> Sequence[str]:
    """Return the arguments of ``kubectl get pods`` for a label selector."""
    return ("pods", f"--selector={selector}")
