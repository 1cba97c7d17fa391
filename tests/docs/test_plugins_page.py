# SPDX-License-Identifier: Apache-2.0
"""docs/plugins.md is made from the results, which have each plugin of the table."""

from __future__ import annotations

import json

from scripts import plugins_page
from tests.plugins.table import NOT_RUN, PLUGINS

RESULTS = json.loads(plugins_page.RESULTS.read_text())


def test_the_page_has_the_results() -> None:
    assert plugins_page.PAGE.read_text() == plugins_page.render()


def test_each_plugin_has_a_result_of_its_version() -> None:
    sources = {name: plugin.program.source.title for name, plugin in PLUGINS.items()}
    sources |= {name: source for name, (source, _) in NOT_RUN.items()}
    assert {name: row["source"] for name, row in RESULTS.items()} == sources
    assert all(row["golden"] == "holds twice" for name, row in RESULTS.items() if name in PLUGINS)
    assert all(RESULTS[name]["reason"] == reason for name, (_, reason) in NOT_RUN.items())
