# SPDX-License-Identifier: Apache-2.0
"""Logging of a plugin's process to stderr, unless the plugin configures its own."""

from __future__ import annotations

import logging

_OWN = "nri_scope.plugin"
"""Logger of this library."""


def log_to_stderr(*, verbose: bool, launched: bool) -> None:
    """Print records from level INFO on, or from DEBUG with ``verbose``, one line each.

    Does nothing if the root logger has a handler, and omits records that a handler of another
    logger prints. For a ``launched`` plugin, this library logs no start and end of sessions, which
    the runtime decides.
    """
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.addFilter(_is_unhandled)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if launched and not verbose:
        logging.getLogger(_OWN).setLevel(logging.WARNING)


def _is_unhandled(record: logging.LogRecord) -> bool:
    """Return whether no logger below the root has handled the record."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if logger.handlers:
            return False
        logger = logger.parent
    return True


class _OneLine(logging.Formatter):
    """Formatter that escapes untrusted text, and prints one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = printable(record.getMessage())
        text = f"{record.levelname.lower()}: {line}"
        if record.exc_info:
            # A traceback has several lines.
            lines = self.formatException(record.exc_info).splitlines()
            text = "\n".join([text, *("  " + printable(one) for one in lines)])
        return text


def printable(text: str) -> str:
    """Escape control characters and other characters that terminals do not print."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
