# SPDX-License-Identifier: Apache-2.0
"""Connect to one runtime several times, at several indices, as passive plugins.

The places of these probes can follow the plugins of the chain, so that each is alone between two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from nri_scope.errors import ConnectError, NriScopeError, RpcError, UsageError
from nri_scope.events import Role
from nri_scope.nri.identity import check_index
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.plugin.session import with_hint
from nri_scope.recorder.inbox import Sink

from .logger import Logger, LoggerService, SessionReport

MIN_PROBES = 2
"""Minimum number of probes: a difference requires two."""


class ProbeListener:
    """Observer of `Probes`. Its methods are called between replies and must not block."""

    def began(self, report: SessionReport) -> None:
        """Handle a probe that was connected and configured."""

    def ended(self, index: str, end: SessionEnd) -> None:
        """Handle a probe that lost its connection; it will reconnect."""

    def waits(self, index: str, error: NriScopeError) -> None:
        """Handle a probe that cannot connect yet; it will retry."""

    def failed(self, index: str, error: NriScopeError) -> None:
        """Handle a probe added by `Probes.place` that could not connect; it will not retry."""


@dataclass(slots=True)
class _Probe:
    service: LoggerService
    task: asyncio.Task[None]
    connected: bool = False
    is_leaving: bool = False


class Probes:
    """Probes at several indices, which reconnect after the runtime's restarts.

    Each probe is a separate `Logger`, which replies immediately and without changes. All share the
    sink. With ``validate``, only the first probe is a validator: further validators would observe
    nothing more, and each could make creations of containers fail.
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
        """Check the indices. Raises UsageError.

        ``once``: end `run` when the last probe has lost its connection.
        """
        self._sink = sink
        self._socket = socket
        self._name = name
        self._initial = check_indices(indices)
        self._validate = validate
        self._wait = wait
        self._once = once
        self._listener = listener or ProbeListener()
        self._selected: set[str] = set()
        self._probes: dict[str, _Probe] = {}
        self._running = False
        self._stopped = ""
        self._end = asyncio.Event()
        self._failure: NriScopeError | None = None

    @property
    def indices(self) -> tuple[str, ...]:
        """Indices of the probes, connected or not, in order."""
        return tuple(sorted(self._selected))

    @property
    def validator(self) -> str:
        """Index of the probe that is a validator; "" for none."""
        return self._initial[0] if self._validate else ""

    async def run(self) -> None:
        """Observe until `stop`, or with ``once`` until all connections have ended.

        Raises ConnectError if there is no runtime at first, and UsageError if the runtime refuses a
        probe.
        """
        self._running = True
        self._selected = set(self._initial)
        for index in self._initial:
            self._begin(index, first=True)
        try:
            await self._end.wait()
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
        """End all connections and `run`."""
        self._stopped = self._stopped or reason
        self._end.set()

    def place(self, indices: Iterable[str]) -> None:
        """Move the probes to these indices. Raises UsageError.

        Obsolete probes disconnect only after all new probes have connected. The validator stays at
        its index.
        """
        selected = {*check_indices(indices), *([self.validator] if self.validator else [])}
        if not self._running:
            return
        self._selected = selected
        for index in sorted(selected - self._probes.keys()):
            self._begin(index, first=False)
        self._stop_obsolete()

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
            # A probe added later waits for the runtime, which was just connected.
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
        self._stop_obsolete()

    def _stop_obsolete(self) -> None:
        """Stop the obsolete probes once all selected ones are connected."""
        if not all(
            index in self._probes and self._probes[index].connected for index in self._selected
        ):
            return
        for index, probe in self._probes.items():
            if index not in self._selected and not probe.is_leaving:
                probe.is_leaving = True
                probe.service.stop("no probe is needed here any more")

    def _ended(self, index: str, end: SessionEnd) -> None:
        probe = self._probes[index]
        probe.connected = False
        if end.warning or not (probe.is_leaving or self._end.is_set()):
            self._listener.ended(index, end)
        if self._once and not any(probe.connected for probe in self._probes.values()):
            self.stop(end.reason)

    def _done(self, index: str, task: asyncio.Task[None], *, first: bool) -> None:
        if self._end.is_set():
            return
        error = None if task.cancelled() else task.exception()
        if error is None:
            del self._probes[index]
            if index in self._selected:
                self._begin(index, first=False)
            return
        if not isinstance(error, NriScopeError):
            self._failure = UsageError(f"probe {index}: internal error: {error}")
            self._failure.__cause__ = error
            self._end.set()
        elif first:
            self._failure = _usage_error(index, error)
            self._end.set()
        else:
            del self._probes[index]
            self._selected.discard(index)
            self._listener.failed(index, error)
            self._stop_obsolete()


