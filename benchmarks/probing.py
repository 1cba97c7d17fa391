# SPDX-License-Identifier: Apache-2.0
"""Passive probes of one process, recording to one file.

`python -m benchmarks.probing SOCKET RECORDING INDEX…`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nri_scope.logger import Logger, LoggerService
from nri_scope.logger.tuning import prepare_process
from nri_scope.plugin import Identity, unix_socket
from nri_scope.recorder.writer import Recorder
from nri_scope.transport.loop import run


async def _probe(recorder: Recorder, socket: Path, indices: list[str]) -> None:
    services = []
    for index in indices:
        identity = Identity(index=index, name="probe")
        logger = Logger(recorder, identity)
        services.append(LoggerService(logger, identity, unix_socket(socket), once=True))
    async with asyncio.TaskGroup() as group:
        for service in services:
            group.create_task(service.run())


if __name__ == "__main__":
    _socket, _recording, *_indices = sys.argv[1:]
    _recorder = Recorder.open(_recording)
    prepare_process()
    run(_probe(_recorder, Path(_socket), _indices))
    _recorder.close()
