# SPDX-License-Identifier: Apache-2.0
"""Get a document by HTTP, within limits for untrusted servers; blocks, so not for event loops."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from threading import Timer
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from nri_scope.errors import UsageError

SIZE_MAX = 32 << 20
"""Maximum number of bytes of a document. containerd's metrics have 4 kB for each container."""
TIMEOUT_S = 5.0
"""Default duration in seconds after which a document is given up."""
_PIECE = 64 << 10
_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_NOT_SERVED = "containerd serves metrics only if `address` is set in [metrics] of its configuration"


def http_get(url: str, timeout: float = TIMEOUT_S) -> bytes:
    """Return the document at an ``http`` or ``https`` URL, within ``timeout`` seconds in all.

    Follows no redirects and uses no proxies. Raises `UsageError` for an invalid URL, and if the
    document cannot be had.
    """
    until = monotonic() + timeout
    parts, host = check_url(url)
    connection = _SCHEMES[parts.scheme](
        # Without a port, the last part of an IPv6 address is taken for one.
        host,
        parts.port or (443 if parts.scheme == "https" else 80),
        timeout=timeout,
    )
    answer = timer = None
    try:
        connection.connect()
        # The timeout of a connection is that of one piece, but a server may send single bytes.
        timer = Timer(max(0.0, until - monotonic()), _abort, (connection.sock,))
        timer.daemon = True
        timer.start()
        connection.request("GET", f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise UsageError(f"{url}: the answer is HTTP status {answer.status}")
        content = bytearray()
        while piece := answer.read1(_PIECE):
            content += piece
            if len(content) > SIZE_MAX:
                raise UsageError(f"{url}: the answer is larger than {SIZE_MAX >> 20} MiB")
        if monotonic() >= until:
            raise TimeoutError
        if answer.length:
            raise UsageError(f"{url}: the answer ends before its announced length")
        return bytes(content)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, TimeoutError) or monotonic() >= until:
            raise UsageError(f"{url}: no complete answer within {timeout:g} s") from None
        # The text of other errors may have lines of the server.
        reason = getattr(error, "strerror", None)
        hint = _NOT_SERVED if isinstance(error, ConnectionRefusedError) else ""
        raise UsageError(
            f"{url}: {reason.lower() if reason else 'no valid HTTP answer'}", hint
        ) from error
    finally:
        if timer is not None:
            timer.cancel()
        if answer is not None:
            answer.close()
        connection.close()


def check_url(url: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL and its host name. Raises `UsageError` if it is not valid."""
    hint = "write it as http://127.0.0.1:1338/v1/metrics"
    if "@" in url:
        # The URL is not repeated: it may contain a password.
        problem = "a URL of metrics must not contain @: no user name or password can be sent"
        raise UsageError(problem, hint)
    clean = url.isascii() and url.isprintable() and " " not in url
    # A name that cannot be looked up raises UnicodeError, a ValueError.
    with suppress(ValueError):
        parts = urlsplit(url)
        host = parts.hostname or ""
        if clean and parts.scheme in _SCHEMES and host.encode("idna") and parts.port != 0:
            return parts, host
    raise UsageError(f"{url!r} is not a URL of metrics", hint)


def _abort(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
