# SPDX-License-Identifier: Apache-2.0
"""Run the user's ``kubectl``."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import NriScopeError, UsageError, reason_of
from nri_scope.process.child_start import PR_SET_PDEATHSIG
from nri_scope.recording.node_files import AUDIENCE

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
_USER_FIELDS = (".users[0].user.token", ".users[0].user.tokenFile", ".users[0].user.exec")
_TOKEN = re.compile(r"[!-~]+", re.ASCII)
_TOKEN_MAX = 64 << 10
_LINE_MAX = 2_000
END_S = 2.0
"""Time that kubectl has to end before it is killed."""
_SERVER = re.compile(r"^(?:error: |Error from server \((?!NotFound)\w+\): |Error from server )")


_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """End kubectl also if this process is killed: a forwarded port is open to all local users."""
    _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


class ForwardError(NriScopeError):
    """A port that cannot be forwarded, or no longer is."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The command, with its options for all calls."""

    options: tuple[str, ...] = ()
    token_file: Path | None = None
    """File with the token for agents that authorize their callers; None: that of the user."""

    async def get(
        self, fields: Sequence[str], *arguments: str, is_list: bool = True
    ) -> list[list[str]]:
        """Return fields (JSONPath) of each object that ``kubectl get ARGUMENTS`` finds.

        A missing field is "". ``is_list``: False if the arguments name one object, which may not
        exist. Raises UsageError if kubectl fails.
        """
        return await self._rows(fields, "get", *arguments, is_list=is_list)

    async def _rows(
        self, fields: Sequence[str], *arguments: str, is_list: bool = False
    ) -> list[list[str]]:
        call = f"kubectl {arguments[0]} {arguments[1]}"
        template = _template(fields)
        if is_list:
            template = f"{{range .items[*]}}{template}{{end}}"
        async with self._running(*arguments, "-o", f"jsonpath={template}") as started:
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
            if not is_list and "(NotFound)" in errors.problem:
                return []
            raise UsageError(f"{call}: {errors.problem}")
        *lines, unfinished = output.decode("utf-8", "replace").split("\n")
        rows = [line.split("\t") for line in lines]
        if unfinished or any(len(row) != len(fields) for row in rows):
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

    async def namespace(self) -> str:
        """Return the namespace of the user's context. Raises UsageError."""
        rows = await self._rows((".contexts[0].context.namespace",), "config", "view", "--minify")
        return rows[0][0] or "default"

    async def token(self) -> str:
        """Return the token by which the API server knows the user, for an agent. Raises UsageError.

        It comes from the token file, or as kubectl gets it, from the user's configuration or the
        program that this names.
        """
        file, token = self.token_file, ""
        if file is None:
            rows = await self._rows(_USER_FIELDS, "config", "view", "--raw", "--minify")
            token, named, program = rows[0]
            if named:
                _check_place(named)
            file = Path(named) if named else None
            if program:
                token = await asyncio.to_thread(_token_of_program, program)
        if file is not None:
            try:
                with file.open("rb") as opened:
                    token = opened.read(_TOKEN_MAX).decode("ascii", "replace").strip()
            except OSError as error:
                raise UsageError(f"{file}: cannot be read: {reason_of(error)}") from error
        if not _TOKEN.fullmatch(token):
            raise UsageError(
                f"{file or 'your kubeconfig'}: it has no token, which the agents ask for",
                "give --token-file FILE with one, such as `kubectl create token NAME "
                f"--audience={AUDIENCE}` prints for a ServiceAccount",
            )
        return token

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
                        problem = f"kubectl port-forward: {errors.problem}"
                        if _FORBIDDEN in problem:
                            raise UsageError(problem)
                        raise ForwardError(problem)
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
                preexec_fn=_end_with_parent,
            )
        except FileNotFoundError:
            raise UsageError("kubectl: not found", "install it, or add it to PATH") from None
        except OSError as error:
            raise UsageError(f"kubectl: cannot be started: {reason_of(error)}") from error
        assert process.stderr is not None
        errors = _Errors(process.stderr)
        try:
            yield process, errors
        finally:
            await _end(process)
            assert process.stdout is not None
            # At their ends, the pipes are closed.
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await asyncio.gather(_discard(process.stdout), errors.task)
                    await asyncio.sleep(0)


def _check_place(path: str) -> None:
    """Raise UsageError for a path that is relative to a kubeconfig, which kubectl does not name."""
    if not path.startswith("/"):
        raise UsageError(
            f"your kubeconfig names {path}, beside itself",
            "give --token-file FILE, or write a path there that begins with /",
        )


def _token_of_program(text: str) -> str:
    """Return the token that a program for authentication prints. Raises UsageError."""
    try:
        program = json.loads(text)
        if "/" in program["command"]:
            _check_place(program["command"])
        spec = {"kind": "ExecCredential", "spec": {"interactive": False}}
        info = json.dumps({**spec, "apiVersion": program["apiVersion"]})
        more = {item["name"]: item["value"] for item in program.get("env") or ()}
        done = subprocess.run(
            [program["command"], *(program.get("args") or ())],
            env={**os.environ, **more, "KUBERNETES_EXEC_INFO": info},
            stdin=DEVNULL,
            capture_output=True,
            timeout=GET_TIMEOUT_S,
            # As for kubectl.
            start_new_session=True,
            check=True,
        )
        return str(json.loads(done.stdout)["status"]["token"])
    except (
        OSError,
        subprocess.SubprocessError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        problem = "the program for authentication in your kubeconfig printed no token"
        raise UsageError(f"{problem}: {type(error).__name__}") from error


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
    def problem(self) -> str:
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
            if (match := _FORWARDING.search(line)) and int(match[1]) < 1 << 16:
                return int(match[1])
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
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
