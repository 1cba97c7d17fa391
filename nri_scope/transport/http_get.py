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
_PIECE = 64 << 10
_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def http_get(url: str, timeout: float) -> bytes:
    """Return the document at an ``http`` or ``https`` URL, within ``timeout`` seconds in all.

    Follows no redirects and uses no proxies. Raises `UsageError` for an invalid URL, and if the
    document cannot be had.
    """
    until = monotonic() + timeout
    parts = _parts(url)
    if parts is None or parts.hostname is None:
        raise UsageError(
            f"{url!r} is not a URL of metrics", "write it as http://127.0.0.1:1338/v1/metrics"
        )
    connection = _SCHEMES[parts.scheme](parts.hostname, parts.port, timeout=timeout)
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
        return bytes(content)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, TimeoutError) or monotonic() >= until:
            raise UsageError(f"{url}: no complete answer within {timeout:g} s") from None
        # The text of other errors may have lines of the server.
        words = getattr(error, "strerror", None)
        raise UsageError(f"{url}: {words.lower() if words else 'no valid HTTP answer'}") from error
    finally:
        if timer is not None:
            timer.cancel()
        if answer is not None:
            answer.close()
        connection.close()


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a valid URL without credentials; None for any other text."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    clean = url.isascii() and url.isprintable() and " " not in url and parts.username is None
    return parts if valid and clean else None


def _abort(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
