# SPDX-License-Identifier: Apache-2.0
"""The thread that asks the CRI."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.cri import CriClient
from nri_scope.writer.cri_thread import CriThread
from nri_scope.writer.messages import CriSource


def test_an_error_while_connecting_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(path: Path) -> None:
        raise ZeroDivisionError(path)

    monkeypatch.setattr(CriClient, "connect", fail)
    with pytest.raises(ZeroDivisionError):
        CriThread(CriSource(tmp_path, waits=False), lambda text: None)
