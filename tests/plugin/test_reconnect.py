# SPDX-License-Identifier: Apache-2.0
"""When to try again, and when not."""

from __future__ import annotations

import pytest

from nri_scope.errors import ConnectError, NriScopeError, RpcError
from nri_scope.plugin import Backoff, SessionEnd, keep_connected

END = SessionEnd("closed by the peer", configured=True, synchronized=True)
GONE = ConnectError("/run/nri.sock", "no such socket", may_come=True)
NO_SOCKET = ConnectError("/etc/passwd", "not a socket")
REFUSED = RpcError(3, "no")
AT_ONCE = Backoff(first=0.0001, longest=0.0001)


class Script:
    """Sessions that end as the test lists them."""

    def __init__(self, *outcomes: SessionEnd | NriScopeError) -> None:
        self.outcomes = list(outcomes)
        self.ends = 0
        self.waits: list[str] = []

    async def run_session(self) -> SessionEnd:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, NriScopeError):
            raise outcome
        self.ends += 1
        return outcome

    async def play(self, *, wait: bool = False) -> None:
        await keep_connected(
            self.run_session,
            wait=wait,
            once=False,
            stopping=lambda: not self.outcomes,
            backoff=AT_ONCE,
            on_wait=lambda error: self.waits.append(str(error)),
        )


async def test_first_failure_is_raised_unless_asked_to_wait() -> None:
    with pytest.raises(ConnectError):
        await Script(GONE, END).play()
    for never in (REFUSED, NO_SOCKET):
        with pytest.raises(type(never)):
            await Script(never, END).play(wait=True)
    script = Script(GONE, GONE, END)
    await script.play(wait=True)
    assert (script.ends, len(script.waits)) == (1, 1)


async def test_after_a_session_the_runtime_is_waited_for_and_told_once_each_time() -> None:
    script = Script(END, GONE, GONE, END, GONE, END)
    await script.play()
    assert (script.ends, len(script.waits)) == (3, 2)


async def test_refusal_after_a_session_is_waited_out_too() -> None:
    script = Script(END, REFUSED, END)
    await script.play()
    assert (script.ends, len(script.waits)) == (2, 1)


async def test_failure_while_stopping_is_the_end() -> None:
    script = Script(GONE)
    await script.play()
    assert script.waits == []


def test_pauses_grow_to_a_bound_and_start_anew_after_a_healthy_session() -> None:
    backoff = Backoff(first=0.1, longest=1, healthy=10)
    assert [backoff.pause(0.5) for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    assert backoff.pause(11) == pytest.approx(0.1)
    assert backoff.pause(0) == pytest.approx(0.2)
