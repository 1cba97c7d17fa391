# SPDX-License-Identifier: Apache-2.0
"""The answers of a real CRI in a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from nri_scope.events import CONTAINER_STATUS, Event
from nri_scope.recording.query.cri_answers import CriStatus, container_status
from nri_scope.recording.reading.reader import Recording
from tests.cli.tap_process import PATIENCE


class Answers:
    """The CRI's answers in a growing recording."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[tuple[Event, CriStatus]]:
        with Recording.open(self._file) as recording:
            return [
                (event, container_status(recording.reply(event.id)))
                for event in recording.events()
                if event.method == CONTAINER_STATUS
            ]

    async def newest(
        self, container: str, condition: Callable[[CriStatus], bool] = lambda status: True
    ) -> CriStatus:
        """Wait until an answer fulfils the condition, and return it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [one for event, one in self.all() if event.container_id == container]
                if found and condition(found[-1]):
                    return found[-1]
                await asyncio.sleep(0.1)

    async def after(self, mono_ns: int, container: str) -> CriStatus:
        """Wait for an answer to a question that was asked after ``mono_ns``."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for event, one in self.all():
                    if event.mono_ns > mono_ns and event.container_id == container:
                        return one
                await asyncio.sleep(0.1)
