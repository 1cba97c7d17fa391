# SPDX-License-Identifier: Apache-2.0
"""Collect exceptions of handlers in this process, as replies contain only one line of each."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import nri_scope.plugin

_LOG = logging.getLogger("nri_scope.plugin")
_OURS = str(Path(nri_scope.plugin.__file__).parent)


class HandlerError(NamedTuple):
    """Exception raised by a handler."""

    where: str
    """Handler and subject: ``create_container shop/web/app``."""
    error: BaseException
    """Its traceback begins in the handler."""

    def lines(self) -> Iterator[str]:
        """Yield its traceback as Python prints it."""
        for text in traceback.format_exception(self.error):
            yield from text.splitlines()


@contextmanager
def collect_handler_errors() -> Iterator[list[HandlerError]]:
    """Collect exceptions of handlers in the block. They are still logged, and sent as errors."""
    found: list[HandlerError] = []
    level, effective = _LOG.level, _LOG.getEffectiveLevel()

    def collect(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            found.append(HandlerError(record.getMessage(), _from_handler(error)))
        # Drop records below the level in effect before.
        return record.levelno >= effective

    _LOG.addFilter(collect)
    _LOG.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        _LOG.setLevel(level)
        _LOG.removeFilter(collect)


def _from_handler(error: BaseException) -> BaseException:
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error
