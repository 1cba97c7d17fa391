# SPDX-License-Identifier: Apache-2.0
"""``nri-scope demo``: a recording of a real containerd, played into a real ``record``."""

from __future__ import annotations

import contextlib
import math
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import RecordingError, UsageError

if TYPE_CHECKING:
    import asyncio.subprocess

    from nri_scope.recorder.model import Session
    from nri_scope.recorder.reader import Recording
    from nri_scope.runtime import Pace, Stored

RECORDING = "containerd-1.7.nriscope.db"
"""The sample recording that is played."""

EVENTS_MAX = 1_000
"""More than anybody would watch."""

SHORTEST, LONGEST, WHOLE = 0.4, 1.0, 15.0
"""Seconds at speed 1: the least and the most between two events, and the most for all of them."""

QUERY = "SELECT event, count(*) AS times FROM log GROUP BY event ORDER BY times DESC"
"""An example for `sql`."""

RECORD_ENDS = 15.0
"""Seconds that ``record`` may take to write the rest once the runtime is gone."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recording to make.  [default: one in a new temporary folder]",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0.1, max=1000),
    default=1.0,
    show_default=True,
    help="2 plays twice as fast, 0.5 half as fast.",
)
def command(output: Path | None, speed: float) -> None:
    """See nri-scope at work, without a container runtime.

    Plays a recording of a real containerd at a pace that people can follow, through an emulated
    runtime, into a real `nri-scope record`, and shows its live log. What comes out is a recording
    on which the other commands can be tried. ^C ends it at any time. It need not be run as root.
    """
    play_to_record(bundled_path(), output, speed)


def bundled_path() -> Path:
    """Where the recording is: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "recordings", package.parent / "recordings"):
        if (folder / RECORDING).is_file():
            return folder / RECORDING
    raise UsageError(
        f"the recording to play, {RECORDING}, is missing from this installation",
        "install nri-scope again",
    )


def play_to_record(source: Path, output: Path | None, speed: float) -> None:
    """Show the first session of ``source``; ``output`` must not exist yet."""
    from nri_scope.recorder.reader import Recording
    from nri_scope.transport.loop import run

    if output is not None and (output.exists() or output.is_symlink()):
        raise UsageError(f"{output}: there is such a file already", "choose a new name")
    with Recording.open(source) as recording:
        session, stored = _first_session(recording)
    with _new_recording(output) as file:
        demo = _Demo(session, stored, file, speed)
        _say(demo.introduction())
        status = run(demo.perform())
        if status:
            raise UsageError(f"record ended with status {status}", "it has said why")
        _say(demo.conclusion())


def _first_session(recording: Recording) -> tuple[Session, list[Stored]]:
    """The session and all its requests, those of the set-up first."""
    from nri_scope.runtime import Stored

    sessions = recording.sessions()
    if not sessions:
        raise RecordingError(recording.path, "it has no session to play", "install nri-scope again")
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
    # Not in the current folder: who only wants to look should not have to clean up there.
    folder = Path(tempfile.mkdtemp(prefix="nri-scope-demo-"))
    try:
        yield folder / "demo.nriscope.db"
    finally:
        with contextlib.suppress(OSError):
            # Only where no recording came of it.
            folder.rmdir()


def _socket_folder() -> tempfile.TemporaryDirectory[str]:
    """A new 0700 folder in which the path of a socket is short enough."""
    from nri_scope.transport.sockets import UNIX_PATH_MAX

    usual = tempfile.gettempdir()
    fits = len(f"{usual}/nri-scope-12345678/nri.sock".encode()) <= UNIX_PATH_MAX
    return tempfile.TemporaryDirectory(prefix="nri-scope-", dir=usual if fits else "/tmp")


