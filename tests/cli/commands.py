# SPDX-License-Identifier: Apache-2.0
"""All commands of both programs, with those below other commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nri_scope.cli.kubectl.main import cli as cluster
from nri_scope.cli.main import COMPARE, cli


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands of a group, with the words that call them."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in (*group.list_commands(context), *([COMPARE] if group is cli else ())):
        found = group.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, *name.split()))


ALL_COMMANDS = [(group, *found) for group in (cli, cluster) for found in commands(group)]
"""Each group, the words after its name that call a command, and that command."""
