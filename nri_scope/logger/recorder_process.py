# SPDX-License-Identifier: Apache-2.0
"""Run the recorder in a separate process, for commands that display the recorded events.

Used by ``tui --live`` and ``diff --live``: the command is the viewer, which owns the terminal and
receives its signals. The recorder answers the runtime and writes the file, which the viewer reads.
Over their channel, the recorder sends messages for the user, and messages specific to the command.
The recorder stops properly on a stop signal, and when the viewer has left or ended for any reason.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.child import keep_exit_statuses, spawn
from nri_scope.writer.background_output import Background

from .run import RecordOptions, record

FAILED = 2
"""Exit status of a recorder that failed."""
READY_SECONDS = 15.0
"""Maximum time in seconds until the recorder reports that it records, waits or has failed."""
STOP_SECONDS = 30.0
"""Maximum time in seconds for the recorder to write the queued events."""
END_SECONDS = 2.0
"""Maximum time in seconds for an idle process to exit."""
NOTICES_MAX = 200
"""Maximum number of messages queued for a viewer that does not read."""
_OPTIONS, _NOTICE, _FAILURE, _OWN = range(4)
"""Kinds of messages; ``_OWN + n`` is kind n of the command's own messages."""


class RecorderProcess:
    """The viewer's handle of the recorder. Only `ready` and `stop` block."""

    def __init__(
        self,
        module: str,
        *,
        nicer: int,
        on_notice: Callable[[str], None] = lambda text: None,
        on_message: Callable[[int, bytes], None] = lambda kind, payload: None,
    ) -> None:
        """Start the process, which calls ``main`` of ``module`` and waits for `begin`.

        ``nicer`` is added to the niceness of this process, as the recorder, which answers the
        runtime, has priority. The callbacks are called in another thread. Raises UsageError.
        """
        self.status_text = ""
        """The recorder's last message for the user."""
        self.interruption = ""
        """Always "": see `nri_scope.tui.polling.OwnRecorderStatus`."""
        self.failure = ""
        """Reason why the recorder failed; "" if it did not."""
        self._on_notice = on_notice
        self._on_message = on_message
        self._stop_signal = 0
        self._has_message = threading.Event()
        keep_exit_statuses()
        self._child = spawn(
            module,
            failure="the recorder process cannot be started",
            # The child also notices the end of the channel, but not while it is stopped.
            on_parents_death=signal.SIGCONT,
        )
        self._channel = ThreadChannel(self._child.socket)
        os.nice(nicer)
        self._listener = threading.Thread(target=self._listen, name="recorder", daemon=True)
        self._listener.start()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return not self._listener.is_alive()

    def begin(self, options: object) -> None:
        """Start recording, with a copy of ``options``."""
        self._channel.send(_OPTIONS, pickle.dumps(options))

    def leave(self) -> None:
        """Let the recorder end, as its events are no longer shown."""
        with suppress(OSError):
            self._child.socket.shutdown(socket.SHUT_WR)

    def signal(self, number: int) -> None:
        """Forward a stop signal to the recorder."""
        self._stop_signal = number
        self._child.signal(number)
        # Continue a stopped process, so that it can handle the signal.
        self._child.signal(signal.SIGCONT)

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for the first message. Raises UsageError if the recorder cannot record."""
        self._has_message.wait(seconds)
        self.check()

    def stop(self, number: int = 0, seconds: float = STOP_SECONDS) -> None:
        """Send a signal, unless it is 0; wait until the recorder has written all events and exited.

        After ``seconds`` the recorder is killed.
        """
        if number and not self.ended:
            self.signal(number)
        self._listener.join(seconds)
        if not self.ended:
            self._child.stop(0)
            self._listener.join()

    def check(self) -> None:
        """Raise UsageError if the recorder failed."""
        if self.failure:
            raise UsageError(self.failure)

    def _listen(self) -> None:
        try:
            self._receive()
        finally:
            # Also if a callback failed, as `stop` leaves a process alone whose listener has ended.
            end = self._child.stop(END_SECONDS)
            if end.code not in (0, -self._stop_signal) and not self.failure:
                self.failure = f"the recorder process has ended, {end.description}"
                self.status_text = self.failure
            self._has_message.set()

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            kind, payload = message
            if kind >= _OWN:
                self._on_message(kind - _OWN, payload)
                continue
            text = payload.decode(errors="replace")
            if kind == _FAILURE:
                self.failure = text
            else:
                self._on_notice(text)
            self.status_text = text
            self._has_message.set()


class Viewer:
    """The recorder's handle of the viewer, for any thread. Sending never blocks.

    Messages that the viewer does not read are skipped, so that the runtime never waits for it.
    """

    def __init__(self, descriptor: int) -> None:
        self._channel = ThreadChannel(socket.socket(fileno=descriptor))
        self._queue = Background(self._send, waiting_max=NOTICES_MAX)

    def options(self) -> Any:
        """Wait for the options; return None if the viewer has ended."""
        message = self._channel.receive()
        return None if message is None else pickle.loads(message[1])

    def say(self, text: str) -> None:
        """Send a message for the user."""
        self._queue.put((_NOTICE, _line(text)))

    def tell(self, kind: int, payload: bytes) -> None:
        """Send one of the command's own messages."""
        self._queue.put((_OWN + kind, payload))

    def fail(self, text: str) -> None:
        """Send the reason why the recorder failed."""
        self._queue.put((_FAILURE, _line(text)))

    def listen(self, on_gone: Callable[[], None]) -> None:
        """Start a thread that calls ``on_gone`` when the viewer has left or ended."""

        def work() -> None:
            self._channel.receive()
            on_gone()

        threading.Thread(target=work, name="viewer", daemon=True).start()

    def close(self) -> None:
        """Send the queued messages."""
        self._queue.close()

    def _send(self, message: tuple[int, bytes]) -> None:
        self._channel.send(*message)


def _line(text: str) -> bytes:
    return " ".join(text.split()).encode(errors="replace")


def serve(descriptor: int, work: Callable[[Viewer, Any], None]) -> int:
    """Call ``work`` with the options that the viewer sends; return the exit status.

    Errors are reported to the viewer. ``work`` is not called if the viewer ends without sending
    options.
    """
    viewer = Viewer(descriptor)
    try:
        options = viewer.options()
        if options is not None:
            work(viewer, options)
        return 0
    except KeyboardInterrupt:
        # The recorder was stopped before it started.
        return 0
    except NriScopeError as error:
        viewer.fail(str(error))
    except BaseException as error:  # noqa: BLE001 - there is no other place to report it
        viewer.fail("internal error: " + "".join(traceback.format_exception_only(error)))
    finally:
        viewer.close()
    return FAILED


def main(descriptor: int) -> int:
    """Run the recorder of ``tui --live``."""
    return serve(descriptor, _record)


def _record(viewer: Viewer, options: RecordOptions) -> None:
    viewer.listen(lambda: os.kill(os.getpid(), signal.SIGTERM))
    record(options, viewer.say)
