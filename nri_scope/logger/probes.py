# SPDX-License-Identifier: Apache-2.0
"""Several passive connections of one process to one runtime, at several indices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import ConnectError, NriScopeError, RpcError, UsageError
from nri_scope.events import Role
from nri_scope.nri.identity import check_index
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.recorder.sink import Sink

from .logger import Logger, SessionReport
from .service import LoggerService

MIN_PROBES = 2
"""A difference is between two."""


class ProbeListener:
    """What `Probes` tell about themselves; all of it between two events, so it must not block."""

    def began(self, report: SessionReport) -> None:
        """A probe is connected and configured."""

    def ended(self, index: str, end: SessionEnd) -> None:
        """A probe lost its connection, and connects again."""

    def waits(self, index: str, error: NriScopeError) -> None:
        """A probe cannot connect for now."""

    def failed(self, index: str, error: NriScopeError) -> None:
        """A probe that was placed later could not connect, and is given up."""


@dataclass(slots=True)
class _Probe:
    service: LoggerService
    task: asyncio.Task[None]
    connected: bool = False
    leaving: bool = False


class Probes:
    """Connects at each index, and stays connected there through the runtime's restarts.

    Each probe is a `Logger` of its own: it answers at once, with nothing. They share the sink. One
    of them, the first, is the validator where that is wanted: more of them would know no more, and
    each could keep containers from being created.
    """

    def __init__(
        self,
        sink: Sink,
        socket: Path,
        name: str,
        indices: Iterable[str],
        *,
        validate: bool = False,
        wait: bool = False,
        once: bool = False,
        listener: ProbeListener | None = None,
    ) -> None:
        """``once`` ends `run` when no probe is connected any more. Raises UsageError."""
        self._sink = sink
        self._socket = socket
        self._name = name
        self._first = check_indices(indices)
        self._validate = validate
        self._wait = wait
        self._once = once
        self._listener = listener or ProbeListener()
        self._wanted: set[str] = set()
        self._probes: dict[str, _Probe] = {}
        self._running = False
        self._stopped = ""
        self._over = asyncio.Event()
        self._failure: NriScopeError | None = None

    @property
    def indices(self) -> tuple[str, ...]:
        """Where there are to be probes."""
        return tuple(sorted(self._wanted))

    @property
    def validator(self) -> str:
        """The index of the probe that is asked as a validator; "" for none."""
        return self._first[0] if self._validate else ""

    async def run(self) -> None:
        """Observe until `stop`, or with ``once`` until the runtime has gone.

        Raises what kept the probes from connecting in the beginning: ConnectError where there is
        no runtime, UsageError where it refuses one of them.
        """
        self._running = True
        self._wanted = set(self._first)
        for index in self._first:
            self._begin(index, first=True)
        try:
            await self._over.wait()
        finally:
            self._running = False
            for probe in self._probes.values():
                probe.service.stop(self._stopped or "another probe could not connect")
            await asyncio.gather(
                *(probe.task for probe in self._probes.values()), return_exceptions=True
            )
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str) -> None:
        """End all connections, and with them `run`."""
        self._stopped = self._stopped or reason
        self._over.set()

    def place(self, indices: Iterable[str]) -> None:
        """Have probes at these indices and at no others. Raises UsageError.

        The new ones are connected before those that are not needed any more leave. The validator
        stays where it is.
        """
        wanted = {*check_indices(indices), *([self.validator] if self.validator else [])}
        if not self._running:
            return
        self._wanted = wanted
        for index in sorted(wanted - self._probes.keys()):
            self._begin(index, first=False)
        self._leave()

    def _begin(self, index: str, *, first: bool) -> None:
        identity = Identity(index=index, name=self._name)
        logger = Logger(
            self._sink,
            identity,
            validate=index == self.validator,
            role=Role.PROBE,
            on_session=lambda report: self._began(index, report),
        )
        service = LoggerService(
            logger,
            identity,
            unix_socket(self._socket),
            # One that is placed later meets a runtime that was there a moment ago.
            wait=self._wait or not first,
            on_end=lambda end: self._ended(index, end),
            on_wait=lambda error: self._listener.waits(index, error),
        )
        task = asyncio.create_task(service.run())
        self._probes[index] = _Probe(service, task)
        task.add_done_callback(lambda task: self._done(index, task, first=first))

    def _began(self, index: str, report: SessionReport) -> None:
        self._probes[index].connected = True
        self._listener.began(report)
        self._leave()

    def _leave(self) -> None:
        """Let those go that are not needed any more, unless others are still to come for them."""
        if not all(
            index in self._probes and self._probes[index].connected for index in self._wanted
        ):
            return
        for index, probe in self._probes.items():
            if index not in self._wanted and not probe.leaving:
                probe.leaving = True
                probe.service.stop("no probe is needed here any more")

    def _ended(self, index: str, end: SessionEnd) -> None:
        probe = self._probes[index]
        probe.connected = False
        if not probe.leaving and not self._over.is_set():
            self._listener.ended(index, end)
        if self._once and not any(probe.connected for probe in self._probes.values()):
            self.stop(end.reason)

    def _done(self, index: str, task: asyncio.Task[None], *, first: bool) -> None:
        if self._over.is_set():
            return
        error = None if task.cancelled() else task.exception()
        if error is None:
            del self._probes[index]
            if index in self._wanted:
                self._begin(index, first=False)
            return
        if not isinstance(error, NriScopeError):
            self._failure = UsageError(f"probe {index}: internal error: {error}")
            self._failure.__cause__ = error
            self._over.set()
        elif first:
            self._failure = _told(index, error)
            self._over.set()
        else:
            del self._probes[index]
            self._wanted.discard(index)
            self._listener.failed(index, error)
            self._leave()


def check_indices(indices: Iterable[str]) -> tuple[str, ...]:
    """The indices in order; raises UsageError for fewer than two, one twice, one that is none."""
    found = [check_index(index) for index in indices]
    twice = sorted({index for index in found if found.count(index) > 1})
    if twice:
        raise UsageError(f"two probes at index {twice[0]}", "name each index once")
    if len(found) < MIN_PROBES:
        given = f"only one probe, at {found[0]}," if found else "no probe"
        raise UsageError(f"{given} sees no difference", "name two indices, such as 00,99")
    return tuple(sorted(found))


def _told(index: str, error: NriScopeError) -> NriScopeError:
    match error:
        case ConnectError():
            return ConnectError(
                error.path,
                error.problem,
                error.hint or "run `nri-scope doctor` to see why, or use --wait to wait for it",
            )
        case RpcError():
            refused = UsageError(
                f"the runtime refused the registration of the probe at index {index}: "
                f"{error.message}",
                "another index or --name may help",
            )
            refused.__cause__ = error
            return refused
    return error
