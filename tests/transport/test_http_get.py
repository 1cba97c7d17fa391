# SPDX-License-Identifier: Apache-2.0
"""Documents by HTTP, from servers that may be hostile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from nri_scope.errors import UsageError
from nri_scope.transport import http_get as module
from nri_scope.transport.http_get import http_get


@contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Answer one request; yield the URL."""

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.recv(65536)
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def sends(data: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(data)


def test_a_document_is_returned_whole() -> None:
    with server(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na 1")) as url:
        assert http_get(url, 20) == b"a 1"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "HTTP status 302"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP status 404"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no valid HTTP answer"),
        (b"", "no valid HTTP answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, "no valid HTTP answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na 1\n", "ends before its announced"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "larger than 0 MiB"),
    ],
)
def test_other_answers_are_errors(
    answer: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SIZE_MAX", 1000)
    with server(sends(answer)) as url, pytest.raises(UsageError) as caught:
        http_get(url, 20)
    assert words in caught.value.problem
    assert caught.value.problem.startswith(f"{url}: ")


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_server_that_sends_single_bytes_is_given_up(head: bytes) -> None:
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        with suppress(OSError):
            while not over.wait(0.05):
                connection.sendall(b"x")

    with server(drip) as url:
        try:
            with pytest.raises(UsageError, match=r"no complete answer within 0\.4 s"):
                http_get(url, 0.4)
        finally:
            over.set()


@pytest.mark.parametrize(
    "url",
    [
        "", "metrics", "file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http://[::1",
        "http://127.0.0.1:99999/", "http://a..b/", f"http://{64 * 'a'}.b/", "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nX: y", "http://127.0.0.1/é", "unix:///run/x",
    ],
)  # fmt: skip
def test_other_urls_are_errors(url: str) -> None:
    with pytest.raises(UsageError, match="is not a URL of metrics"):
        http_get(url, 5)


@pytest.mark.parametrize("url", ["http://u:secret@127.0.0.1/", "http://u:sec/ret@[::1"])
def test_a_url_with_a_password_is_refused_without_printing_it(url: str) -> None:
    with pytest.raises(UsageError, match="no user name or password can be sent") as caught:
        http_get(url, 5)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_an_ipv6_address_without_a_port_is_the_host(
    scheme: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], *more: object) -> None:
        asked.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(UsageError, match="connection refused") as caught:
        http_get(f"{scheme}://[::1]/v1/metrics", 5)
    assert asked == [("::1", port)]
    assert "only if `address` is set" in caught.value.hint
