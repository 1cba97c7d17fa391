# SPDX-License-Identifier: Apache-2.0
"""docs/tap.md matches the code: its options exist, and its numbers are correct."""

from __future__ import annotations

import re
from pathlib import Path

from nri_scope.cli.tap import command
from nri_scope.nri.identity import ORIGINALS_FOLDER
from nri_scope.runtime.output import PASSING_RATE
from nri_scope.tap.launched_plugin import GRACE_S
from nri_scope.tap.wrapper import SHELL
from nri_scope.writer.background_output import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tap.md").read_text(encoding="utf-8")


def test_the_page_names_every_option_and_only_existing_ones() -> None:
    options = {opt for param in command.params for opt in param.opts if opt.startswith("--")}
    named = set(re.findall(r"`(?:tap )?(--[a-z0-9-]+)", PAGE)) | set(
        re.findall(r"tap (--[a-z0-9-]+)", PAGE)
    )
    assert options - named == {"--output", "--socket"}  # -o, and the common option
    assert named <= options


def test_numbers_match_the_code() -> None:
    assert GRACE_S == 2.0
    assert "two seconds later" in PAGE and "two seconds to end" in PAGE
    assert f"{DEFAULT_MAX_SIZE >> 20} MiB" in PAGE
    assert f"{PASSING_RATE >> 10} KiB a second" in PAGE
    assert str(LAUNCHED_FOLDER) in PAGE and f"`{ORIGINALS_FOLDER}/" in PAGE and f"`{SHELL}`" in PAGE
