# SPDX-License-Identifier: Apache-2.0
"""Run a coroutine in a thread of its own, while other code reads what it writes."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from nri_scope.errors import NriScopeError

_STOP_S = 10.0


class LoopThread(ABC):
    """Thread with an event loop; a context manager, at whose end the coroutine is cancelled."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """``on_end`` is called in the thread after the coroutine."""
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.error: Exception | None = None
        """Why the coroutine ended early; None while it goes on."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def is_done(self) -> bool:
        """Whether the coroutine has ended."""
        return not self._thread.is_alive()

    @abstractmethod
    async def _main(self) -> None:
        """Do the work; NriScopeError and OSError become `error`."""

    def _fail(self, error: NriScopeError) -> None:
        """Cancel the coroutine because of an error in one of its tasks."""
        assert self._task is not None
        self.error = error
        self._task.cancel()

    def _stop(self) -> None:
        self._stopped = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except asyncio.CancelledError:
            pass
        except (NriScopeError, OSError) as error:
            # Raised in the other thread.
            self.error = error
        finally:
            self._on_end()

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._main())
        if self._stopped:
            self._task.cancel()
        await self._task
