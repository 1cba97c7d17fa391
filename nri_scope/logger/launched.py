# SPDX-License-Identifier: Apache-2.0
"""A logger that a runtime launches: configured by YAML in the Configure request, with a log file.

The runtime discards its output, so messages go to a log file beside the recording. Until the
recording is open, that file is beside the default path, as a configured path may be misspelt or
belong to another program.

The logger never rejects its configuration: up to NRI 0.6, one launched plugin that fails to start
keeps the whole runtime from starting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.capture.sink import Sink
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.nri.events import EventKind, parse_events
from nri_scope.nri.runtime_setup import ConfigureRequest
from nri_scope.nri.versions import runtime_remark, runtime_words
from nri_scope.plugin import (
    HandledCall,
    Identity,
    Launched,
    PluginSession,
    SessionEnd,
    inherited,
    launched,
)
from nri_scope.transport.loop import prepare_process, run
from nri_scope.writer.background_output import (
    DEFAULT_MAX_SIZE,
    LAUNCHED_FOLDER,
    SUFFIX,
    LogFile,
    host_name,
    log_beside,
)
from nri_scope.writer.messages import RecordingOptions
from nri_scope.writer.supervisor import WriterProcess

from .logger import Logger, SessionReport, watch_clock

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.share.redaction.rules import Rules


@dataclass(frozen=True, slots=True)
class LoggerSettings:
    """Settings of a launched logger. Restarts continue the same file instead of adding files."""

    output: Path = LAUNCHED_FOLDER / f"nri-{host_name()}{SUFFIX}"
    max_size: int | None = DEFAULT_MAX_SIZE
    max_age: float | None = None
    """Maximum age of events in seconds."""
    events: frozenset[EventKind] | None = None
    where: Filter | None = None
    validate: bool = False
    redact: Rules | None = None
    """Rules for redaction before events are written; None for no redaction."""


def parse_settings(text: str) -> tuple[LoggerSettings, tuple[str, ...]]:
    """Return the settings in ``text``, and a message for each part that could not be used.

    Never raises: a launched plugin that rejected its configuration would record nothing, and the
    runtime would discard the error message.
    """
    import yaml

    if not text.strip():
        return LoggerSettings(), ()
    # If invalid YAML mentions redaction, redact rather than record secrets.
    fallback = LoggerSettings(redact=_rules(True)) if "redact" in text else LoggerSettings()
    try:
        loaded: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date or number that Python rejects. RecursionError: deep nesting.
        return fallback, (f"configuration: not YAML: {_position_and_problem(error)}",)
    if loaded is None:
        return LoggerSettings(), ()
    if not isinstance(loaded, dict):
        return fallback, ("configuration: not a mapping of keys to values",)
    values: dict[str, object] = {}
    problems: list[str] = []
    for key, value in loaded.items():
        reader = _READERS.get(key) if isinstance(key, str) else None
        if reader is None:
            names = ", ".join(field.name for field in fields(LoggerSettings))
            problems.append(f"configuration: unknown key {key!r} (known keys: {names})")
            continue
        try:
            values[key] = reader(value)
        except (UsageError, ValueError, RecursionError) as error:
            if key == "redact":
                # If the configuration requests redaction, never record without.
                values[key] = _rules(True)
            default = "rules" if key == "redact" else "value"
            problems.append(f"configuration: {key}: {error}; using the default {default}")
    return LoggerSettings(**values), tuple(problems)  # type: ignore[arg-type]


def _position_and_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return position + " ".join(str(getattr(error, "problem", None) or error).split())[:200]


def _path(value: object) -> Path:
    path = Path(value) if isinstance(value, str) and value and "\0" not in value else None
    if path is None or not path.is_absolute():
        raise UsageError(f"{value!r} is not an absolute path")
    return path


def _size(value: object) -> int | None:
    if value in (None, "none"):
        return None
    # Imported here and below: without a configuration, the launched process needs none of this.
    from nri_scope.filter.moments import parse_size
    from nri_scope.recorder.ring import Ring

    size = parse_size(str(value)) if isinstance(value, int | str) else None
    if not size:
        raise UsageError(f"{value!r} is not a size such as 500M")
    return Ring(size, None).max_size


def _age(value: object) -> float | None:
    if value in (None, "none"):
        return None
    from nri_scope.filter.moments import parse_duration

    nanoseconds = parse_duration(value) if isinstance(value, str) else None
    if not nanoseconds:
        raise UsageError(f"{value!r} is not a duration such as 24h")
    return nanoseconds / 1e9


def _events(value: object) -> frozenset[EventKind]:
    return parse_events(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _filter(value: object) -> Filter:
    from nri_scope.filter import parse

    return parse(str(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{value!r} is neither true nor false")
    return value


def _rules(value: object) -> Rules | None:
    if value is False:
        return None
    from nri_scope.share.redaction.rules import Rules, read_rules

    if value is True:
        return Rules.DEFAULT
    return read_rules(_path(value))


_READERS: dict[str, Callable[[object], object]] = {
    "output": _path,
    "max_size": _size,
    "max_age": _age,
    "events": _events,
    "where": _filter,
    "validate": _flag,
    "redact": _rules,
}


REOPEN_PAUSE_S = 10.0
"""Pause in seconds after the first failed attempt to open the recording, and its increment."""
LONGEST_PAUSE_S = 60.0
"""Maximum pause in seconds: each attempt takes some tenths of a second of CPU time."""


class LaunchedPlugin(Logger):
    """A `Logger` whose recording is known once it has been configured."""

    def __init__(self, identity: Identity) -> None:
        # Nothing is recorded before `configure`.
        super().__init__(Sink(), identity, on_session=self._log_session)
        self._opening: asyncio.Task[None] | None = None
        self._writer: WriterProcess | None = None
        self._recording = False
        self._log = LogFile()

    def configure(self, request: ConfigureRequest) -> int:
        """Apply the settings and subscribe. Files are opened later, not in this thread."""
        if self._writer is not None:
            return super().configure(request)
        try:
            settings, problems = parse_settings(request.config)
        except Exception as error:  # noqa: BLE001 - a failure may keep the runtime from starting
            settings = LoggerSettings()
            problems = (f"configuration: {type(error).__name__}: {error}; using the defaults",)
        for problem in problems:
            self._log.write(problem)
        self.sink = self._writer = WriterProcess(_options(settings), self._log.write)
        self.events, self.validate = settings.events, settings.validate
        try:
            mask = super().configure(request)
        except UsageError as error:
            self._log.write(f"configuration: {error}; subscribing to every event")
            self.events, self.validate = None, False
            mask = super().configure(request)
        self._opening = asyncio.create_task(self._open(self._writer, settings))
        return mask

    def answered(self, exchange: HandledCall) -> None:
        """See `Logger.answered`; ignored before Configure, like all others."""
        if self._writer is not None:
            super().answered(exchange)

    def noticed(self, text: str) -> None:
        """See `Logger.noticed`."""
        if self._writer is not None:
            super().noticed(text)

    async def finish(self, end: SessionEnd) -> None:
        """Write all events and log lines, as the connection has ended."""
        self.ended(end)
        if self._opening is not None and not self._opening.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._opening, 5)
        if self._writer is not None and self._recording:
            await self._writer.close()
            if self._writer.failure:
                self._log.write(self._writer.failure)
        self._log.write(f"ended: {end.reason}")
        if not self._recording:
            self._log.use_temporarily(log_beside(LoggerSettings().output))
        await asyncio.to_thread(self._log.close)

    def _log_session(self, report: SessionReport) -> None:
        start = report.start
        self._log.write(
            f"connected to {runtime_words(start.runtime_name, start.runtime_version)}, "
            f"NRI {start.nri_version or 'unknown'}{runtime_remark(start.runtime_name)}"
        )
        for warning in report.warnings:
            self._log.write(warning)

    async def _open(self, writer: WriterProcess, settings: LoggerSettings) -> None:
        reported = ""
        pause = 0.0
        while True:
            pause = min(pause + REOPEN_PAUSE_S, LONGEST_PAUSE_S)
            try:
                await writer.open()
                break
            except Exception as error:  # noqa: BLE001 - report any error, and try again
                if str(error) != reported:
                    reported = str(error)
                    self._log.write(f"not recording yet, retrying: {error}")
                    self._log.use_temporarily(log_beside(LoggerSettings().output))
                await asyncio.sleep(pause)
        self._recording = True
        self._log.write(f"recording to {settings.output}")
        self._log.use(log_beside(settings.output))


def _options(settings: LoggerSettings) -> RecordingOptions:
    output = settings.output
    return RecordingOptions(
        output,
        existed=True,
        max_size=settings.max_size,
        max_age=settings.max_age,
        where=str(settings.where) if settings.where is not None else None,
        redact=settings.redact,
        # Any other folder was configured explicitly: if it is missing, its name may be misspelt or
        # its disk not mounted yet.
        makes_folder=output.parent == LoggerSettings().output.parent,
    )


def record_launched() -> int:
    """Record until the runtime closes the connection or kills this process."""
    try:
        launch = launched()
    except NriScopeError:
        launch = None
    if launch is None:
        return 2
    prepare_process()
    return run(_record(launch))


async def _record(launch: Launched) -> int:
    plugin = LaunchedPlugin(launch.identity)
    session = PluginSession(launch.identity, plugin)
    heartbeat = asyncio.create_task(watch_clock(plugin.report_stall))
    try:
        end = await session.run(inherited(launch.descriptor))
    except NriScopeError as error:
        await plugin.finish(session.ended(str(error)))
        return 2
    finally:
        heartbeat.cancel()
    await plugin.finish(end)
    return 0
