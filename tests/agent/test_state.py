# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.agent import http_server
from nri_scope.agent.http_server import STALE_S, AgentState


def test_a_folder_that_cannot_be_read_makes_the_agent_unhealthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(http_server, "monotonic", lambda: now)
    state = AgentState()
    state.update("", "")
    assert (state.unhealthy, state.not_ready) == ("", "")
    for _ in range(2):
        now += STALE_S / 2 + 1
        state.update("/data: no such folder", "")
    assert state.unhealthy == "the recordings were last read 32 s ago: /data: no such folder"
    state.update("", "no recorder is synchronised")
    assert (state.unhealthy, state.not_ready) == ("", "no recorder is synchronised")
