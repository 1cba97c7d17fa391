# SPDX-License-Identifier: Apache-2.0
"""Run the tap: its settings, a writer process, tapped connections, and messages to the user."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.capture.queue import Batching
from nri_scope.errors import ConnectError, RecordingError, UsageError
from nri_scope.events import SessionStart, plugin_title
from nri_scope.nri.events import EventKind
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy
from nri_scope.nri.versions import (
    NriVersion,
    asks_closed_validators,
    has_failure_policy,
)
from nri_scope.plugin import ABSENT_POLL, Identity, deregister, unix_socket
from nri_scope.plugin.session import with_hint
from nri_scope.process.signals import ignore_stop_signals, stop_signals, terminal_stops_refused
from nri_scope.transport.loop import prepare_process, run
from nri_scope.transport.sockets import connect_socket
from nri_scope.writer.messages import CRI_HINT, CriSource, RecordingOptions
from nri_scope.writer.supervisor import READY_S, WriterProcess

from .connection import PieceQueue, TappedConnection

if TYPE_CHECKING:
    from nri_scope.share.redaction.rules import Rules


BATCHING = Batching(wait_s=0.001, events=32, size=64 << 10)
"""Larger batches than by default, as all exchanges have already waited to be decoded."""
REFUSED_STOP = (
    "not stopped (^Z): the runtime and the plugin would wait for this process; end it with ^C"
)

Say = Callable[[str], None]
"""Callback for messages to the user, line by line. Never blocks."""


class StopRequest:
    """Request to stop, set by the first signal. A run polls it or waits for it."""

    def __init__(self) -> None:
        self.number = 0
        self.reason = ""
        self._set = asyncio.Event()

    def set(self, number: int, reason: str) -> None:
        """Request the stop. Only the first call has an effect."""
        if not self.reason:
            self.number, self.reason = number, reason
            self._set.set()

    async def wait(self) -> None:
        """Wait until the stop is requested."""
        await self._set.wait()


class Tap:
    """State shared by all connections of one run."""

    def __init__(self, settings: TapSettings, writer: WriterProcess, say: Say) -> None:
        self.settings = settings
        self.writer = writer
        self.say = say
        self.stop = StopRequest()
        self.sessions = 0
        self.socket: Path | None = None
        """The runtime's socket, once it is known."""
        self.misses_runtime = False
        """Whether a missing runtime was reported, which each retry of each plugin notices."""
        self._validator: Identity | None = None
        """The last validator whose end the runtime does not notice, see `deregister`."""
        self._connected: Counter[str] = Counter()
        self._pieces = PieceQueue()

    def connection(self, named: Identity | None) -> TappedConnection:
        """Return a new connection. ``named`` is the runtime's name for the plugin, if known."""
        return TappedConnection(self.writer, named, self.began, self.say, self._pieces)

    def began(self, start: SessionStart, policy: FailurePolicy) -> None:
        """Count and report a plugin that was configured through the tap."""
        self.sessions += 1
        nri_version = NriVersion.parse(start.nri_version)
        is_validator = start.mask & EventKind.ValidateContainerAdjustment.bit
        if is_validator and asks_closed_validators(nri_version):
            self._validator = Identity(start.plugin_index, start.plugin_name)
        plugin = plugin_title(start.plugin_index, start.plugin_name)
        self._connected[plugin] += 1
        if self._connected[plugin] > 1:
            self.say(f"warning: another plugin is tapped as {plugin} at the same time")
        self.say(f"tapping {plugin} at {start.runtime}, to {self.settings.output}")
        if policy != NO_POLICY:
            has_policy = has_failure_policy(nri_version)
            effect = "" if has_policy else ", which this runtime ignores: it needs NRI 0.12.4"
            self.say(f"{plugin} has the failure policy {policy}{effect}")

    async def deregister(self) -> None:
        """Make the runtime remove a validator whose connection has ended with the tap."""
        if self.socket is not None and self._validator is not None:
            await deregister(unix_socket(self.socket), self._validator)

    def ended(self, plugin: str) -> None:
        """Count the end of a connection of ``NN-name``."""
        # A connection that was never configured was not counted.
        self._connected[plugin] -= self._connected[plugin] > 0


def run_tap(
    settings: TapSettings,
    work: Callable[[Tap], Awaitable[int]],
    say: Say,
    *program: str,
    start_s: float = READY_S,
) -> int:
    """Record what ``work`` taps, until it returns or a signal arrives; return the exit status.

    ``program``: the module of a writer that also prints, and its arguments. ``start_s`` is the
    maximum time in seconds to open the recording. Raises `NriScopeError` if tapping or recording is
    impossible, or if events were lost because the writer process failed; no new file without
    sessions is left behind.
    """
    prepare_process()
    return run(_run_tap(settings, work, say, program, start_s))


