# SPDX-License-Identifier: Apache-2.0
"""The installed command, and command lines that run in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nri_scope.cli.main import run

NRI_SCOPE = str(Path(sys.executable).parent / "nri-scope")


class CommandResult:
    """Output and exit status of a command line."""

    command: ClassVar[str]

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.status = run([self.command, *map(str, arguments)])
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()
