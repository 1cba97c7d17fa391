# SPDX-License-Identifier: Apache-2.0
"""``nri-scope tui``: browse a recording, or live events, in the terminal."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from . import log, record
from .option_rules import Exclude, Need, NeedOneOf, RuledCommand
from .params import ANY_PATH, WHERE, say

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.logger.run import RecordOptions
    from nri_scope.tui.app import ScopeApp
    from nri_scope.tui.polling import OwnRecorderStatus

MIN_COLUMNS, MIN_LINES = 40, 10
"""Minimum size of the terminal."""
NICER = 5
"""Niceness added to this process, which draws, so that the recorder is scheduled first."""
SWITCH_S = 0.0005
"""Seconds until a thread that reads the recording lets this one handle a key. With 5 ms, Python's
default, another view was shown after 79 to 169 ms (median), now after 66 to 88."""
_M_MMAP_THRESHOLD = -3
"""From the header malloc.h."""
_LARGE_ARRAY = 1 << 18
"""Minimum bytes of an array whose memory is returned to the system."""
_OF_RECORD = {*record.RecorderOptions.__annotations__, "keep"}


@click.command(
    cls=RuledCommand,
    described=("nri-scope record", _OF_RECORD),
    rules=(
        Exclude(("--live", "FILE"), hint="use -o to name the recording"),
        Exclude(("OTHER", "--where"), hint="differences are not filtered"),
        Need(
            tuple(each.opts[0] for each in record.shared_options(_OF_RECORD)),
            ("--live",),
            "add --live, and leave out FILE",
        ),
        NeedOneOf(("FILE", "--live"), hint="name a FILE, or use --live to record"),
    ),
)
@click.argument("file", required=False, type=ANY_PATH)
@click.argument("other", required=False, type=ANY_PATH)
@click.option(
    "--where",
    type=WHERE,
    help="Set this filter at the start, e.g. 'ns:shop took:>1ms'; all events are recorded.",
)
@click.option("--theme", type=click.Choice(["dark", "light", "ansi"]), help="Colour theme.")
@click.option(
    "--live",
    is_flag=True,
    help="Record from a runtime and show events as they arrive, with the options of `record`; see "
    "there for the RISK of --validate.",
)
@click.pass_context
def command(
    context: click.Context,
    file: Path | None,
    other: Path | None,
    where: Filter | None,
    theme: str | None,
    live: bool,  # noqa: ARG001  # for the rules of the options
    **recording: Unpack[record.RecorderOptions],
) -> None:
    """Browse a recording, or live events.

    FILE may still be growing: new events are shown as they are recorded. It can also be a scenario
    or a manifest of Kubernetes. ? shows the keys, q quits.

    With OTHER, begin with the differences between both, a row for each, as `diff FILE OTHER` prints
    them: before and after the upgrade of a plugin, for example.
    """
    followed = context.find_object(Followed)
    files = [each for each in (file, other) if each is not None]
    if reason := tui_obstacle():
        _fall_back(context, reason, files, where, followed)
    elif file is None:
        _record_and_show(record.record_options(recording), where, theme)
    elif followed is not None:
        show_recording(file, where, theme, followed.status, followed.title)
    else:
        _browse(files, where, theme)


command.params += record.shared_options(_OF_RECORD)


def tui_obstacle() -> str:
    """Return why this terminal cannot show the interface; "" if it can."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        return "this is not a terminal"
    if os.environ.get("TERM", "dumb") in ("dumb", ""):
        return "TERM is unset or dumb"
    size = os.get_terminal_size(sys.stdout.fileno())
    # 0 means unknown, as on a serial line.
    if 0 < size.columns < MIN_COLUMNS or 0 < size.lines < MIN_LINES:
        return f"the terminal is smaller than {MIN_COLUMNS}×{MIN_LINES}"
    return ""


@dataclass(frozen=True, slots=True)
class Followed:
    """A temporary recording that follows another; the object of the context of `command`."""

    title: str
    arguments: tuple[str, ...]
    """Arguments of the commands of ``kubectl nri-scope`` that show it."""
    status: OwnRecorderStatus
    """Of what writes it."""


