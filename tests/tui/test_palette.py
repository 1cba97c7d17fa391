# SPDX-License-Identifier: Apache-2.0
"""The palette finds each action by the words that people type."""

from __future__ import annotations

import pytest
from textual.command import CommandList

from nri_scope.cli.main import COMMANDS
from tests.tui.screen import showing

ACTIONS = {
    "log": "show the events",
    "show": "show or hide the details",
    "stats": "show the chain of plugins",
    "diff": "compare two marked events",
    "blame": "show who set what",
    "report": "show findings",
    "diagnose": "show findings",
    "export": "export the shown",
    "redact": "export the shown",
    "errors": "only failed events",
    "slow": "only slow events",
    "changes": "only events with changes",
    "search": "search",
    "timeline": "show the timeline",
    "tail": "follow new events",
}
"""Words, and the first action that they find."""
ELSEWHERE = {
    "replay",
    "record",
    "agent",
    "tui",
    "sql",
    "doctor",
    "demo",
    "tap",
    "scenario",
    "debug",
    "new-plugin",
    # Its findings name what a plugin missed, but not for a plugin by name.
    "missing",
}
"""Commands without an equivalent in the terminal interface."""


def test_each_command_is_found_or_has_no_equivalent() -> None:
    assert set(COMMANDS) - ELSEWHERE <= set(ACTIONS)


@pytest.mark.exhaustive
async def test_words_find_their_action_first() -> None:
    async with showing(size=(100, 30)) as screen:
        for word, label in ACTIONS.items():
            await screen.press("ctrl+p")
            await screen.until(lambda: screen.app.screen.query(CommandList))
            await screen.type(word)
            hits = screen.app.screen.query_one(CommandList)
            await screen.until(lambda: _first(hits).startswith(label))  # noqa: B023
            await screen.press("escape")


def _first(hits: CommandList) -> str:
    return str(hits.get_option_at_index(0).prompt) if hits.option_count else ""


async def test_blame_opens_the_tab_of_the_selected_event() -> None:
    async with showing(size=(100, 30)) as screen:
        await screen.go_to(5)
        await screen.press("b")
        await screen.shows("[Blame]")
