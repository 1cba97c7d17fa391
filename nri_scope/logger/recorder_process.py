# SPDX-License-Identifier: Apache-2.0
"""Run the recorder in a separate process, for commands that show the recorded events.

``tui --live`` and ``diff --live`` share this: the command itself is the viewer, which owns the
terminal and its signals; the recorder answers the runtime and writes the file; the viewer reads
that file. Over their channel the recorder sends messages for the user, and both may send messages
specific to the kind of recorder. A recorder stops properly on a stop signal, and when the viewer is
gone for any reason.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from typing import Any

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.child import keep_exit_statuses, spawn

from .background_output import Background
from .run import RecordOptions, record

FAILED = 2
"""Exit status of a recorder that could not do its work."""
READY_SECONDS = 15.0
"""Maximum time in seconds until the recorder reports that it records, waits or failed."""
STOP_SECONDS = 30.0
"""Maximum time in seconds for the recorder to write the remaining events."""
END_SECONDS = 2.0
"""Maximum time in seconds for an idle process to end."""
NOTICES_MAX = 200
"""Maximum number of messages that wait for a viewer that does not read."""
_OPTIONS, _NOTICE, _FAILURE, _OWN = range(4)
"""Kinds of messages; the last one plus n is kind n of a recorder's own messages."""


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
        """Start the process, which calls ``main`` of ``module``; it waits for `begin`.

        ``nicer``: niceness added to this process, as the one that answers the runtime has priority.
        The callbacks are called in another thread. Raises UsageError.
        """
        self.latest = ""
        """The recorder's last message for the user."""
        self.failure = ""
        """Why the recorder failed; "" if it did not."""
        self._on_notice = on_notice
        self._on_message = on_message
        self._asked_to_stop = 0
        self._told = threading.Event()
        keep_exit_statuses()
        self._child = spawn(
            module,
            failure="the process that records cannot be started",
            # The channel's end shows it, too, but a stopped process does not read the channel.
            on_parents_death=signal.SIGCONT,
        )
        self._channel = ThreadChannel(self._child.socket)
        os.nice(nicer)
        self._listening = threading.Thread(target=self._listen, name="recorder", daemon=True)
        self._listening.start()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return not self._listening.is_alive()

    def begin(self, options: object) -> None:
        """Start the recording; the process gets a copy of ``options``."""
        self._channel.send(_OPTIONS, pickle.dumps(options))

    def tell(self, kind: int, payload: bytes) -> None:
        """Send the recorder one of its own messages; dropped if the process has ended."""
        self._channel.send(_OWN + kind, payload)

    def signal(self, number: int) -> None:
        """Pass a stop signal on."""
        self._asked_to_stop = number
        self._child.signal(number)
        # Continue a stopped process, so that it can end properly.
        self._child.signal(signal.SIGCONT)

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for the first message. Raises UsageError if the recorder cannot record."""
        self._told.wait(seconds)
        self.check()

    def stop(self, number: int = 0, seconds: float = STOP_SECONDS) -> None:
        """Send a signal, if given, and wait until the process has written all events and ended.

        After ``seconds`` it is killed.
        """
        if number and not self.ended:
            self.signal(number)
        self._listening.join(seconds)
        end = self._child.stop(END_SECONDS if self.ended else 0)
        if end.code not in (0, -self._asked_to_stop) and not self.failure:
            self.failure = f"the process that records has ended, {end.description}"

    def check(self) -> None:
        """Raise UsageError if the recorder failed."""
        if self.failure:
            raise UsageError(self.failure)

    def _listen(self) -> None:
        while (told := self._channel.receive()) is not None:
            kind, payload = told
            if kind >= _OWN:
                self._on_message(kind - _OWN, payload)
                continue
            text = payload.decode(errors="replace")
            if kind == _FAILURE:
                self.failure = text
            else:
                self._on_notice(text)
            self.latest = text
            self._told.set()
        self._told.set()


class Viewer:
    """The recorder's handle of the viewer, for any thread; sending to it never blocks.

    If a viewer does not read, messages are skipped: it must not keep the runtime waiting.
    """

    def __init__(self, descriptor: int) -> None:
        self._channel = ThreadChannel(socket.socket(fileno=descriptor))
        self._telling = Background(self._send, waiting_max=NOTICES_MAX)
        self._early: list[tuple[int, bytes]] = []

    def options(self) -> Any:
        """Wait for the options; None if the viewer is gone."""
        while (told := self._channel.receive()) is not None:
            if told[0] == _OPTIONS:
                return pickle.loads(told[1])
            self._early.append(told)
        return None

    def say(self, text: str) -> None:
        """Send a message for the user."""
        self._telling.put((_NOTICE, _line(text)))

    def tell(self, kind: int, payload: bytes) -> None:
        """Send one of the recorder's own messages."""
        self._telling.put((_OWN + kind, payload))

    def fail(self, text: str) -> None:
        """Report why the recorder failed."""
        self._telling.put((_FAILURE, _line(text)))

    def listen(self, on_message: Callable[[int, bytes], None], on_gone: Callable[[], None]) -> None:
        """Call these in another thread with the viewer's messages, and when the viewer is gone."""

        def work() -> None:
            for kind, payload in self._early:
                on_message(kind - _OWN, payload)
            while (told := self._channel.receive()) is not None:
                on_message(told[0] - _OWN, told[1])
            on_gone()

        threading.Thread(target=work, name="viewer", daemon=True).start()

    def close(self) -> None:
        """Send the waiting messages, which takes only a moment."""
        self._telling.close()

    def _send(self, told: tuple[int, bytes]) -> None:
        self._channel.send(*told)


def _line(text: str) -> bytes:
    return " ".join(text.split()).encode(errors="replace")


def serve(descriptor: int, work: Callable[[Viewer, Any], None]) -> int:
    """Do ``work`` with the options that the viewer sends; return the exit status.

    Errors are reported to the viewer. Without options, if the viewer is gone, nothing is done.
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
    viewer.listen(lambda kind, payload: None, lambda: os.kill(os.getpid(), signal.SIGTERM))
    record(options, viewer.say)