def check_indices(indices: Iterable[str]) -> tuple[str, ...]:
    """Return the indices in order. Raises UsageError for too few, duplicate or invalid ones."""
    found = [check_index(index) for index in indices]
    duplicates = sorted({index for index in found if found.count(index) > 1})
    if duplicates:
        raise UsageError(f"index {duplicates[0]} is listed twice", "list each index once")
    if len(found) < MIN_PROBES:
        given = f"only one probe, at {found[0]}" if found else "no probe"
        raise UsageError(f"{given}: a difference requires two", "list two indices, such as 00,99")
    return tuple(sorted(found))


def _usage_error(index: str, error: NriScopeError) -> NriScopeError:
    match error:
        case ConnectError():
            return with_hint(error)
        case RpcError():
            refused = UsageError(
                f"the runtime refused the registration of the probe at index {index}: "
                f"{error.message}",
                "try another index or --name",
            )
            refused.__cause__ = error
            return refused
    return error


INITIAL_INDICES = ("00", "50", "99")
"""Indices of the probes before the chain is known."""
MAX_PROBES = 16
"""Maximum number of probes. Each adds some 0.1 ms to every event in the runtime."""
PAUSE_SECONDS = 5.0
"""Minimum time between two moves. The runtime sends all its containers to each new connection, and
a plugin that crashes repeatedly must not cause that each time."""


class Movable(Protocol):
    """The probes to be placed."""

    @property
    def indices(self) -> tuple[str, ...]: ...

    def place(self, indices: Iterable[str]) -> None: ...


class Placer:
    """Mover of probes to the places for the newest chain, at a limited rate. For one event loop."""

    def __init__(
        self, probes: Movable, say: Callable[[str], None], *, pause: float = PAUSE_SECONDS
    ) -> None:
        self._probes = probes
        self._say = say
        self._pause = pause
        self._chain: tuple[str, ...] | None = None
        self._resting = False

    def chain(self, indices: tuple[str, ...]) -> None:
        """Set the indices of the current plugins."""
        self._chain = indices
        if not self._resting:
            self._move()

    def _move(self) -> None:
        chain, self._chain = self._chain, None
        self._resting = chain is not None
        if chain is None:
            return
        targets = places(chain, self._probes.indices)
        if targets != self._probes.indices:
            listed = ", ".join(chain) or "none"
            self._say(f"plugins at {listed}: moving probes to {', '.join(targets)}")
            self._probes.place(targets)
        asyncio.get_running_loop().call_later(self._pause, self._move)


def places(chain: Iterable[str], now: Collection[str] = ()) -> tuple[str, ...]:
    """Return the indices for probes, ascending, from the indices of the plugins of a chain.

    There is a probe at 00 and 99, and one between any two neighbouring plugins with a free index
    in between: that of an existing probe (``now``), else the middle one. Of more than `MAX_PROBES`
    indices, some in between are omitted, evenly.
    """
    plugins = sorted({int(index) for index in chain})
    kept = {int(index) for index in now}
    between: list[int] = []
    for one, other in pairwise(plugins):
        free = range(one + 1, other)
        if free:
            between.append(next((i for i in free if i in kept), (one + other) // 2))
    if len(between) > MAX_PROBES - 2:
        between = [between[n * len(between) // (MAX_PROBES - 2)] for n in range(MAX_PROBES - 2)]
    return tuple(f"{index:02d}" for index in sorted({0, *between, 99}))
