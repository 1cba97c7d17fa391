# SPDX-License-Identifier: Apache-2.0
"""``nri-scope demo``: play a recording of a real containerd into a real ``record``."""

from __future__ import annotations

import contextlib
import math
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import RecordingError, UsageError
from nri_scope.text.escape import safe

from .params import ANY_PATH
from .tui import make_app, report_saved_files, tui_obstacle

if TYPE_CHECKING:
    from nri_scope.events import Session
    from nri_scope.recording.reader import Recording
    from nri_scope.runtime import Stored

    from .demo_runtime import Performance

RECORDING = "containerd-1.7.nriscope.db"
"""File name of the sample recording."""

EVENTS_MAX = 1_000
"""Maximum number of events to play, as a demo should be short."""

QUERY = "SELECT event, count(*) AS times FROM log GROUP BY event ORDER BY times DESC"
"""An example for `sql`."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=ANY_PATH,
    metavar="FILE",
    help="Recording to write.  [default: demo.nriscope.db in a new temporary folder]",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0.1, max=1000),
    default=1.0,
    show_default=True,
    help="Speed factor: 2 plays twice as fast, 0.5 half as fast.",
)
@click.option("--log", "as_log", is_flag=True, help="Print the events instead of showing `tui`.")
def command(output: Path | None, speed: float, as_log: bool) -> None:
    """See nri-scope at work, without a container runtime.

    An emulated runtime plays a recording of a real containerd, slowly enough to follow, into a real
    `nri-scope record`. The new recording is shown in `tui`, or as a log if there is no terminal.
    Every other command can be tried on that recording. You can quit the demo at any time; it does
    not need root.
    """
    play_to_record(bundled_path(), output, speed, as_log=as_log)


def bundled_path() -> Path:
    """Return the sample recording's path, in an installed package or in a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "recordings", package.parent / "recordings"):
        if (folder / RECORDING).is_file():
            return folder / RECORDING
    raise UsageError(
        f"the recording to play, {RECORDING}, is missing from this installation",
        "install nri-scope again",
    )


def play_to_record(source: Path, output: Path | None, speed: float, *, as_log: bool) -> None:
    """Play the first session of ``source``. Raise UsageError if ``output`` exists."""
    from nri_scope.recording.reader import Recording

    from .demo_runtime import Performance

    if output is not None and (output.exists() or output.is_symlink()):
        raise UsageError(f"{output}: file exists", "choose a new name")
    with Recording.open(source) as recording:
        session, stored = _first_session(recording)
    reason = "" if as_log else tui_obstacle()
    with _new_recording(output) as file:
        performance = Performance(session, stored, file, speed)
        if as_log or reason:
            if reason:
                click.echo(f"demo: {reason}; printing the log instead", err=True)
            _print(performance)
        else:
            _browse(performance)
        _print_lines(conclusion(performance))


def _print(performance: Performance) -> None:
    from nri_scope.transport.loop import run

    _print_lines(introduction(performance, "^C ends the demo earlier"))
    status = run(performance.perform())
    if status:
        raise UsageError(f"record ended with status {status}", "see its message above")


def _browse(performance: Performance) -> None:
    import asyncio

    from nri_scope.tui.config import config_path, load
    from nri_scope.tui.theme import NAMES

    config = load(config_path(), NAMES)
    key = config.keymap.first("quit")
    _print_lines(introduction(performance, f"{key} quits"))

    app = make_app(performance.file, config, recorder=_DemoStatus(performance, key), badge="demo")

    async def watch() -> None:
        await app.run_async()

    # Not on uvloop, which only the processes that answer runtimes need.
    status = asyncio.run(performance.perform_for(watch))
    report_saved_files(app)
    _print_lines(iter(performance.record_output[-1:]))
    if app.failure is not None:
        raise app.failure
    if status:
        raise UsageError(f"record ended with status {status}", "try `nri-scope demo --log`")


class _DemoStatus:
    """Status messages for the screen while the demo plays."""

    def __init__(self, performance: Performance, key: str) -> None:
        self._performance = performance
        self.latest = f"all events were played; {key} quits and shows what to try next"

    @property
    def ended(self) -> bool:
        """Whether all events were played."""
        return self._performance.is_over


