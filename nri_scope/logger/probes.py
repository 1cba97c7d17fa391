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
from nri_scope.plugin.endpoint import with_way_out
from nri_scope.recorder.sink import Sink

from .logger import Logger, SessionReport
from .service import LoggerService

MIN_PROBES = 2
"""Minimum number of probes: a difference needs two."""


class ProbeListener:
    """Receives the events of `Probes`. Called between replies, its methods must not block."""

    def began(self, report: SessionReport) -> None:
        """Note that a probe is connected and configured."""

    def ended(self, index: str, end: SessionEnd) -> None:
        """Note that a probe lost its connection; it connects again."""

    def waits(self, index: str, error: NriScopeError) -> None:
        """Note that a probe cannot connect for now."""

    def failed(self, index: str, error: NriScopeError) -> None:
        """Note that a probe that was added later could not connect; it does not retry."""


@dataclass(slots=True)
class _Probe:
    service: LoggerService
    task: asyncio.Task[None]
    connected: bool = False
    leaving: bool = False


class Probes:
    """Connects at each index, and stays connected there through the runtime's restarts.

    Each probe is a separate `Logger`, which answers at once, without changes. They share the sink.
    With ``validate``, only the first one is a validator: more validators would observe nothing
    more, and each could make the creation of containers fail.
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
        """Check the indices. ``once`` ends `run` when no probe is connected any longer.

        Raises UsageError.
        """
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
        """The wanted indices of probes."""
        return tuple(sorted(self._wanted))

    @property
    def validator(self) -> str:
        """The index of the probe that is a validator; "" for none."""
        return self._first[0] if self._validate else ""

    async def run(self) -> None:
        """Observe until `stop`, or with ``once`` until the runtime has gone.

        Raises ConnectError if there is no runtime at the beginning, and UsageError if it refuses
        one of the probes.
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
        """Move the probes to these indices. Raises UsageError.

        New ones are connected before those no longer needed disconnect. The validator stays at its
        index.
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
            # A probe that is added later waits, as the runtime was just there.
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
        """Stop the probes that are no longer needed, once all wanted ones are connected."""
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
    """Return the indices in order; raise UsageError for too few, duplicate or invalid ones."""
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
            return with_way_out(error)
        case RpcError():
            refused = UsageError(
                f"the runtime refused the registration of the probe at index {index}: "
                f"{error.message}",
                "another index or --name may help",
            )
            refused.__cause__ = error
            return refused
    return error
