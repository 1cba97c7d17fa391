# SPDX-License-Identifier: Apache-2.0
"""In views of a cluster, advice names commands of ``kubectl nri-scope``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nri_scope.cli.kubectl.main import GROUPS, ClusterGroup, cli
from nri_scope.report import finding
from nri_scope.report.finding import CommandStyle, Finding, FindingKind, Level

COMMANDS = {name for names in GROUPS.values() for name in names}
SOURCES = (Path(finding.__file__).parent / "diagnosis").glob("*.py")
COMMAND = re.compile(r"`(?:kubectl )?nri-scope ([a-z]+)( FILE)?")


def texts() -> Iterator[str]:
    """Yield the texts of all findings."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_advice_names_commands_that_there_are() -> None:
    named = [text for text in texts() if COMMAND.search(text)]
    assert len(named) > 5
    assert [CommandStyle.FILE.words(text) for text in named] == named
    for text in named:
        shown = CommandStyle.CLUSTER.words(text)
        for match in COMMAND.finditer(shown):
            is_local = not match[0].startswith("`kubectl")
            if is_local:
                is_about_node = match[1] in ("doctor", "record") or "--live" in shown
                assert is_about_node or match[1] not in COMMANDS, shown
                assert is_about_node or "`kubectl nri-scope pull`" in shown, shown
            else:
                assert match[1] in COMMANDS and not match[2], shown
    one = Finding(FindingKind.ORDER, Level.NOTE, "a", "b", "`nri-scope blame FILE CONTAINER`.")
    assert one.with_commands(CommandStyle.FILE) == one
    told = one.with_commands(CommandStyle.CLUSTER)
    assert told.advice == told.record()["advice"] == "`kubectl nri-scope blame CONTAINER`."


def test_commands_of_the_cluster_group_get_its_style(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.pass_context
    def inner(context: click.Context) -> None:
        styles.append(context.find_object(CommandStyle))

    @click.command()
    @click.pass_context
    def outer(context: click.Context) -> None:
        # As a view of a node, which runs the command on a file.
        context.obj = "another object"
        context.invoke(inner)

    styles: list[CommandStyle | None] = []
    monkeypatch.setattr(ClusterGroup, "get_command", lambda *_: outer)
    cli.main(["report"], standalone_mode=False)
    assert styles == [CommandStyle.CLUSTER]
