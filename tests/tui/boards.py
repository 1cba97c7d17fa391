# SPDX-License-Identifier: Apache-2.0
"""A board in its own app, which records the messages it receives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Semaphore
from typing import TypeVar

from google.protobuf.message import Message as Message_
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.survey.survey import survey
from nri_scope.tui.store.context import Context
from nri_scope.tui.store.store import Store
from nri_scope.tui.widgets.board import Board
from nri_scope.tui.widgets.messages import (
    Failed,
    OpenEvent,
    OpenTime,
    RowChosen,
    SetFilter,
    StatusText,
)
from tests.replay.recordings import START_NS, container, life, run_pod
from tests.tui.keyboard import press
from tests.tui.screen import settle
from tests.tui.widgets.drawn import strips_of

T = TypeVar("T", bound=Message)
BoardFactory = Callable[[Store, Context], Board]


class BoardApp(App[None]):
    """App with one board."""

    def __init__(self, board: Board) -> None:
        super().__init__()
        self.board = board
        self.messages: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.board

    def on_open_event(self, message: OpenEvent) -> None:
        self.messages.append(message)

    def on_open_time(self, message: OpenTime) -> None:
        self.messages.append(message)

    def on_row_chosen(self, message: RowChosen) -> None:
        self.messages.append(message)

    def on_set_filter(self, message: SetFilter) -> None:
        self.messages.append(message)

    def on_status_text(self, message: StatusText) -> None:
        self.messages.append(message)

    def on_failed(self, message: Failed) -> None:
        self.messages.append(message)


class Shown:
    """A board in a running app."""

    def __init__(self, pilot: Pilot[None], board: Board, app: BoardApp) -> None:
        self.pilot = pilot
        self.board = board
        self.app = app

    async def settle(self) -> None:
        """Wait until the app is idle."""
        await settle(self.app, self.pilot)

    async def update(self) -> None:
        """Update the board, as after growth of the recording or a change of the context."""
        await self.board.store.refresh()
        await self.board.update()
        await self.settle()

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until the app is idle."""
        for key in keys:
            await press(self.pilot, key)
            await self.settle()

    def last(self, kind: type[T]) -> T:
        """Return the newest message of a class."""
        found = [message for message in self.app.messages if isinstance(message, kind)]
        assert found, f"no {kind.__name__} message"
        return found[-1]

    @property
    def screen(self) -> list[str]:
        """The lines of the screen."""
        return [strip.text.rstrip() for strip in strips_of(self.app)]


@asynccontextmanager
async def showing(
    path: Path,
    make: BoardFactory,
    *,
    size: tuple[int, int] = (80, 24),
    context: Context | None = None,
    surveyed: bool = False,
) -> AsyncIterator[Shown]:
    """Run a board on a recording, focused and completely read. ``surveyed``: with the changes."""
    store = await Store.open(path)
    try:
        if surveyed:
            survey(path, path.with_name("survey.db"))
            await store.attach(path.with_name("survey.db"))
        board = make(store, context or Context())
        app = BoardApp(board)
        async with app.run_test(size=size) as pilot:
            shown = Shown(pilot, board, app)
            board.focus()
            await shown.update()
            yield shown
    finally:
        await store.close()


class GrowingRecording:
    """Writer of a growing recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stored = Semaphore(0)
        self._recorder = Recorder.open(path, on_event=lambda *_: self._stored.release())
        self._session = self._recorder.begin_session(
            SessionStart(
                Role.LOGGER, "nri-scope", "00", "containerd", "2.3.0", "0.12.0", False, 0, 0, 0,
                START_NS,
            )
        )  # fmt: skip
        self._at_ns = START_NS

    def write(self, *events: tuple[str, Message_]) -> None:
        """Record events one second apart, and flush them."""
        for method, request in events:
            self._at_ns += 10**9
            data = request.SerializeToString()
            at_ns = self._at_ns
            self._recorder.capture(
                self._session, CapturedCall(at_ns, at_ns, method, data, b"", 0, "", 1000, 2 * 10**9)
            )
        for _ in events:
            assert self._stored.acquire(timeout=10)

    def grow(self) -> None:
        """Record another pod with a container."""
        pod = api.PodSandbox(id="later-id", name="later", namespace="shop", uid="later-uid")
        new = api.Container(id="new-id", name="new", pod_sandbox_id=pod.id)
        self.write(
            run_pod(pod),
            ("CreateContainer", api.CreateContainerRequest(pod=pod, container=new)),
        )

    def close(self) -> None:
        """Close the recording."""
        self._recorder.close()


@contextmanager
def growing(path: Path) -> Iterator[GrowingRecording]:
    """Create a growing recording of one pod with one container."""
    recorder = GrowingRecording(path)
    try:
        recorder.write(run_pod(), *life(container()))
        yield recorder
    finally:
        recorder.close()
