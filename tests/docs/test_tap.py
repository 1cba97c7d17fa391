# SPDX-License-Identifier: Apache-2.0
"""docs/tap.md says what is true: its options are there, its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from nri_scope.cli.tap import command
from nri_scope.logger.settings import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER
from nri_scope.nri.identity import ORIGINALS_FOLDER
from nri_scope.runtime.output import PASSING_RATE
from nri_scope.tap.launched_plugin import END_GRACE_S, STOP_GRACE_S
from nri_scope.tap.wrapper import SHELL

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tap.md").read_text(encoding="utf-8")


def test_every_option_is_told_of_and_none_that_is_not_there() -> None:
    options = {opt for param in command.params for opt in param.opts if opt.startswith("--")}
    told = set(re.findall(r"`(?:tap )?(--[a-z-]+)", PAGE)) | set(
        re.findall(r"tap (--[a-z-]+)", PAGE)
    )
    assert options - told == {"--output", "--socket"}  # -o, and what every command has
    assert told <= options


def test_its_numbers_are_those_of_the_code() -> None:
    assert (STOP_GRACE_S, END_GRACE_S) == (2.0, 5.0)
    assert "two seconds later" in PAGE and "five seconds to end" in PAGE
    assert f"{DEFAULT_MAX_SIZE >> 20} MiB" in PAGE
    assert f"{PASSING_RATE >> 10} KiB a second" in PAGE
    assert str(LAUNCHED_FOLDER) in PAGE and f"`{ORIGINALS_FOLDER}/" in PAGE and f"`{SHELL}`" in PAGE
