# SPDX-License-Identifier: Apache-2.0
"""Each text of why a connection ended is parsed as what it was made of, also in old recordings."""

from __future__ import annotations

import pytest

from nri_scope.end_reasons import (
    ORPHANED,
    PLUGIN,
    RUNTIME,
    RUNTIME_ENDED,
    RUNTIME_RESTARTS,
    EndReason,
    closed_by,
    names_runtime,
    over_limit,
    oversized_message,
    parse_end_reason,
    protocol_error,
    refused,
    tapped_close,
    with_exit,
)
from nri_scope.process.child import describe_exit
from nri_scope.wire.ttrpc import Limits, MuxReader

UNKNOWN = EndReason(False, False, False, False, False)
REFUSAL = UNKNOWN._replace(is_refusal=True)
BY_RUNTIME = UNKNOWN._replace(is_by_runtime=True)
EXIT = UNKNOWN._replace(has_plugin_exit=True)
FAILURE = EXIT._replace(is_plugin_failure=True)
WITH_RUNTIME = EXIT._replace(is_exit_with_runtime=True)

MADE = [
    (refused("no"), REFUSAL),
    (closed_by(RUNTIME), BY_RUNTIME),
    (closed_by(RUNTIME, in_message=True), BY_RUNTIME),
    (closed_by(PLUGIN), UNKNOWN),
    (closed_by("the peer"), UNKNOWN),
    (tapped_close(RUNTIME), BY_RUNTIME),
    (tapped_close(RUNTIME, "reset", in_message=True), BY_RUNTIME),
    (tapped_close(PLUGIN), UNKNOWN),
    (protocol_error(RUNTIME, "x"), UNKNOWN),
    (ORPHANED, UNKNOWN._replace(is_plugin_failure=True)),
    (RUNTIME_RESTARTS, UNKNOWN),
    (with_exit(closed_by(PLUGIN), describe_exit(1)), EXIT),
    (with_exit(tapped_close(PLUGIN), describe_exit(0)), EXIT),
    *((with_exit(tapped_close(PLUGIN), describe_exit(code)), FAILURE) for code in (1, 10, -9)),
    (with_exit(tapped_close(PLUGIN), f"{describe_exit(3)}; its last output: x"), FAILURE),
    (
        with_exit(tapped_close(RUNTIME), describe_exit(-15)),
        WITH_RUNTIME._replace(is_by_runtime=True),
    ),
    *((with_exit(it, describe_exit(0)), WITH_RUNTIME) for it in (RUNTIME_ENDED, RUNTIME_RESTARTS)),
]
STORED = [
    ("", UNKNOWN),
    ("the runtime refused the registration: no", REFUSAL),
    ("closed by the runtime because of --fault drop-connection", BY_RUNTIME),
    ("the runtime closed the connection in the middle of a message: reset", BY_RUNTIME),
    ("the plugin closed the connection: the plugin ended, exit status 3", FAILURE),
    ("the plugin closed the connection: the plugin ended, exit status 0", EXIT),
    ("the runtime restarts: the plugin ended, exit status 1", WITH_RUNTIME),
    (
        "the process that was connected to the runtime has ended",
        UNKNOWN._replace(is_plugin_failure=True),
    ),
]


@pytest.mark.parametrize(("text", "meaning"), [*MADE, *STORED])
def test_a_reason_is_parsed_as_what_it_was_made_of(text: str, meaning: EndReason) -> None:
    assert parse_end_reason(text) == meaning


def test_a_tapped_call_without_an_answer_names_who_closed() -> None:
    assert names_runtime(f"not answered: {tapped_close(RUNTIME)}")
    assert not names_runtime(f"not answered: {tapped_close(PLUGIN)}")


def test_a_message_over_the_limit_is_parsed_as_what_it_was_made_of() -> None:
    _, error = MuxReader(Limits(frame_payload=10)).feed(b"\0\0\0\1\0\0\1\0")
    for words, found in (
        (over_limit("Synchronize", 5, 4), ("Synchronize", 5, 4)),
        (over_limit("message", 5_000_000, 4), ("message", 5_000_000, 4)),
        (str(error), ("frame", 256, 10)),
    ):
        texts = protocol_error(RUNTIME, words), f"{RUNTIME} sent {words}; it was relayed"
        for text in texts:
            assert oversized_message(["", "x", text]) == found
        for text in (words, protocol_error(PLUGIN, words), protocol_error(RUNTIME, "x")):
            assert oversized_message([text]) is None
    stored = "protocol error of the runtime: mux frame of 9 bytes on connection 1; the limit is 8"
    assert oversized_message([stored]) == ("frame", 9, 8)
