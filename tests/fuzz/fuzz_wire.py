# SPDX-License-Identifier: Apache-2.0
"""atheris target: arbitrary bytes passed to a `Connection` in chunks of arbitrary size.

Run by ``make fuzz``. Findings are exceptions, different results for different chunk sizes, and
events after the end of the connection. Usage: ``python -m tests.fuzz.fuzz_wire``.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["nri_scope.wire"]):
    from nri_scope.wire import Connection, ConnectionFailed, Limits, PeerClosed, RequestReceived

LIMITS = Limits(frame_payload=4096, message_data=2048, requests_in_flight=8, safe_frame=64)


def run(data: bytes, step: int, *, answer: bool) -> tuple[list[str], bytes]:
    """Feed ``data`` in chunks of ``step`` bytes; return the events and the bytes to send."""
    end = Connection(serves=1, calls=2, limits=LIMITS)
    end.send_request("service", "method", b"payload")
    seen: list[str] = []
    for start in range(0, len(data), step):
        end.receive_data(data[start : start + step])
        for event in end.events_received():
            assert not seen or not seen[-1].startswith(("ConnectionFailed", "PeerClosed"))
            seen.append(repr(event))
            if answer and isinstance(event, RequestReceived):
                end.send_response(event.stream_id, event.payload[:16])
    end.receive_eof()
    seen += map(repr, end.events_received())
    assert seen[-1].startswith((ConnectionFailed.__name__, PeerClosed.__name__))
    return seen, b"".join(end.data_to_send())


def one_input(data: bytes) -> None:
    """Check that the events, or a typed protocol error, are the same for any chunk size."""
    step = data[0] + 1 if data else 1
    # The comparison sends no replies: their timing determines the number of requests in flight,
    # and therefore which requests are rejected.
    assert run(data[1:], step, answer=False) == run(data[1:], 1 << 16, answer=False)
    run(data[1:], step, answer=True)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
