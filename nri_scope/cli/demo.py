# SPDX-License-Identifier: Apache-2.0
"""``nri-scope demo``: play a recording of a real containerd, as if it happened now."""

from __future__ import annotations

import asyncio
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

from nri_scope.errors import UsageError
from nri_scope.text.escape import safe

from .params import ANY_PATH, NewRecording, say
from .tui import make_app, report_saved_files, tui_obstacle

if TYPE_CHECKING:
    from nri_scope.recorder.writer import Recorder
    from nri_scope.recording.reader import Recording

    from .demo_playback import Playback

RECORDING = "demo.nriscope.db"
"""File name of the recording to play."""
_POLL_SECONDS = 0.1


@click.command()
@click.argument("file", required=False, type=ANY_PATH)
@click.option(
    "-o",
    "--output",
    type=NewRecording(),
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
def command(file: Path | None, output: Path | None, speed: float, as_log: bool) -> None:
    """See nri-scope at work, without a container runtime.

    Plays a recording of six plugins at a real containerd, slowly enough to follow: changes with
    their owners, a slow plugin, a conflict. It becomes a new recording, which is shown in `tui`, or
    as a log if there is no terminal. Every other command can be tried on that recording. You can
    quit the demo at any time; it does not need root.

    FILE is played instead: a scenario, a manifest of Kubernetes or a recording.
    """
    if file is None:
        play(bundled_path(), output, speed, as_log=as_log)
        return
    from nri_scope.scenario.playable import playable

    with playable(file, on_note=say) as recording:
        play(recording, output, speed, as_log=as_log, title=f"the first events of {file.name}")


def bundled_path(name: str = RECORDING) -> Path:
    """Return the path of a sample recording, in an installed package or in a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "recordings", package.parent / "recordings"):
        if (folder / name).is_file():
            return folder / name
    raise UsageError(
        f"the recording {name} is missing from this installation",
        "install nri-scope again",
    )


def play(source: Path, output: Path | None, speed: float, *, as_log: bool, title: str = "") -> None:
    """Play ``source``, which ``title`` describes. Raise UsageError if ``output`` exists."""
    from nri_scope.recording.reader import Recording

    from .demo_playback import Playback

    if output is not None and (output.exists() or output.is_symlink()):
        raise UsageError(f"{output}: file exists", "choose a new name")
    reason = "" if as_log else tui_obstacle()
    with _new_recording(output) as file:
        with Recording.open(source) as recording:
            playback = Playback(recording, file, speed, title)
        recorder = playback.recorder()
        try:
            if as_log or reason:
                if reason:
                    click.echo(f"demo: {reason}; printing the log instead", err=True)
                _print(playback, recorder)
            else:
                _browse(playback, recorder)
        finally:
            # After the reader has closed the file, so that no companion file remains.
            recorder.close()
        if playback.problems:
            raise UsageError(f"{file}: {playback.problems[-1]}")
        _print_lines(conclusion(playback))


def _print(playback: Playback, recorder: Recorder) -> None:
    from nri_scope.process.signals import stop_signals
    from nri_scope.recording.log_rows import Log
    from nri_scope.recording.reader import Recording

    from .log_lines import LogPrinter
    from .output import Output

    async def show() -> None:
        playing = asyncio.create_task(playback.play(recorder))
        printer = LogPrinter(output, jsonl=False)
        with stop_signals(lambda *_: playing.cancel(), loop=asyncio.get_running_loop()):
            while True:
                is_over = playing.done() and _is_written(playback, recording, recorder)
                printer.add_columns(recording.sessions())
                for item in log.read():
                    printer.print(item)
                output.flush()
                if is_over:
                    break
                await asyncio.sleep(_POLL_SECONDS)
        if not playing.cancelled():
            playing.result()

    _print_lines(introduction(playback, "^C ends the demo earlier"))
    with Output() as output, Recording.open(playback.file) as recording:
        log = Log(recording)
        asyncio.run(show())


def _browse(playback: Playback, recorder: Recorder) -> None:
    from nri_scope.tui.config import config_path, load
    from nri_scope.tui.theme import NAMES

    config = load(config_path(), NAMES)
    key = config.keymap.first("quit")
    app = make_app(playback.file, config, recorder=_DemoStatus(playback, key), badge="demo")

    async def watch() -> None:
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(playback.play(recorder))
            await app.run_async()
            playing.cancel()

    asyncio.run(watch())
    report_saved_files(app)
    if app.failure is not None:
        raise app.failure


def _is_written(playback: Playback, recording: Recording, recorder: Recorder) -> bool:
    """Return whether the end of all sessions is in the file, or the recorder has failed."""
    ended = sum(session.ended_ns is not None for session in recording.sessions())
    return ended == playback.begun or not recorder.is_writing


class _DemoStatus:
    """Status messages for the screen while the demo plays."""

    def __init__(self, playback: Playback, key: str) -> None:
        self._playback = playback
        self.latest = f"all events were played; {key} quits and shows what to try next"

    @property
    def ended(self) -> bool:
        """Whether all events were played."""
        return self._playback.is_over

    @property
    def interruption(self) -> str:
        """Why no events arrive at present; "" if they do."""
        return ""


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


def introduction(playback: Playback, ending: str) -> Iterator[str]:
    """Yield an introduction to the demo. ``ending``: how to quit, such as ``q quits``."""
    from nri_scope.recording.display import moment, runtime

    session = playback.sessions[0]
    if playback.title:
        yield f"These are {playback.title},"
        yield f"of {runtime(session)}, with new times. No container"
        yield "runs here, and nothing on this machine is modified."
    else:
        yield f"This is a recording of six plugins at {runtime(session)},"
        yield f"made {moment(session.started_ns)[:10]}, with new times. No container runs here, and"
        yield "nothing on this machine is modified."
    yield ""
    seconds = math.ceil(playback.seconds)
    yield f"{playback.count} events follow in about {seconds} s; {ending}."
    yield ""


def conclusion(playback: Playback) -> Iterator[str]:
    """Yield the recording's path, and commands to try on it."""
    program, file = program_name(), shlex.quote(str(playback.file.absolute()))
    yield ""
    yield "Stopped early; the events so far are in" if playback.stopped else "Recorded in"
    yield f"  {file}"
    yield "Every command can be tried on this recording:"
    plugin = f"{shlex.quote(sys.executable)} my-plugin/my_plugin.py"
    yield from _commands(
        ("browse it", f"{program} tui {file}"),
        *(
            ("who changed this container?", f"{program} blame {file} {shlex.quote(one)}")
            for one in filter(None, [playback.container])
        ),
        ("what did the plugins change, event by event?", f"{program} diff {file}"),
        ("which plugin was slow, missing or in conflict?", f"{program} report {file} --diagnose"),
        ("a plugin of my own", f"{program} new-plugin my-plugin"),
        ("what would it do with these events?", f"{program} replay {file} -- {plugin}"),
    )
    yield ""
    yield "On a machine that runs containers:"
    yield from _commands(
        ("does NRI work here?", f"{program} doctor"),
        ("record real events, until ^C", f"sudo {_with_path(program)} record --print text"),
    )


def _with_path(program: str) -> str:
    """Return a program's command for sudo, whose PATH has no virtual environments."""
    found = shutil.which(program)
    return shlex.quote(found) if found else program


def _commands(*commands: tuple[str, str]) -> Iterator[str]:
    for comment, words in commands:
        yield ""
        yield f"  # {comment}"
        yield f"  {words}"


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