def _first_session(recording: Recording) -> tuple[Session, list[Stored]]:
    """Return the first session and its first `EVENTS_MAX` requests, set-up included."""
    from nri_scope.runtime import Stored

    sessions = recording.sessions()
    if not sessions:
        raise RecordingError(
            recording.path, "contains no session to play", "install nri-scope again"
        )
    stored: list[Stored] = []
    for event in recording.events():
        if event.session == sessions[0].id:
            request = recording.request(event.id)
            stored.append(Stored(event.at_ns, event.method, request, event.timeout_ns))
            if len(stored) == EVENTS_MAX:
                break
    return sessions[0], stored


@contextlib.contextmanager
def _new_recording(output: Path | None) -> Iterator[Path]:
    if output is not None:
        yield output
        return
    # Not in the current folder: a demo should not leave files to clean up there.
    folder = Path(tempfile.mkdtemp(prefix="nri-scope-demo-"))
    try:
        yield folder / "demo.nriscope.db"
    finally:
        with contextlib.suppress(OSError):
            # This succeeds only if no recording was made.
            folder.rmdir()


def introduction(performance: Performance, ending: str) -> Iterator[str]:
    """Yield an introduction to the demo. ``ending``: how to quit, such as ``q quits``."""
    from nri_scope.recording.display import moment, runtime

    session = performance.session
    yield "This is how nri-scope shows containers being created and removed. None runs here:"
    yield f"a recording of {runtime(session)}, made {moment(session.started_ns)[:10]},"
    yield "is played through an emulated runtime into a real `nri-scope record`. The events are the"
    yield "recorded ones, with current times. Nothing on this machine is modified."
    yield ""
    seconds = math.ceil(performance.seconds)
    yield f"{performance.count} events follow in about {seconds} s; {ending}."
    yield ""


def conclusion(performance: Performance) -> Iterator[str]:
    """Yield the recording's path, and commands to try on it."""
    recording = performance.file
    if not recording.exists():
        yield "Nothing was recorded."
        return
    program, file = program_name(), shlex.quote(str(recording.absolute()))
    yield ""
    ended = "Stopped early; the events so far are in" if performance.stopped else "Recorded in"
    yield ended
    yield f"  {file}"
    yield "Every command can be tried on this recording:"
    yield from _commands(
        ("browse it", f"{program} tui {file}"),
        ("print the log again", f"{program} log {file}"),
        ("filter the log", f"{program} log {file} --where 'event:CreateContainer'"),
        *(
            ("show a container in full, with its history", f"{program} show {file} {container}")
            for container in _containers(recording)[:1]
        ),
        ("counts, response times, gaps and sizes", f"{program} stats {file}"),
        ("query it in SQL", f'{program} sql {file} "{QUERY}"'),
    )
    yield ""
    yield "On a machine that runs containers:"
    yield from _commands(
        ("does NRI work here?", f"{program} doctor"),
        ("record real events, until ^C", f"sudo {program} record --print text"),
    )


def _commands(*commands: tuple[str, str]) -> Iterator[str]:
    for comment, words in commands:
        yield ""
        yield f"  # {comment}"
        yield f"  {words}"


def _containers(file: Path) -> list[str]:
    """Return the recording's containers as arguments of `show`, kube-system last."""
    from nri_scope.recording.reader import Recording

    with Recording.open(file) as recording:
        return [
            shlex.quote(f"{one.pod.namespace}/{one.pod.name}/{one.name}")
            for one in sorted(
                recording.containers(),
                key=lambda one: one.pod is None or one.pod.namespace == "kube-system",
            )
            if one.pod is not None
        ]


def program_name() -> str:
    """Return the command that starts this program from a shell."""
    called = Path(sys.argv[0])
    if called.name != "nri-scope":
        return f"{shlex.quote(sys.executable)} -m nri_scope"
    found = shutil.which("nri-scope")
    if found and called.exists() and Path(found).samefile(called):
        return "nri-scope"
    return shlex.quote(str(called))


def _print_lines(lines: Iterator[str]) -> None:
    # Each line is flushed, to stay in order with the output of `record`.
    for line in lines:
        click.echo(safe(line))
