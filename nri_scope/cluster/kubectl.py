# SPDX-License-Identifier: Apache-2.0
"""Run the user's ``kubectl``."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from nri_scope.errors import NriScopeError, UsageError

GET_TIMEOUT_S = 30.0
"""Seconds for a request to the API server."""
FORWARD_TIMEOUT_S = 15.0
"""Seconds until a forwarded port listens."""
OUTPUT_MAX = 32 << 20
"""Maximum number of bytes of a reply: some 200,000 pods."""
_ERRORS_MAX = 64 << 10
"""Number of the last bytes on stderr that are kept."""
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d{1,5}) ->")
_FORBIDDEN = " is forbidden: User "
"""In the API server's refusal for lack of a permission."""
_LINE_MAX = 2_000
_END_S = 2.0
_SERVER = re.compile(r"^(?:error: |Error from server \((?!NotFound)\w+\): |Error from server )")


class ForwardError(NriScopeError):
    """A port that cannot be forwarded, or no longer is."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The command, with its options for all calls."""

    options: tuple[str, ...] = ()

    async def get(
        self, fields: Sequence[str], *arguments: str, is_list: bool = True
    ) -> list[list[str]]:
        """Return fields (JSONPath) of each object that ``kubectl get ARGUMENTS`` finds.

        A missing field is "". ``is_list``: False if the arguments name one object, which may not
        exist. Raises UsageError if kubectl fails.
        """
        call = f"kubectl get {arguments[0]}"
        template = _template(fields)
        if is_list:
            template = f"{{range .items[*]}}{template}{{end}}"
        async with self._running("get", *arguments, "-o", f"jsonpath={template}") as started:
            process, errors = started
            try:
                async with asyncio.timeout(GET_TIMEOUT_S):
                    output = await _read(process.stdout, OUTPUT_MAX)
                    if output is None:
                        raise UsageError(f"{call}: it printed more than {OUTPUT_MAX >> 20} MiB")
                    await process.wait()
                    await errors.task
            except TimeoutError:
                raise UsageError(
                    f"{call}: no answer within {GET_TIMEOUT_S:g} s",
                    "check the connection to the cluster, and that kubectl asks for nothing",
                ) from None
        if process.returncode:
            if not is_list and "(NotFound)" in errors.words:
                return []
            raise UsageError(f"{call}: {errors.words}")
        *lines, rest = output.decode("utf-8", "replace").split("\n")
        rows = [line.split("\t") for line in lines]
        if rest or any(len(row) != len(fields) for row in rows):
            raise UsageError(f"{call}: it printed no list")
        return rows

    async def watch(
        self, fields: Sequence[str], *arguments: str
    ) -> AsyncGenerator[list[str], None]:
        """Yield fields of each object of ``kubectl get ARGUMENTS --watch``, and after each change.

        Ends with kubectl. Close the generator, see `contextlib.aclosing`. Raises UsageError if
        kubectl cannot be started.
        """
        output = f"jsonpath={_template(fields)}"
        async with self._running("get", *arguments, "--watch", "-o", output) as (process, _):
            assert process.stdout is not None
            # A longer line than the stream's limit is no row.
            with suppress(ValueError):
                while line := await process.stdout.readline():
                    row = line.decode("utf-8", "replace").rstrip("\n").split("\t")
                    if len(row) == len(fields):
                        yield row

    @asynccontextmanager
    async def forwarded(self, namespace: str, pod: str, port: int) -> AsyncIterator[int]:
        """Forward a port of a pod inside the block; provide the local port.

        Raises ForwardError, and UsageError without the permission, which all nodes need.
        """
        async with self._running(
            *("port-forward", "--address=127.0.0.1", f"--namespace={namespace}"),
            *(f"pod/{pod}", f":{port}"),
        ) as (process, errors):
            try:
                async with asyncio.timeout(FORWARD_TIMEOUT_S):
                    local = await _forwarded_port(process)
                    if local is None:
                        await process.wait()
                        await errors.task
                        words = f"kubectl port-forward: {errors.words}"
                        if _FORBIDDEN in words:
                            raise UsageError(words)
                        raise ForwardError(words)
            except TimeoutError:
                raise ForwardError(
                    f"kubectl port-forward: no port within {FORWARD_TIMEOUT_S:g} s"
                ) from None
            # The pipe must not fill up.
            assert process.stdout is not None
            reading = asyncio.create_task(_discard(process.stdout))
            try:
                yield local
            finally:
                reading.cancel()
                await asyncio.wait({reading})

    @asynccontextmanager
    async def _running(self, *arguments: str) -> AsyncIterator[tuple[Process, _Errors]]:
        try:
            process = await asyncio.create_subprocess_exec(
                "kubectl",
                *self.options,
                *arguments,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                # ^C is for this process, which ends kubectl; and without a terminal, programs for
                # authentication cannot ask for a password, while another program uses the screen.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UsageError("kubectl: not found", "install it, or add it to PATH") from None
        except OSError as error:
            words = os.strerror(error.errno or 0).lower()
            raise UsageError(f"kubectl: cannot be started: {words}") from error
        assert process.stderr is not None
        errors = _Errors(process.stderr)
        try:
            yield process, errors
        finally:
            await _end(process)
            assert process.stdout is not None
            # At their ends, the pipes are closed.
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await asyncio.gather(_discard(process.stdout), errors.task)
                    await asyncio.sleep(0)


def _template(fields: Sequence[str]) -> str:
    """Return a template of JSONPath for a line; whole objects are some hundred times as long."""
    return '{"\\t"}'.join(f"{{{field}}}" for field in fields) + '{"\\n"}'


class _Errors:
    """Reader of what a process prints on stderr."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._last = b""
        self.task = asyncio.create_task(self._read())

    @property
    def words(self) -> str:
        """What went wrong: a line that says so, or the last one."""
        lines = [line.strip() for line in self._last.decode("utf-8", "replace").splitlines()]
        named = [line for line in lines if _SERVER.match(line)] or [line for line in lines if line]
        if not named:
            return "it failed without a message"
        return _SERVER.sub("", named[-1])[:_LINE_MAX]

    async def _read(self) -> None:
        while data := await self._stream.read(_ERRORS_MAX):
            self._last = (self._last + data)[-_ERRORS_MAX:]


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes | None:
    """Read to the end; return None if there are more than ``most`` bytes."""
    assert stream is not None
    output = bytearray()
    while data := await stream.read(1 << 16):
        output += data
        if len(output) > most:
            return None
    return bytes(output)


async def _forwarded_port(process: Process) -> int | None:
    """Return the port that kubectl names; None if it ends without naming one."""
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            if (found := _FORWARDING.search(line)) and int(found[1]) < 1 << 16:
                return int(found[1])
    except ValueError:
        # The line exceeds the limit of the stream.
        raise ForwardError("kubectl port-forward: it printed no port") from None
    return None


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(4096):
        pass


async def _end(process: Process) -> None:
    """End kubectl, with the programs that it started.

    A process that outlived the event loop would be reported on stderr; so if this is cancelled, as
    all tasks are when the loop ends, the process is killed at once.
    """
    cancelled = False
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
