# SPDX-License-Identifier: Apache-2.0
"""Files saved by commands."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.tui.commands.copy import CLIPBOARD_MAX, joined_for_clipboard


def test_text_for_the_clipboard_is_not_generated_beyond_its_limit() -> None:
    generated = 0

    def texts() -> Iterator[str]:
        nonlocal generated
        while True:
            generated += 1
            yield "é" * 500

    assert joined_for_clipboard(texts()) is None
    assert generated == CLIPBOARD_MAX // 1_000 + 1
    assert joined_for_clipboard(["one", "\udcff"]) == "one\udcff"
