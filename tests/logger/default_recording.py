# SPDX-License-Identifier: Apache-2.0
"""The default path of launched loggers, replaced by one that is not of this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.logger.launched import LoggerSettings


def replace_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path below a folder where launched loggers record by default from now on."""
    path = folder / "var" / "default.nriscope.db"
    monkeypatch.setattr(
        "nri_scope.logger.launched.LoggerSettings.__init__.__defaults__",
        (path, *(LoggerSettings.__init__.__defaults__ or ())[1:]),
    )
    return path
