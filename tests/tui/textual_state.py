# SPDX-License-Identifier: Apache-2.0
"""States of Textual that tests need, and that its public methods neither show nor make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from textual.app import App


@contextmanager
def without_screens(app: App[None]) -> Iterator[None]:
    """Take the screens away inside the block, as Textual does while an app ends.

    An app that really ends does not handle the next key in time.
    """
    mode = app.current_mode
    screens, app._screen_stacks[mode] = app._screen_stacks[mode], []
    yield
    app._screen_stacks[mode] = screens


def texts_sent(app: App[None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of what the app writes to its terminal from now on.

    The driver of a test has no terminal, and keeps nothing.
    """
    sent: list[str] = []
    driver = app._driver
    assert driver is not None
    monkeypatch.setattr(driver, "write", sent.append)
    return sent