@contextmanager
def _recordings(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield recordings of what is in files. Raises NriScopeError."""
    from nri_scope.scenario.playable import playable

    with ExitStack() as stack:
        yield [stack.enter_context(playable(each, on_note=say)) for each in files]


def _check(recordings: Iterable[Path]) -> None:
    """Raise NriScopeError if one of the recordings cannot be read."""
    from nri_scope.recording.reading.reader import Recording

    for each in recordings:
        Recording.open(each).close()


def _browse(files: Sequence[Path], where: Filter | None, theme: str | None) -> None:
    with _recordings(files) as recordings:
        file, recording, *other = files[0], *recordings
        _check(other)
        source = "" if recording == file else file.name
        show_recording(recording, where, theme, None, source, other=next(iter(other), None))
    if recording == file:
        say(f"recording: {file}")


def _fall_back(
    context: click.Context,
    reason: str,
    files: Sequence[Path],
    where: Filter | None,
    followed: Followed | None,
) -> None:
    names = " ".join(map(str, files))
    instead = f"{'log' if len(files) == 1 else 'diff'} {names}" if files else "record --print text"
    if followed is not None:
        instead = f"kubectl nri-scope log {' '.join(followed.arguments)}"
    # Which events are recorded must not depend on the terminal.
    left_out = "" if files or where is None else ", without --where"
    notice = f"tui: {reason}; running `{instead}` instead{left_out}"
    if not files:
        say(notice)
        options = {name: context.params[name] for name in record.RecorderOptions.__annotations__}
        context.invoke(record.command, **options, where=None, print_format="text")
        return
    with _recordings(files) as recordings:
        # A file that cannot be read is one error, without the notice.
        _check(recordings)
        say(notice)
        if len(recordings) == 1:
            context.invoke(log.command, file=recordings[0], where=where)
            return
        from .diff_files import two_recordings

        context.exit(two_recordings(recordings[0], str(recordings[1]), None, "text"))


def _record_and_show(options: RecordOptions, where: Filter | None, theme: str | None) -> None:
    from nri_scope.logger.recorder_process import RecorderProcess

    recorder = RecorderProcess("nri_scope.logger.recorder_process", nicer=NICER)
    try:
        recorder.begin(options)
        recorder.ready()
        show_recording(options.file.path, where, theme, recorder, live=True)
    finally:
        recorder.stop(signal.SIGINT)
    recorder.check()
    if options.file.cri is None:
        from nri_scope.writer.messages import CRI_HINT

        say(CRI_HINT)
    if recorder.status_text:
        say(recorder.status_text)


def show_recording(
    file: Path,
    where: Filter | None = None,
    theme: str | None = None,
    recorder: OwnRecorderStatus | None = None,
    source: str = "",
    *,
    live: bool = False,
    other: Path | None = None,
) -> None:
    """Show a recording until the user quits; see `ScopeApp`."""
    import asyncio

    from nri_scope.report.finding import CommandStyle
    from nri_scope.tui.store.store import Store

    commands = click.get_current_context().find_object(CommandStyle) or CommandStyle.FILE
    _return_freed_arrays()
    sys.setswitchinterval(SWITCH_S)

    async def show() -> ScopeApp:
        # A thread opens the file, while this one imports the interface.
        opening = asyncio.create_task(Store.open(file, live=live, commands=commands))
        await asyncio.sleep(0)
        from nri_scope.tui.app import ScopeApp

        # Errors in the file are reported before the interface takes over the screen.
        store = await opening
        app = ScopeApp(
            file,
            live=live,
            where=where,
            theme=theme or "",
            colors=terminal_colors(),
            recorder=recorder,
            store=store,
            source=source,
            other=other,
        )
        app.started = started
        app.opens_on_problem = not live and where is None and other is None
        await app.run_async()
        return app

    def started() -> None:
        from nri_scope.transport.loop import collect_rarely

        # A screen has thousands of short-lived objects. With Python's defaults, cycle collection
        # took a fifth of the drawing time; with the intervals used elsewhere, 8 MiB stay allocated.
        collect_rarely(5_000, 5, 5)
        gc.enable()

    # Imports leave little garbage, and a collection visits all their objects.
    gc.disable()
    try:
        app = asyncio.run(show())
    finally:
        gc.enable()
    if app.failure is not None:
        raise app.failure
    for path in app.made:
        say(f"saved: {path}")


def _return_freed_arrays() -> None:
    """Let the C library return the memory of each freed large array to the system.

    By default, glibc keeps later arrays of the size of a freed one in its heaps, which arrays that
    grow in turns fragment: 13 MiB of a recording with 300,000 pods and containers.
    """
    import ctypes

    # musl has no such function, and does so by itself.
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_ARRAY)


def terminal_colors() -> str:
    """Return the terminal's colours, see `color_system`, after removing an empty NO_COLOR.

    Textual checks only whether it is set. See https://no-color.org: it counts if it is not empty.
    """
    from nri_scope.tui.theme import color_system

    if not os.environ.get("NO_COLOR", "-"):
        del os.environ["NO_COLOR"]
    return color_system()
