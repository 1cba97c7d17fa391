# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the plugin's code, as log lines and as text for the runtime."""

from __future__ import annotations

import logging

from nri_scope.errors import NriScopeError, RpcError

log = logging.getLogger("nri_scope.plugin")


def log_failure(where: str, error: Exception) -> None:
    """Log an exception as one line, and at level DEBUG with its traceback."""
    log.error("%s: %s", where, words_of(error))
    log.debug("%s", where, exc_info=error)


def words_of(error: Exception) -> str:
    """Return the text of an exception for a log or an error status."""
    if isinstance(error, RpcError):
        return error.message
    # Errors of nri-scope are sentences; other errors need their type.
    return str(error) if isinstance(error, NriScopeError) else f"{type(error).__name__}: {error}"
