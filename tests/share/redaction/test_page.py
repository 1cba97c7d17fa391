# SPDX-License-Identifier: Apache-2.0
"""docs/redaction.md describes the rules."""

from __future__ import annotations

import re
from pathlib import Path

from nri_scope.share.redaction import Redactor
from nri_scope.share.redaction.builtin import BuiltIn
from nri_scope.share.redaction.harmless import KEPT_VARIABLES
from nri_scope.share.redaction.rules import read_rules

PAGE = Path(__file__).parents[3] / "docs" / "redaction.md"


def test_every_rule_is_in_the_table_with_its_switch() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (off)? *\|$", PAGE.read_text(), re.MULTILINE)

    assert rows == [
        (rule.value, rule.replaced_values, "" if rule.is_on else "off") for rule in BuiltIn
    ]


def test_every_kept_variable_is_listed() -> None:
    assert all(f"`{name}`" in PAGE.read_text() for name in KEPT_VARIABLES)


def test_the_example_is_a_valid_rule_file(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "rules.toml"
    path.write_text(example)
    redactor = Redactor(read_rules(path), bytes(32))

    assert redactor.text("see TICKET-4711").startswith("see redacted-")
    assert redactor.text("runs on worker-2 in eu-central-1") == (
        redactor.text("runs on worker-2") + " in eu-central-1"
    )
