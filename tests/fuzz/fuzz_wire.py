# SPDX-License-Identifier: Apache-2.0
"""atheris target: arbitrary bytes through a `Connection` in arbitrary pieces.

Run by ``make fuzz``; any exception, any difference between divisions of the same bytes and any
event after the last one is a finding. Usage: ``python -m tests.fuzz.fuzz_wire``.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["nri_scope.wire"]):
    from nri_scope.wire import Connection, ConnectionFailed, Limits, PeerClosed, RequestReceived

LIMITS = Limits(frame_payload=4096, message_data=2048, requests_in_flight=8, safe_frame=64)


def run(data: bytes, step: int, *, answer: bool) -> tuple[list[str], bytes]:
    """Feed ``data`` in pieces of ``step`` bytes and describe all that comes of it."""
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
    """The fuzz law: events or a typed protocol error, the same for any division."""
    step = data[0] + 1 if data else 1
    # Answers are left out of the comparison: when they are given decides how many requests are
    # in flight, and so which of them are refused.
    assert run(data[1:], step, answer=False) == run(data[1:], 1 << 16, answer=False)
    run(data[1:], step, answer=True)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