class _Demo:
    """One performance."""

    def __init__(self, session: Session, stored: list[Stored], file: Path, speed: float) -> None:
        from nri_scope.runtime import split_setup

        self._session = session
        self._setup, events = split_setup(stored)
        self._events = list(events)
        self._file = file
        self._pace, self._seconds = watchable(self._events, speed)
        self._stopped = False

    async def perform(self) -> int:
        """Play into a `record` in a process of its own; returns its exit status.

        SIGINT and SIGTERM end it early.
        """
        import asyncio
        import signal

        from nri_scope.runtime import Runtime, play

        async def performance(runtime: Runtime) -> None:
            await runtime.wait_plugins(1)
            await play(runtime, self._events, pace=self._pace)

        async with asyncio.TaskGroup() as group:
            with _socket_folder() as folder:
                async with Runtime(self._setup) as runtime:
                    socket = Path(folder) / "nri.sock"
                    await runtime.listen(socket)
                    playing = group.create_task(performance(runtime))
                    for number in (signal.SIGINT, signal.SIGTERM):
                        asyncio.get_running_loop().add_signal_handler(number, self._stop, playing)
                    record = await _start_record(socket, self._file)
                    ended = group.create_task(record.wait())
                    ended.add_done_callback(lambda _: playing.cancel())
                    await asyncio.wait({playing})
            # That the runtime is gone ends a `record --once`.
            await asyncio.wait({ended}, timeout=RECORD_ENDS)
            if not ended.done():
                record.kill()
        return 0 if self._stopped else ended.result()

    def _stop(self, playing: asyncio.Task[None]) -> None:
        self._stopped = True
        playing.cancel()

    def introduction(self) -> Iterator[str]:
        """What is going to happen, and what it is not."""
        from nri_scope.recorder.display import moment, runtime

        session = self._session
        yield "This is what nri-scope shows of containers that come and go. There are none here:"
        yield f"a recording of {runtime(session)}, made {moment(session.started_ns)[:10]},"
        yield "is played through an emulated runtime into a real `nri-scope record`. The events are"
        yield "what was sent then, the times are today's. Nothing on this machine is touched."
        yield ""
        seconds = math.ceil(self._seconds)
        # Every event that `record` will show: the set-up has its Configure and Synchronize.
        count = 1 + len(self._setup.synchronize("")) + len(self._events)
        yield f"{count} events follow in about {seconds} s; ^C ends it earlier."
        yield ""

    def conclusion(self) -> Iterator[str]:
        """Where the recording is and what can be done with it."""
        if not self._file.exists():
            yield "Nothing was recorded."
            return
        program, file = program_name(), shlex.quote(str(self._file.absolute()))
        yield ""
        yield "Ended early; what was played so far is in" if self._stopped else "This is now in"
        yield f"  {file}"
        yield "and every command can be tried on it:"
        yield from _commands(
            ("the log again", f"{program} log {file}"),
            ("a part of it", f"{program} log {file} --where 'event:CreateContainer'"),
            *(
                ("a container in full, with its history", f"{program} show {file} {container}")
                for container in _containers(self._file)[:1]
            ),
            ("counts, answering times, gaps and sizes", f"{program} stats {file}"),
            ("any question, in SQL", f'{program} sql {file} "{QUERY}"'),
        )
        yield ""
        yield "On a machine that runs containers:"
        yield from _commands(
            ("does NRI work here?", f"{program} doctor"),
            ("record what really happens, until ^C", f"sudo {program} record --print text"),
        )


def _commands(*commands: tuple[str, str]) -> Iterator[str]:
    for comment, words in commands:
        yield ""
        yield f"  # {comment}"
        yield f"  {words}"


def watchable(events: Sequence[Stored], speed: float) -> tuple[Pace, float]:
    """A pace at which the events can be followed but do not take too long; and the seconds."""
    from nri_scope.runtime import Pace

    def seconds(pace: Pace) -> float:
        return sum(pace.pause(one.at_ns, other.at_ns) for one, other in pairwise(events))

    pace = Pace(1.0, SHORTEST, LONGEST)
    pace = Pace(speed * max(1.0, seconds(pace) / WHOLE), SHORTEST, LONGEST)
    return pace, seconds(pace)


async def _start_record(socket: Path, file: Path) -> asyncio.subprocess.Process:
    import asyncio

    # -P: a module in the current folder must not be taken for one of ours.
    arguments = ["-P", "-m", "nri_scope", "record", "--socket", str(socket), "-o", str(file)]
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, "--once", "--print", "text", stdin=asyncio.subprocess.DEVNULL
    )


def _containers(file: Path) -> list[str]:
    """The recording's containers as `show` takes them, the system's own last."""
    from nri_scope.recorder.reader import Recording

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
    """How to call us from the shell that called us."""
    called = Path(sys.argv[0])
    if called.name != "nri-scope":
        return f"{shlex.quote(sys.executable)} -m nri_scope"
    found = shutil.which("nri-scope")
    if found and called.exists() and Path(found).samefile(called):
        return "nri-scope"
    return shlex.quote(str(called))


def _say(lines: Iterator[str]) -> None:
    from nri_scope.recorder.escape import safe

    # Each at once: what `record` prints has to come in between.
    for line in lines:
        click.echo(safe(line))
