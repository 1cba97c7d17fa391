# SPDX-License-Identifier: Apache-2.0
"""Wording of errors in the logs and CRI replies of a runtime, which is a Go program."""

from __future__ import annotations

from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, RpcError
from nri_scope.wire import Code

_GO_NAMES: dict[int, str] = {code: code.name.title().replace("_", "") for code in Code}
_GO_NAMES |= {Code.OK: "OK", Code.CANCELLED: "Canceled"}


def go_wording(error: NriScopeError) -> str:
    """Return the text that Go's ttRPC client has for ``error``, raised by a call to a plugin."""
    match error:
        case RpcError(code=code, message=message):
            return f"rpc error: code = {_GO_NAMES.get(code, f'Code({code})')} desc = {message}"
        case DeadlineExceeded():
            return "context deadline exceeded"
        case ConnectionClosed():
            return "ttrpc: closed"
        case _:
            return str(error)