async def _run_tap(
    settings: TapSettings,
    work: Callable[[Tap], Awaitable[int]],
    say: Say,
    program: tuple[str, ...],
    start_s: float,
) -> int:
    options = settings.recording()
    writer = WriterProcess(options, say, *program, prints=bool(program), batching=BATCHING)
    tap = Tap(settings, writer, say)
    is_done = False
    loop = asyncio.get_running_loop()
    with (
        stop_signals(tap.stop.set, loop=loop, ignore_afterwards=True),
        terminal_stops_refused(lambda: say(REFUSED_STOP), loop),
    ):
        if not await _open(writer, tap.stop, start_s):
            say("nothing recorded: stopped before the file was open")
            return 0
        try:
            status = await work(tap)
            await tap.deregister()
            is_done = True
        finally:
            # A second signal must not interrupt the final writing, which takes a bounded time.
            ignore_stop_signals()
            await writer.close()
            if tap.sessions:
                if settings.cri is None:
                    say(CRI_HINT)
                say(writer.summary(Path(settings.output), tap.sessions))
            elif not options.existed and options.path.exists():
                say(f"recorded a plugin that was not configured: {settings.output}")
            elif is_done and not options.existed:
                say("nothing recorded: no plugin was configured")
    if writer.failure:
        raise RecordingError(options.path, writer.failure)
    return status


async def _open(writer: WriterProcess, stop: StopRequest, seconds: float) -> bool:
    """Open the recording; return whether it is open, which it is not if stopped before that."""
    opening = asyncio.ensure_future(writer.open(seconds))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not opening.done():
        opening.cancel()
    try:
        await opening
    except asyncio.CancelledError:
        if not stop.reason:
            raise
        return False
    return True


async def connect(
    path: Path, tap: Tap, *, wait: bool, needless: Callable[[], bool] = lambda: False
) -> socket.socket | None:
    """Connect to the runtime; with ``wait``, retry until it is available.

    Return None if stopped, or if the connection has become ``needless``. Raise `ConnectError`.
    """
    is_reported = False
    tap.socket = path
    while not tap.stop.reason and not needless():
        try:
            return await connect_socket(path)
        except ConnectError as error:
            if not (wait and error.can_retry):
                raise with_hint(error) from error
            if not is_reported:
                tap.say(f"waiting for a runtime: {error}")
                is_reported = True
        waiting = asyncio.ensure_future(tap.stop.wait())
        await asyncio.wait([waiting], timeout=ABSENT_POLL)
        waiting.cancel()
    return None


@dataclass(frozen=True, slots=True)
class TapSettings:
    """A tap's settings as plain values, which can be stored in a file."""

    output: str
    where: str = ""
    """Filter of the events to keep; "" keeps all."""
    redact: str | None = None
    """A file of redaction rules; "" for the default rules; None to record without redaction."""
    cri: str | None = None
    """Socket of the CRI to query; None not to."""
    cri_waits: bool = False
    """Whether the CRI may be unavailable at first."""
    max_size: int | None = None
    """Maximum size of the recording in bytes."""
    max_age: float | None = None
    """Maximum age of events in seconds."""

    def recording(self) -> RecordingOptions:
        """Return the options of the recording, for its writer. Raise `NriScopeError`."""
        return RecordingOptions(
            Path(self.output).absolute(),
            os.path.lexists(self.output),
            self.max_size,
            self.max_age,
            self.where or None,
            self._rules(),
            cri=CriSource(Path(self.cri), self.cri_waits) if self.cri is not None else None,
        )

    def check(self) -> None:
        """Raise `NriScopeError` for what a writer would reject, without creating a file."""
        # Imported here: a tap itself needs neither SQLite nor the filter language.
        from nri_scope.filter import parse
        from nri_scope.recorder.ring import Ring
        from nri_scope.recording.reading.reader import Recording
        from nri_scope.share.source_redaction import check_continued

        parse(self.where)
        rules = self._rules()
        Ring(self.max_size, self.max_age)
        path = Path(self.output)
        if path.exists() or path.is_symlink():
            Recording.open(path).close()
        check_continued(path, redacts=rules is not None)

    def _rules(self) -> Rules | None:
        if self.redact is None:
            return None
        from nri_scope.share.redaction.rules import Rules, read_rules

        return read_rules(Path(self.redact)) if self.redact else Rules.DEFAULT

    def plain(self) -> dict[str, object]:
        """Return the settings as plain values, for a file."""
        return asdict(self)

    @classmethod
    def read(cls, plain: Mapping[str, object]) -> TapSettings:
        """Return the settings from plain values. Raise `UsageError` without an output file."""
        names = {field.name for field in fields(cls)}
        values = {name: value for name, value in plain.items() if name in names}
        if not isinstance(values.get("output"), str):
            raise UsageError("the tap's settings have no output file")
        return cls(**values)  # type: ignore[arg-type]
